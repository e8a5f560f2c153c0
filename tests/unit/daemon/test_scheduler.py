from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.daemon.scheduler import SLOT_EPOCH, SlotTrigger

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds of st.datetimes are naive
PERIODS = st.timedeltas(timedelta(seconds=1), timedelta(days=60))


@given(every=PERIODS, now=MOMENTS, previous=st.none() | MOMENTS)
def test_the_next_slot_is_the_first_one_after_both_moments(
    every: timedelta, now: datetime, previous: datetime | None
) -> None:
    slot = SlotTrigger(every=every).get_next_fire_time(previous, now)
    after = max(now, previous or now)
    assert after < slot <= after + every
    assert (slot - SLOT_EPOCH) % every == timedelta()


@given(every=PERIODS, phase=PERIODS, now=MOMENTS)
def test_a_phase_moves_every_slot_by_itself(every: timedelta, phase: timedelta, now: datetime) -> None:
    slot = SlotTrigger(every=every, phase=phase).get_next_fire_time(None, now)
    assert slot - phase == SlotTrigger(every=every).get_next_fire_time(None, now - phase)


@given(every=PERIODS, start=MOMENTS, away=PERIODS)
def test_a_restart_moves_no_slot(every: timedelta, start: datetime, away: timedelta) -> None:
    running = SlotTrigger(every=every)
    last = running.get_next_fire_time(None, start)
    restarted = SlotTrigger(every=every).get_next_fire_time(None, last + away)
    assert restarted == running.get_next_fire_time(last, last + away)


def test_a_year_of_hourly_slots_in_utc_knows_no_summer_time() -> None:
    slots = SlotTrigger(every=timedelta(hours=1), phase=timedelta(minutes=30))
    slot = slots.get_next_fire_time(None, datetime(2026, 1, 1, tzinfo=UTC))
    seen = [slot]
    while slot.year == 2026:
        slot = slots.get_next_fire_time(slot, slot)
        seen.append(slot)
    assert len(seen) == 365 * 24 + 1
    assert {later - earlier for earlier, later in pairwise(seen)} == {timedelta(hours=1)}
    assert {moment.utcoffset() for moment in seen} == {timedelta()}


@pytest.mark.parametrize("every", [timedelta(), timedelta(seconds=-1)])
def test_a_period_that_is_not_positive_is_refused(every: timedelta) -> None:
    with pytest.raises(ValueError, match="cannot run every"):
        SlotTrigger(every=every)
