"""Which forecast a name means: its id, the beginning of one, or a question, of which it then is the latest that counts.

A free forecaster often forecasts beside the one that a person wants to hear of, and ends later.
"""

import re
from collections.abc import Sequence

from bot.app import Records
from bot.cli.records import question_named
from bot.config.nearest import instead
from bot.domain.forecast import Forecast
from bot.errors import NotFound
from bot.store.forecasts import Trace
from bot.store.tallies import answered

# The beginning of a forecast's id; fewer characters would be words of a title.
LEAST_ID, WHOLE_ID = 6, 24
FORECAST_ID = re.compile(rf"[0-9a-f]{{{LEAST_ID},{WHOLE_ID}}}")
# A shorter one may be a question's name as well, so this is looked at where there is no such question.
_SHORT_ID = re.compile(rf"[0-9a-f]{{1,{LEAST_ID - 1}}}")
FORECAST_HELP = (
    f"A forecast's id or at least its first {LEAST_ID} characters; or a question: then the latest by its venue's first "
    "forecaster, else by one that asks models, else by any."
)
FORECASTER_HELP = "Of a question, the latest forecast by NAME."


async def forecasts_named(records: Records, name: str) -> list[Forecast]:
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
        ref = await question_named(records, name)
    except NotFound as error:
        if not _SHORT_ID.fullmatch(name):
            raise
        message = f"{error}; of a forecast's id give at least {LEAST_ID} characters"
        raise NotFound(message) from None
    history = await records.ledger.forecasts.history(ref)
    if not history:
        message = f"{ref} has no forecast yet; forecast what is due with: foxcast run --once"
        raise NotFound(message)
    return history


async def forecast_named(records: Records, name: str, forecaster: str | None = None) -> Forecast:
    """Return the one completed forecast that a name means; raises NotFound as above, and for a wrong forecaster."""
    history = await forecasts_named(records, name)
    if forecaster is None:
        forecaster = await preferred(records, history)
    return by(history, forecaster)[-1]


def by(history: Sequence[Forecast], forecaster: str) -> list[Forecast]:
    """Return the forecasts that one forecaster made; raises NotFound where there is none."""
    found = [one for one in history if one.forecaster == forecaster]
    if not found:
        message = f"{forecaster} has not forecast {history[-1].ref}; " + instead(
            forecaster, {one.forecaster for one in history}
        )
        raise NotFound(message)
    return found


async def preferred(records: Records, history: Sequence[Forecast]) -> str:
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


async def trace_named(records: Records, name: str, forecaster: str | None = None) -> Trace:
    """Return all on record of the forecast that a name means; a whole id finds also one that was not completed.

    Raises NotFound as above.
    """
    if forecaster is None and len(name) == WHOLE_ID and FORECAST_ID.fullmatch(name):
        return await records.ledger.forecasts.trace(name)
    return await records.ledger.forecasts.trace((await forecast_named(records, name, forecaster)).id)
