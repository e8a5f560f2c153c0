"""Read the ledger from a command.

Also while a daemon writes it, and find the question, forecast or venue that a name means.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from bot.app import Records, open_records
from bot.clock import SystemClock
from bot.config.schema import Config
from bot.core.nearest_names import suggest_names
from bot.domain.forecast import Forecast
from bot.domain.question import QuestionRef
from bot.errors import ConfigError, NotFound
from bot.registry import Registry
from bot.store.forecasts import Trace
from bot.store.questions import QuestionFilter
from bot.store.tallies import answered

T = TypeVar("T")


MAX_CANDIDATES = 10


def query_ledger(config: Config, query: Callable[[Records], Awaitable[T]]) -> T:
    """Return what the query makes of the ledger; raises NotFound, with the remedy, where there is none yet."""

    async def opened() -> T:
        async with open_records(config) as records:
            return await query(records)

    return asyncio.run(opened())


async def find_question(records: Records, text: str) -> QuestionRef:
    """Return the question that a full reference, a key or a unique part of one, or words of a title mean.

    Raises NotFound that lists the candidates where several answer, or says that none does.
    """
    found = await records.ledger.questions.search(text, limit=MAX_CANDIDATES + 1)
    exact = [row for row in found if text in {str(row.ref), row.ref.key}]
    match exact or found:
        case [row]:
            return row.ref
        case []:
            message = f"nothing in the ledger is called {text}; list what there is with: foxcast questions"
            raise NotFound(message)
        case rows:
            listed = [f"  {row.ref}  {row.title}" for row in rows[:MAX_CANDIDATES]]
            more = ["  and more"] if len(rows) > MAX_CANDIDATES else []
            message = "\n".join([f"{text} is not one question; name one of", *listed, *more])
            raise NotFound(message)


# The beginning of a forecast's id; fewer characters would be words of a title.
MIN_ID_CHARS, FULL_ID_CHARS = 6, 24


FORECAST_ID = re.compile(rf"[0-9a-f]{{{MIN_ID_CHARS},{FULL_ID_CHARS}}}")


# A shorter one may be a question's name as well, so this is looked at where there is no such question.
_SHORT_ID = re.compile(rf"[0-9a-f]{{1,{MIN_ID_CHARS - 1}}}")


FORECAST_HELP = (
    f"A forecast's id or at least its first {MIN_ID_CHARS} characters; or a question: then the latest by its venue's "
    "first forecaster, else by one that asks models, else by any."
)


FORECASTER_HELP = "Of a question, the latest forecast forecasts_by NAME."


async def find_forecasts(records: Records, name: str) -> list[Forecast]:
    """Return the completed forecasts that a name means: one by its id, or all of one question, oldest first.

    Raises NotFound for a beginning of several ids, for a name that nothing answers to, or several questions do.
    """
    found = await records.ledger.forecasts.find(name) if FORECAST_ID.fullmatch(name) else []
    if len(found) > 1:
        listed = [f"  {forecast.id}  {forecast.ref}" for forecast in found]
        message = "\n".join([f"{name} begins several forecasts; name one of", *listed])
        raise NotFound(message)
    if found:
        return found
    try:
        ref = await find_question(records, name)
    except NotFound as error:
        if not _SHORT_ID.fullmatch(name):
            raise
        message = f"{error}; of a forecast's id give at least {MIN_ID_CHARS} characters"
        raise NotFound(message) from None
    history = await records.ledger.forecasts.history(ref)
    if not history:
        message = f"{ref} has no forecast yet; forecast what is due with: foxcast run --once"
        raise NotFound(message)
    return history


async def find_forecast(records: Records, name: str, forecaster: str | None = None) -> Forecast:
    """Return the one completed forecast that a name means; raises NotFound as above, and for a wrong forecaster."""
    history = await find_forecasts(records, name)
    if forecaster is None:
        forecaster = await preferred_forecaster(records, history)
    return forecasts_by(history, forecaster)[-1]


def forecasts_by(history: Sequence[Forecast], forecaster: str) -> list[Forecast]:
    """Return the forecasts that one forecaster made; raises NotFound where there is none."""
    found = [one for one in history if one.forecaster == forecaster]
    if not found:
        message = f"{forecaster} has not forecast {history[-1].ref}; " + suggest_names(
            forecaster, {one.forecaster for one in history}
        )
        raise NotFound(message)
    return found


async def preferred_forecaster(records: Records, history: Sequence[Forecast]) -> str:
    """Return whose forecasts of a question a person most likely means; the history must not be empty.

    It is the venue's first forecaster, else the last one that heard a model, else the last one.
    """
    table = records.config.venues.get(history[-1].ref.venue)
    first = None
    if table is not None:
        first = table.forecasters_of(await records.ledger.questions.get(history[-1].ref))[0]
    if first is not None and any(one.forecaster == first for one in history):
        return first
    if len({one.forecaster for one in history}) == 1:
        return history[-1].forecaster
    heard = {scope for scope, _ in await answered(records.ledger, [one.id for one in history])}
    return next((one.forecaster for one in reversed(history) if one.id in heard), history[-1].forecaster)


async def find_trace(records: Records, name: str, forecaster: str | None = None) -> Trace:
    """Return all on record of the forecast that a name means; a whole id finds also one that was not completed.

    Raises NotFound as above.
    """
    if forecaster is None and len(name) == FULL_ID_CHARS and FORECAST_ID.fullmatch(name):
        return await records.ledger.forecasts.trace(name)
    return await records.ledger.forecasts.trace((await find_forecast(records, name, forecaster)).id)


async def require_known_venue(records: Records, venue: str | None) -> None:
    """Raise ConfigError with the known names for a venue that neither config nor the ledger knows; None is any."""
    if venue is None or venue in records.config.venues:
        return
    chosen = QuestionFilter(venue=venue, limit=1)
    if not await records.ledger.questions.rows(chosen, now=SystemClock().now()):
        raise ConfigError(unknown_venue_message(records.config, venue))


def require_venue_archive(config: Config, registry: Registry, venue: str | None) -> None:
    """Raise ConfigError with the known names for a venue of which no enabled plugin reads past rounds; None is any."""
    able = [spec.name for spec in registry.venues if spec.archive is not None]
    if venue is None or venue in able:
        return
    if venue not in registry.venues and venue not in config.venues:
        raise ConfigError(unknown_venue_message(config, venue, *able))
    message = f"--venue {venue}: it has no past rounds that could be read; {suggest_names(venue, able)}"
    raise ConfigError(message)


def unknown_venue_message(config: Config, venue: str, *others: str) -> str:
    """Say that there is no such venue, and which there are."""
    return f"--venue {venue}: there is no such venue; {suggest_names(venue, {*config.venues, *others})}"


def require_configured_venue(config: Config, venue: str) -> None:
    """Raise NotFound for a venue that config does not have, naming the nearest."""
    if venue not in config.venues:
        message = f"config.toml has no venue {venue}; {suggest_names(venue, config.venues)}"
        raise NotFound(message)


CONFIGURED_VENUE_HELP = "A venue of config.toml."
