"""What the readiness job found is read as it was written, however one venue's name begins another's."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from bot.execution.gate.readiness import LiveReadiness, readiness_faults
from bot.store.event_log import JobRunRow

THEN = datetime(2026, 11, 21, 11, 55, tzinfo=UTC)


def _run(detail: str, *, ok: bool = True) -> JobRunRow:
    return JobRunRow(name="ready", started_at=THEN, ended_at=THEN, ok=ok, detail=detail)


WHYS = st.sampled_from(["", "key is not set; make one", "off by 3 s, set it", "1 of us: look", "a, b; c: d"])


@given(here=st.tuples(WHYS, WHYS), there=st.tuples(WHYS, WHYS), common=st.tuples(WHYS, WHYS))
def test_what_each_of_several_venues_lacks_is_read_as_it_was_written(
    here: tuple[str, str], there: tuple[str, str], common: tuple[str, str]
) -> None:
    """The text is written as the job writes it, out of what the daemon itself goes by."""
    clock, database = common
    ready = LiveReadiness(clock=clock, database=database)
    ready.credentials, ready.reconciliation = {"sea": here[0], "sea-2": there[0]}, {"sea": here[1], "sea-2": there[1]}
    told = {venue: ready.missing_requirements(venue) for venue in ("sea", "sea-2")}
    detail = "; ".join(f"{venue}: {', '.join(what) or 'ready'}" for venue, what in told.items())
    found = readiness_faults(_run(detail), ["sea", "sea-2", "lake"])
    assert {venue: tuple(f"{what}: {why}" for what, why in parts.items()) for venue, parts in found.items()} == told


def test_what_was_told_of_no_venue_is_nothing() -> None:
    assert readiness_faults(_run("nothing is live"), ["sea"]) == {}
    assert readiness_faults(_run("nothing is live"), []) == {}
    assert readiness_faults(_run("sea: ready", ok=False), ["sea"]) == {}
    assert readiness_faults(None, ["sea"]) == {}
