"""Read the ledger, also while a daemon writes it, and find the question or forecast that a name means."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from bot.config.schema import Config
from bot.core.errors import NotFoundError
from bot.core.forecasts import Forecast
from bot.core.plain_text import suggest_names
from bot.core.questions import QuestionRef
from bot.store.forecast_queries import find_answered_trials
from bot.store.forecasts import ForecastTrace
from bot.store.ledger import ReadOnlyState, open_read_only

T = TypeVar("T")


MAX_CANDIDATES = 10


def query_ledger(config: Config, query: Callable[[ReadOnlyState], Awaitable[T]]) -> T:
    """Return the query's result on the ledger; raises NotFoundError, with the remedy, where there is none yet."""

    async def opened() -> T:
        async with open_read_only(config) as records:
            return await query(records)

    return asyncio.run(opened())


async def find_question(records: ReadOnlyState, text: str) -> QuestionRef:
    """Return the question that a full reference, a key or a unique part of one, or words of a title mean.

    Raises NotFoundError that lists the candidates where there are several, or says that there is none.
    """
    found = await records.ledger.questions.search(text, limit=MAX_CANDIDATES + 1)
    exact = [row for row in found if text in {str(row.ref), row.ref.key}]
    match exact or found:
        case [row]:
            return row.ref
        case []:
            message = f"no question in the ledger is named {text}; list them with: foxcast questions"
            raise NotFoundError(message)
        case rows:
            listed = [f"  {row.ref}  {row.title}" for row in rows[:MAX_CANDIDATES]]
            more = ["  and more"] if len(rows) > MAX_CANDIDATES else []
            message = "\n".join([f"{text} is not one question; name one of", *listed, *more])
            raise NotFoundError(message)


# The beginning of a forecast's id; a shorter text would be words of a title.
MIN_ID_CHARS, FULL_ID_CHARS = 6, 24


FORECAST_ID = re.compile(rf"[0-9a-f]{{{MIN_ID_CHARS},{FULL_ID_CHARS}}}")


# A shorter one may be a question's name as well, so this is used where there is no such question.
_SHORT_ID = re.compile(rf"[0-9a-f]{{1,{MIN_ID_CHARS - 1}}}")


async def find_forecasts(records: ReadOnlyState, name: str) -> list[Forecast]:
    """Return the completed forecasts that a name means: one by its id, or all of one question, oldest first.

    Raises NotFoundError for the beginning of several ids, and for a name of no question or of several.
    """
    found = await records.ledger.forecasts.find(name) if FORECAST_ID.fullmatch(name) else []
    if len(found) > 1:
        listed = [f"  {forecast.id}  {forecast.ref}" for forecast in found]
        message = "\n".join([f"{name} begins several forecasts; name one of", *listed])
        raise NotFoundError(message)
    if found:
        return found
    try:
        ref = await find_question(records, name)
    except NotFoundError as error:
        if not _SHORT_ID.fullmatch(name):
            raise
        message = f"{error}; of a forecast's id give at least {MIN_ID_CHARS} characters"
        raise NotFoundError(message) from None
    history = await records.ledger.forecasts.history(ref)
    if not history:
        message = f"{ref} has no forecast yet; forecast what is due with: foxcast run --once"
        raise NotFoundError(message)
    return history


async def find_forecast(records: ReadOnlyState, name: str, forecaster: str | None = None) -> Forecast:
    """Return the one completed forecast that a name means.

    Raises NotFoundError as above, and for a wrong forecaster.
    """
    history = await find_forecasts(records, name)
    if forecaster is None:
        forecaster = await preferred_forecaster(records, history)
    return forecasts_by(history, forecaster)[-1]


def forecasts_by(history: Sequence[Forecast], forecaster: str) -> list[Forecast]:
    """Return the forecasts that one forecaster made; raises NotFoundError where there is none."""
    found = [one for one in history if one.forecaster == forecaster]
    if not found:
        message = f"{forecaster} has not forecast {history[-1].ref}; " + suggest_names(
            forecaster, {one.forecaster for one in history}
        )
        raise NotFoundError(message)
    return found


async def preferred_forecaster(records: ReadOnlyState, history: Sequence[Forecast]) -> str:
    """Return the forecaster whose forecasts of a question a person most likely means; the history must not be empty.

    It is the venue's first forecaster, else the last one that used a model, else the last one.
    """
    table = records.config.venues.get(history[-1].ref.venue)
    first = None
    if table is not None:
        first = table.forecasters_of(await records.ledger.questions.get(history[-1].ref))[0]
    if first is not None and any(one.forecaster == first for one in history):
        return first
    if len({one.forecaster for one in history}) == 1:
        return history[-1].forecaster
    answered = {scope for scope, _ in await find_answered_trials(records.ledger, [one.id for one in history])}
    return next((one.forecaster for one in reversed(history) if one.id in answered), history[-1].forecaster)


async def find_trace(records: ReadOnlyState, name: str, forecaster: str | None = None) -> ForecastTrace:
    """Return the record of the forecast that a name means; a whole id finds also one that was not completed.

    Raises NotFoundError as above.
    """
    if forecaster is None and len(name) == FULL_ID_CHARS and FORECAST_ID.fullmatch(name):
        return await records.ledger.forecasts.trace(name)
    return await records.ledger.forecasts.trace((await find_forecast(records, name, forecaster)).id)
