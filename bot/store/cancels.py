"""Requests to take orders back, on their way to the daemon."""

from pathlib import Path

from bot.domain.request import CancelOrder
from bot.store.codec import Form
from bot.store.mailbox import Waiting, leave, waiting_in
from bot.store.requests import FOLDER

ORDERS = "orders"

_FORM: Form[CancelOrder] = Form("request", CancelOrder)


def ask(folder: Path, request: CancelOrder) -> Path:
    """Leave a request for the daemon of the folder, readable by its owner alone; raises StoreError."""
    return leave(folder / FOLDER / ORDERS, _FORM.encode(request), at=request.asked_at)


def waiting(folder: Path) -> list[Waiting[CancelOrder]]:
    """Return the requests that wait, oldest first."""
    return waiting_in(folder / FOLDER / ORDERS, _FORM)
