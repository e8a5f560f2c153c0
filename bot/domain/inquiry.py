"""A question to a model on its way to the gateway: what is asked, and whom it is charged to."""

from dataclasses import dataclass

from bot.domain.prompt import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Whom a call is charged to.

    ``scope`` is the id of the forecast, or of what stands in for it in a backtest; ``ref`` the question, ``venue:key``.
    """

    scope: str
    ref: str
    venue: str
    forecaster: str
    trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What is asked of the model in a role.

    ``nth`` counts, from 0, the same question within one trial; two inquiries that differ in nothing but their charge
    have the same answer, so a trial that wants chance of its own brings a ``seed``.
    """

    role: str
    prompt: Prompt
    charge: Charge
    seed: int | None = None
    nth: int = 0
