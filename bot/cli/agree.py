"""Asks before much money is spent."""

import sys

import typer

from bot.app import Bay
from bot.errors import ConfigError
from bot.jobs.spending import expected


async def agree(bay: Bay, questions: int, *, yes: bool, above_usd: float) -> None:
    """Ask a person where forecasting so many questions is expected to cost more than a threshold in US dollars.

    Raises ConfigError where nobody is there to be asked, or where the answer is no.
    """
    if bay.gateway is None or yes:
        return
    cost = await expected(bay.gateway, bay.seat, questions)
    if cost is not None and cost <= above_usd:
        return
    said = "an unknown amount" if cost is None else f"about {cost:,.2f} US dollars"
    question = f"{questions:,} forecasts by {bay.seat.name} are expected to cost {said}. Go on?"
    if sys.stdin.isatty() and typer.confirm(question, err=True):
        return
    message = f"{question.removesuffix(' Go on?')} Say yes with --yes, or raise llm.budget.ask_above_usd"
    raise ConfigError(message)
