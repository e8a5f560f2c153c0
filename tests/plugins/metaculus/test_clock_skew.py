"""The clock of the site is off: what was written is known all the same, and windows are kept by what the site says."""

from datetime import timedelta

import pytest

from bot.api import BinaryPrediction, IntentAction
from bot.simulator.faults import RequestFault
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion as There
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.records import batch, intent
from tests.plugins.metaculus.writer_helpers import ABSENT, ACKED, REFUSED, UNKNOWN, asked, ref, remark

SKEWS = pytest.mark.parametrize("skew_s", [-300.0, -1.0, 1.0, 300.0])


def opened(site: MetaculusFixture) -> There:
    """Return a question that was opened an hour ago."""
    site.fake.faults.skew_s = -3600.0
    there = site.fake.world.add_question()
    site.fake.faults.skew_s = 0.0
    return there


@SKEWS
async def test_a_forecast_is_taken_and_read_back(site: MetaculusFixture, skew_s: float) -> None:
    rain = opened(site)
    site.fake.faults.skew_s = skew_s
    for way in (0.2, 0.7):
        [receipt] = await site.send(
            batch(intent(ref(rain), BinaryPrediction(way)), questions=(await asked(site, rain),))
        )
        assert receipt.state is ACKED
        assert "read back" not in receipt.detail
    assert len(rain.forecasts_of(site.bot.id)) == 2


@SKEWS
@pytest.mark.parametrize("action", [IntentAction.FORECAST, IntentAction.COMMENT])
async def test_what_was_lost_is_found_or_known_to_be_absent(
    site: MetaculusFixture, skew_s: float, action: IntentAction
) -> None:
    rain, snow = opened(site), opened(site)
    site.fake.faults.skew_s = skew_s
    for there, fault, state in ((rain, RequestFault.DROPPED_AFTER, ACKED), (snow, RequestFault.DROPPED_BEFORE, ABSENT)):
        one = intent(ref(there)) if action is IntentAction.FORECAST else remark(there)
        wanted = await site.sealed(batch(one, questions=(await asked(site, there),)))
        site.fake.faults.schedule(fault, method="POST")
        assert [receipt.state for receipt in await site.writer.submit(wanted)] == [UNKNOWN]
        assert [receipt.state for receipt in await site.writer.read_submissions(wanted)] == [state]


@SKEWS
async def test_a_withdrawal_is_known_as_one(site: MetaculusFixture, skew_s: float) -> None:
    rain = opened(site)
    site.fake.faults.skew_s = skew_s
    assert [one.state for one in await site.send(batch(intent(ref(rain))))] == [ACKED]
    wanted = await site.sealed(batch(intent(ref(rain), action=IntentAction.WITHDRAW)))
    assert [one.state for one in await site.writer.submit(wanted)] == [ACKED]
    assert [one.state for one in await site.writer.read_submissions(wanted)] == [ACKED]


async def test_a_question_that_the_site_closes_before_our_clock_does_is_a_refusal(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question(scheduled_close=site.clock.now() + timedelta(seconds=200))
    wanted = await site.sealed(batch(intent(ref(rain)), questions=(await asked(site, rain),)))
    site.fake.faults.skew_s = 300.0
    assert [one.state for one in await site.writer.submit(wanted)] == [REFUSED]
    assert site.ours(rain) == []
