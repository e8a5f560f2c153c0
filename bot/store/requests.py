"""What people ask of the daemon, on its way there."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from bot.domain.request import Request, SignedRequest
from bot.errors import ContractError
from bot.store.codec import Form
from bot.store.mailbox import MAX_BYTES, Waiting, leave, waiting_in

FOLDER = "requests"

_REQUEST: Form[Request] = Form("request", Request)


def ask(state: Path, request: Request, *, at: datetime) -> Path:
    """Leave a request for the daemon of the state folder, readable by its owner alone; raises StoreError.

    Raises ContractError for one that is too large to be read.
    """
    text = _REQUEST.encode(request)
    if len(text.encode()) > MAX_BYTES:
        message = f"a request ({request.kind}) takes more than {MAX_BYTES} bytes; shorten its texts"
        raise ContractError(message)
    return leave(state / FOLDER, text, at=at)


def said(request: SignedRequest) -> str:
    """Return what a request says, without its proof: the text that the proof is of."""
    return _REQUEST.encode(replace(request, proof=""))


def waiting(state: Path) -> list[Waiting[Request]]:
    """Return the requests that wait, oldest first."""
    return waiting_in(state / FOLDER, _REQUEST)
