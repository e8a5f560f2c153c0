import hashlib
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.errors import MalformedDataError, StoreError
from bot.store.documents import MAX_INLINE_BYTES
from bot.store.ledger import open_ledger, open_ledger_read_only
from bot.store.trials import RecordedResponse, RecordingKey
from tests.unit.store.conftest import NOON, LedgerFixture

PAGE = RecordingKey("page", "aa")


async def test_a_trial_gets_back_all_it_was_told_and_nothing_of_others(ledger_fixture: LedgerFixture) -> None:
    exchanges = ledger_fixture.ledger.recordings
    told = {RecordingKey("search", "bb"): '["a"]', PAGE: '"first"', RecordingKey("page", "aa", 1): '"second"'}
    for key, body in told.items():
        await exchanges.add("f1", 1, key, body, at=NOON)
    await exchanges.add("f1", 2, PAGE, '"of the second trial"', at=NOON)
    await exchanges.add("f2", 1, PAGE, '"of another forecast"', at=NOON)
    found = await exchanges.read_trial("f1", 1)
    assert found == {
        key: RecordedResponse(digest=hashlib.sha256(body.encode()).hexdigest(), body=body) for key, body in told.items()
    }
    assert list(found) == sorted(told)
    assert await exchanges.read_trial("f3", 1) == {}


async def test_only_the_kinds_that_are_wanted_are_read(ledger_fixture: LedgerFixture) -> None:
    exchanges = ledger_fixture.ledger.recordings
    kept = {
        kind: await exchanges.add("f1", 1, RecordingKey(kind, "aa"), f'"{kind}"', at=NOON)
        for kind in ("search", "tool", "model")
    }
    wanted = {
        RecordingKey(kind, "aa"): RecordedResponse(digest=kept[kind], body=f'"{kind}"') for kind in ("model", "tool")
    }
    assert await exchanges.read_trial("f1", 1, {"tool", "model", "series"}) == wanted
    assert await exchanges.read_trial("f1", 1, ()) == {}
    ledger_fixture.damage_documents(b"\0", kept["search"])
    assert await exchanges.read_trial("f1", 1, {"tool", "model"}) == wanted
    with pytest.raises(StoreError, match="damaged"):
        await exchanges.read_trial("f1", 1, {"search"})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(body=st.text(max_size=2000))
async def test_any_text_comes_back_as_it_was(ledger_fixture: LedgerFixture, body: str) -> None:
    key = RecordingKey("tool", hashlib.sha256(body.encode()).hexdigest())
    digest = await ledger_fixture.ledger.recordings.add("f1", 1, key, body, at=NOON)
    assert (await ledger_fixture.ledger.recordings.read_trial("f1", 1))[key] == RecordedResponse(
        digest=digest, body=body
    )


@pytest.mark.parametrize("size", [MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, 3_000_000])
async def test_small_and_large_answers_are_kept_alike(ledger_fixture: LedgerFixture, size: int) -> None:
    body = "ü" + "x" * (size - 2)
    digest = await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, body, at=NOON)
    assert digest == hashlib.sha256(body.encode()).hexdigest()
    assert (await ledger_fixture.ledger.recordings.read_trial("f1", 1))[PAGE].body == body
    document = await ledger_fixture.ledger.documents.get(digest, scope="f1")
    assert (len(document.content), document.media_type) == (size, "application/json")


async def test_text_that_no_utf8_can_carry_is_kept_with_a_mark_in_its_place(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, '"half \ud83d of it"', at=NOON)
    assert (await ledger_fixture.ledger.recordings.read_trial("f1", 1))[PAGE].body == '"half \ufffd of it"'


async def test_the_same_exchange_again_changes_nothing(ledger_fixture: LedgerFixture) -> None:
    first = await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, '"text"', at=NOON)
    again = await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, '"text"', at=NOON + timedelta(hours=1))
    assert first == again
    assert ledger_fixture.rows("select at, answer from recording") == [("2026-03-01T12:00:00.000000Z", first)]


async def test_another_answer_under_the_same_name_is_refused_and_not_kept(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, '"text"', at=NOON)
    with pytest.raises(
        MalformedDataError, match=r"page aa \(0\) of trial 1 of f1 is already recorded with another answer"
    ):
        await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, '"other"', at=NOON)
    assert (await ledger_fixture.ledger.recordings.read_trial("f1", 1))[PAGE].body == '"text"'
    assert ledger_fixture.rows("select count(*) from bundle") == [(1,)]


async def test_several_are_kept_together_or_not_at_all(ledger_fixture: LedgerFixture) -> None:
    exchanges = ledger_fixture.ledger.recordings
    told = {PAGE: '"first"', RecordingKey("page", "bb"): '"second"'}
    digests = await exchanges.add_all("f1", 1, told, at=NOON)
    assert digests == [hashlib.sha256(body.encode()).hexdigest() for body in told.values()]
    assert {key: exchange.body for key, exchange in (await exchanges.read_trial("f1", 1)).items()} == told
    with pytest.raises(MalformedDataError, match="another answer"):
        await exchanges.add_all("f1", 1, {RecordingKey("page", "cc"): '"third"', PAGE: '"other"'}, at=NOON)
    assert {key: exchange.body for key, exchange in (await exchanges.read_trial("f1", 1)).items()} == told
    assert ledger_fixture.rows("select count(*) from bundle") == [(2,)]


async def test_an_answer_that_many_trials_got_is_kept_once(ledger_fixture: LedgerFixture) -> None:
    for trial in (1, 2, 3):
        await ledger_fixture.ledger.recordings.add("f1", trial, PAGE, '"text"', at=NOON)
    counts = "select (select count(*) from recording), (select count(*) from bundle)"
    assert ledger_fixture.rows(counts) == [(3, 1)]


async def test_damage_is_noticed_and_not_replayed(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, '"text"', at=NOON)
    ledger_fixture.damage_documents(b"\0")
    with pytest.raises(StoreError, match="damaged"):
        await ledger_fixture.ledger.recordings.read_trial("f1", 1)


async def test_the_record_outlives_the_run_and_is_read_beside_it(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ledger.recordings.add("f1", 1, PAGE, '"text"', at=NOON)
    async with open_ledger_read_only(ledger_fixture.path) as records:
        assert (await records.recordings.read_trial("f1", 1))[PAGE].body == '"text"'
        with pytest.raises(StoreError, match="reading only"):
            await records.recordings.add("f1", 1, RecordingKey("page", "bb"), '"text"', at=NOON)
    async with open_ledger(ledger_fixture.path.parent / "other.sqlite", now=NOON) as other:
        assert await other.recordings.read_trial("f1", 1) == {}
