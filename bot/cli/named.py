"""Which forecast a name means: its id, the beginning of one, or a question, whose latest it then is."""

import re

from bot.app import Records
from bot.cli.records import question_named
from bot.domain.forecast import Forecast
from bot.errors import NotFound
from bot.store.forecasts import Trace

# The beginning of a forecast's id; fewer characters would be words of a title.
FORECAST_ID = re.compile(r"[0-9a-f]{6,24}")
WHOLE_ID = 24
FORECAST_HELP = "A forecast's id or its beginning; or a question, whose latest forecast it then is."


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
    ref = await question_named(records, name)
    history = await records.ledger.forecasts.history(ref)
    if not history:
        message = f"{ref} has no forecast yet; forecast what is due with: foxcast run --once"
        raise NotFound(message)
    return history


async def trace_named(records: Records, name: str) -> Trace:
    """Return all on record of the forecast that a name means; a whole id finds also one that was not completed.

    Raises NotFound as above.
    """
    if len(name) == WHOLE_ID and FORECAST_ID.fullmatch(name):
        return await records.ledger.forecasts.trace(name)
    return await records.ledger.forecasts.trace((await forecasts_named(records, name))[-1].id)
