"""What a forecaster said while it was clairvoyant never leaves, whatever config says of it by now."""

import pytest

from bot.domain.forecast import Forecast, Limits
from bot.domain.prediction import Binary
from bot.domain.setup import Setup
from bot.domain.submission import Hold, Mode
from bot.gate.case import Case, Lane, intent_of
from bot.gate.recheck import Recheck
from bot.store.forecasts import Opening
from tests.unit.jobs.conftest import FIRST, VENUE, House, question


async def made(house: House, *, clairvoyant: bool) -> Forecast:
    """Return a forecast of the one that leads, as a command makes it beside the daemon."""
    now = house.clock.now()
    asked = question(now=now)
    await house.ledger.questions.record([asked], seen_at=now)
    setup = Setup(settings={}, trials=1, aggregate="mean", limits=Limits(), clairvoyant=clairvoyant)
    opening = Opening(question=asked, forecaster=FIRST, cutoff=now, why="asked for", now=now, setup=setup)
    running = await house.ledger.forecasts.begin(opening)
    said = {"outcome": Binary(0.99)}
    forecast = Forecast(
        id=running.id,
        ref=asked.ref,
        version=running.version,
        forecaster=FIRST,
        revision=running.revision,
        cutoff=now,
        made_at=now,
        why="asked for",
        raw=said,
        predictions=said,
    )
    await house.ledger.forecasts.complete(forecast, next_due=None)
    return forecast


async def test_it_is_held_for_good_once_its_forecaster_leads_and_is_clairvoyant_no_more(house: House) -> None:
    forecast = await made(house, clairvoyant=True)
    assert await house.submit() == "0 planned, 1 held, 0 acknowledged"
    [decided] = await house.ledger.submissions.decisions(forecast.id)
    assert isinstance(decided.decision, Hold)
    assert "clairvoyant" in decided.decision.why
    assert decided.decision.until is None
    await house.clock.advance(30 * 86_400.0)
    assert await house.submit() == "0 planned, 0 held, 0 acknowledged"
    assert house.book.writes == []


async def test_the_next_one_which_it_makes_under_guard_leaves(house: House) -> None:
    await made(house, clairvoyant=True)
    await house.clock.advance(60.0)
    await made(house, clairvoyant=False)
    assert await house.submit() == "1 planned, 1 held, 1 acknowledged"


@pytest.mark.parametrize("clairvoyant", [True, False])
async def test_what_was_planned_is_looked_at_again_before_it_is_written(house: House, *, clairvoyant: bool) -> None:
    forecast = await made(house, clairvoyant=clairvoyant)
    lane = Lane(venue=VENUE, mode=Mode.PAPER, primary=FIRST, account="me")
    now = house.clock.now()
    planned = Case(lane=lane, forecast=forecast, question=question(now=now), standing=None, locked=None, now=now)
    recheck = Recheck(ledger=house.ledger, lanes={VENUE: lane}, brake=house.brake, clock=house.clock)
    why = await recheck(intent_of(planned))
    assert (why is not None and "clairvoyant" in why) == clairvoyant
    assert (why is None) != clairvoyant
