from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.operator_requests import LockQuestion, UnlockQuestion
from bot.core.questions import QuestionRef
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.store.requests import REFUSED_FOLDER, REQUEST_FOLDER, pending_requests, send_request
from tests.unit.jobs.conftest import VENUE, JobsFixture

REF = QuestionRef(VENUE, "rain")


async def attended(jobs_fixture: JobsFixture) -> str:
    return await handle_requests(
        OperatorRequestContext(folder=jobs_fixture.path, ledger=jobs_fixture.ledger, clock=jobs_fixture.clock)
    )


async def test_a_lock_that_was_asked_for_holds_until_it_is_taken_off(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    now = jobs_fixture.clock.now()
    send_request(jobs_fixture.path, LockQuestion(ref=REF, reason="the rules are disputed"), at=now)
    assert await attended(jobs_fixture) == "1 requests done"
    assert await jobs_fixture.forecast() == "0 forecasts made"
    send_request(jobs_fixture.path, UnlockQuestion(ref=REF), at=now + timedelta(seconds=1))
    await attended(jobs_fixture)
    assert await jobs_fixture.forecast() == "1 forecasts made"
    notes = [event.text.partition(" [")[0] for event in await jobs_fixture.ledger.events.recent(9, "request")]
    assert sorted(notes) == [
        "lantern:rain locked for every forecaster until it is unlocked: the rules are disputed",
        "lantern:rain unlocked for every forecaster",
    ]


async def test_requests_are_done_in_the_order_in_which_they_were_made(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    now = jobs_fixture.clock.now()
    send_request(jobs_fixture.path, UnlockQuestion(ref=REF), at=now + timedelta(seconds=1))
    send_request(jobs_fixture.path, LockQuestion(ref=REF, reason="first"), at=now)
    assert await attended(jobs_fixture) == "2 requests done"
    assert await jobs_fixture.ledger.schedule.locks(now) == []


async def test_a_request_for_an_unknown_question_is_put_aside_with_its_reason(jobs_fixture: JobsFixture) -> None:
    path = send_request(jobs_fixture.path, LockQuestion(ref=REF, reason="why not"), at=jobs_fixture.clock.now())
    assert await attended(jobs_fixture) == "0 requests done, 1 refused"
    assert (jobs_fixture.path / REQUEST_FOLDER / REFUSED_FOLDER / path.name).exists()
    assert pending_requests(jobs_fixture.path) == []
    [event] = await jobs_fixture.ledger.events.recent(9, "request")
    assert "lantern:rain" in event.text


@pytest.mark.parametrize("content", [b"", b"{", b'{"kind":"erase"}', b"\xff\xfe", b"[" * 70_000, b"[" * 60_000])
async def test_a_file_that_is_no_request_is_put_aside(jobs_fixture: JobsFixture, content: bytes) -> None:
    (jobs_fixture.path / REQUEST_FOLDER).mkdir()
    (jobs_fixture.path / REQUEST_FOLDER / "1.json").write_bytes(content)
    assert await attended(jobs_fixture) == "0 requests done, 1 refused"
    assert await attended(jobs_fixture) == "0 requests done"


async def test_a_folder_in_the_place_of_a_request_does_not_hold_up_the_others(jobs_fixture: JobsFixture) -> None:
    jobs_fixture.offer("rain")
    await jobs_fixture.discover()
    send_request(jobs_fixture.path, LockQuestion(ref=REF, reason="the rules are disputed"), at=jobs_fixture.clock.now())
    (jobs_fixture.path / REQUEST_FOLDER / "1.json").mkdir()
    assert await attended(jobs_fixture) == "1 requests done, 1 refused"
    assert (jobs_fixture.path / REQUEST_FOLDER / REFUSED_FOLDER / "1.json").is_dir()
    assert pending_requests(jobs_fixture.path) == []


def test_a_request_is_readable_by_its_owner_alone(tmp_path: Path, jobs_fixture: JobsFixture) -> None:
    path = send_request(tmp_path, UnlockQuestion(ref=REF), at=jobs_fixture.clock.now())
    assert path.stat().st_mode & 0o077 == 0


def test_a_lock_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        LockQuestion(ref=REF, reason=" ")
