from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.operator_requests import LockQuestion, UnlockQuestion
from bot.core.questions import QuestionRef
from bot.jobs.operator_requests import OperatorRequestContext, handle_requests
from bot.store.requests import REFUSED_FOLDER, REQUEST_FOLDER, pending_requests, send_request
from tests.unit.jobs.conftest import VENUE, JobsFixture

REF = QuestionRef(VENUE, "rain")


async def attended(house: JobsFixture) -> str:
    return await handle_requests(OperatorRequestContext(folder=house.path, ledger=house.ledger, clock=house.clock))


async def test_a_lock_that_was_asked_for_holds_until_it_is_taken_off(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    now = house.clock.now()
    send_request(house.path, LockQuestion(ref=REF, reason="the rules are disputed"), at=now)
    assert await attended(house) == "1 requests done"
    assert await house.forecast() == "0 forecasts made"
    send_request(house.path, UnlockQuestion(ref=REF), at=now + timedelta(seconds=1))
    await attended(house)
    assert await house.forecast() == "1 forecasts made"
    notes = [event.text.partition(" [")[0] for event in await house.ledger.events.recent(9, "request")]
    assert sorted(notes) == [
        "lantern:rain locked for every forecaster until it is unlocked: the rules are disputed",
        "lantern:rain unlocked for every forecaster",
    ]


async def test_requests_are_done_in_the_order_in_which_they_were_made(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    now = house.clock.now()
    send_request(house.path, UnlockQuestion(ref=REF), at=now + timedelta(seconds=1))
    send_request(house.path, LockQuestion(ref=REF, reason="first"), at=now)
    assert await attended(house) == "2 requests done"
    assert await house.ledger.schedule.locks(now) == []


async def test_a_request_for_an_unknown_question_is_put_aside_with_its_reason(house: JobsFixture) -> None:
    path = send_request(house.path, LockQuestion(ref=REF, reason="why not"), at=house.clock.now())
    assert await attended(house) == "0 requests done, 1 refused"
    assert (house.path / REQUEST_FOLDER / REFUSED_FOLDER / path.name).exists()
    assert pending_requests(house.path) == []
    [event] = await house.ledger.events.recent(9, "request")
    assert "lantern:rain" in event.text


@pytest.mark.parametrize("content", [b"", b"{", b'{"kind":"erase"}', b"\xff\xfe", b"[" * 70_000, b"[" * 60_000])
async def test_a_file_that_is_no_request_is_put_aside(house: JobsFixture, content: bytes) -> None:
    (house.path / REQUEST_FOLDER).mkdir()
    (house.path / REQUEST_FOLDER / "1.json").write_bytes(content)
    assert await attended(house) == "0 requests done, 1 refused"
    assert await attended(house) == "0 requests done"


async def test_a_folder_in_the_place_of_a_request_does_not_hold_up_the_others(house: JobsFixture) -> None:
    house.offer("rain")
    await house.discover()
    send_request(house.path, LockQuestion(ref=REF, reason="the rules are disputed"), at=house.clock.now())
    (house.path / REQUEST_FOLDER / "1.json").mkdir()
    assert await attended(house) == "1 requests done, 1 refused"
    assert (house.path / REQUEST_FOLDER / REFUSED_FOLDER / "1.json").is_dir()
    assert pending_requests(house.path) == []


def test_a_request_is_readable_by_its_owner_alone(tmp_path: Path, house: JobsFixture) -> None:
    path = send_request(tmp_path, UnlockQuestion(ref=REF), at=house.clock.now())
    assert path.stat().st_mode & 0o077 == 0


def test_a_lock_without_a_reason_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        LockQuestion(ref=REF, reason=" ")
