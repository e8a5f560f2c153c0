from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.errors import NotFoundError
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape
from bot.core.questions import CrowdForecast, QuestionRef, Target
from bot.store.question_history import read_question_version
from bot.store.questions import QuestionFilter, QuestionState, UpsertResult
from bot.store.serialization import question_version
from tests.unit.store.conftest import NOON, LedgerFixture


async def test_a_question_comes_back_as_it_was_recorded(scribe: LedgerFixture) -> None:
    question = await scribe.ask(
        criteria="Resolves yes if a station reports it.",
        targets=(Target(key="2026-06-01", horizon_days=92), Target(key="2026-07-01", horizon_days=122)),
        as_of=NOON,
        facts={"station": "north"},
    )
    assert await scribe.ledger.questions.get(question.ref) == question


async def test_recording_again_what_is_known_changes_nothing(scribe: LedgerFixture) -> None:
    question = scribe.question()
    first = await scribe.ledger.questions.record([question], seen_at=NOON)
    before = scribe.rows("select * from question")
    second = await scribe.ledger.questions.record([question], seen_at=NOON + timedelta(days=1))
    assert (first, second) == (UpsertResult(new=1), UpsertResult(same=1))
    assert scribe.rows("select * from question") == before
    assert len(scribe.rows("select * from price")) == 1


async def test_each_version_of_a_changed_text_is_kept(scribe: LedgerFixture) -> None:
    old = await scribe.ask()
    new = replace(old, title="Will it rain in July?")
    assert await scribe.ledger.questions.record([new], seen_at=NOON) == UpsertResult(changed=1)
    assert await scribe.ledger.questions.current_version(old.ref) == question_version(new)
    kept = await scribe.ledger.questions.readers.run(
        lambda found: read_question_version(found, question_version(old), price=None)
    )
    assert kept == replace(old, crowd=None)
    assert (await scribe.ledger.questions.get(old.ref)).title == "Will it rain in July?"


async def test_a_text_that_returns_to_an_old_version_adds_none(scribe: LedgerFixture) -> None:
    old = await scribe.ask()
    await scribe.ask(title="Another?")
    await scribe.ask()
    assert await scribe.ledger.questions.current_version(old.ref) == question_version(old)
    assert len(scribe.rows("select * from question_version")) == 2


async def test_prices_are_added_only_when_they_move(scribe: LedgerFixture) -> None:
    for price, hour in ((0.2, 1), (0.2, 2), (0.3, 3), (0.2, 4)):
        await scribe.ask(crowd=CrowdForecast(prediction=BinaryPrediction(price), at=NOON + timedelta(hours=hour)))
    assert scribe.rows("select probability from price order by id") == [(0.2,), (0.3,), (0.2,)]
    current = await scribe.ledger.questions.get(QuestionRef("lantern", "rain"))
    assert current.crowd == CrowdForecast(prediction=BinaryPrediction(0.2), at=NOON + timedelta(hours=4))


async def test_a_moved_price_makes_no_new_version(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    moved = replace(question, crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=NOON))
    assert await scribe.ledger.questions.record([moved], seen_at=NOON) == UpsertResult(same=1)
    assert await scribe.ledger.questions.get(question.ref) == moved


async def test_prices_of_other_shapes_are_kept_too(scribe: LedgerFixture) -> None:
    crowd = CrowdForecast(prediction=ChoicePrediction({"a": 0.25, "b": 0.75}), at=NOON, explanation="poll")
    question = await scribe.ask(shape=ChoiceShape(options=("a", "b")), crowd=crowd)
    assert (await scribe.ledger.questions.get(question.ref)).crowd == crowd


async def test_a_long_text_is_stored_once_whoever_says_it(scribe: LedgerFixture) -> None:
    for key in ("rain", "snow", "hail"):
        await scribe.ask(key, background="long " * 1000, criteria="long " * 1000)
    assert len(scribe.rows("select * from question_text")) == 1


async def test_lone_surrogates_from_the_web_do_not_stop_the_ledger(scribe: LedgerFixture) -> None:
    question = await scribe.ask(title="a\ud800b", background="c\udfffd")
    stored = await scribe.ledger.questions.get(question.ref)
    assert (stored.title, stored.background) == ("a\ufffdb", "c\ufffdd")
    assert question_version(stored) == question_version(question)


def test_a_name_with_a_lone_surrogate_is_no_name() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        QuestionRef("lantern", "a\ud800")
    with pytest.raises(ValueError, match="surrogate"):
        Target(key="\ud800")


async def test_a_question_that_is_not_there_is_named_with_its_neighbours(scribe: LedgerFixture) -> None:
    await scribe.ask("rain-in-june")
    await scribe.ask("snow")
    with pytest.raises(
        NotFoundError, match=r"no question lantern:rain-in-july .* did you mean lantern:rain-in-june\?$"
    ):
        await scribe.ledger.questions.get(QuestionRef("lantern", "rain-in-july"))
    with pytest.raises(NotFoundError, match=r"no question elsewhere:x in the ledger$"):
        await scribe.ledger.questions.current_version(QuestionRef("elsewhere", "x"))
    with pytest.raises(NotFoundError, match="no question version"):
        await scribe.ledger.questions.readers.run(lambda found: read_question_version(found, "00", price=None))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("lantern:ra", ["rain"]),
        ("rai", ["rain"]),
        ("ail", ["hail", "snail"]),
        ("JUNE there hail", ["hail"]),
        ("100%", []),
        ("_ain", []),
        ("", ["hail", "rain", "snail"]),
    ],
)
async def test_questions_are_found_by_id_key_and_words_of_the_title(
    scribe: LedgerFixture, text: str, found: list[str]
) -> None:
    for key in ("rain", "hail", "snail"):
        await scribe.ask(key, title="Snail" if key == "snail" else f"Will there be {key} in June?")
    rows = await scribe.ledger.questions.search(text)
    assert sorted(row.ref.key for row in rows) == found


async def test_questions_are_listed_by_state_and_source(scribe: LedgerFixture) -> None:
    await scribe.ask("open", closes_at=None)
    await scribe.ask("soon", closes_at=NOON + timedelta(hours=1), source="radio")
    await scribe.ask("closed", closes_at=NOON)
    done = await scribe.ask("done", closes_at=NOON)
    await scribe.resolve(done, 1.0)

    async def keys(**chosen: object) -> list[str]:
        rows = await scribe.ledger.questions.rows(QuestionFilter(**chosen), now=NOON)  # type: ignore[arg-type]
        assert all(chosen.get("state") in {None, row.state(NOON)} for row in rows)
        return [row.ref.key for row in rows]

    assert await keys() == ["closed", "done", "soon", "open"]
    assert await keys(state=QuestionState.OPEN) == ["soon", "open"]
    assert await keys(state=QuestionState.CLOSED) == ["closed"]
    assert await keys(state=QuestionState.RESOLVED) == ["done"]
    assert await keys(source="radio", venue="lantern") == ["soon"]
    assert await keys(venue="elsewhere") == []
    assert await keys(limit=1) == ["closed"]
    assert await scribe.ledger.questions.count() == 4


async def test_a_row_tells_the_crowd_and_how_much_has_resolved(scribe: LedgerFixture) -> None:
    question = await scribe.ask(targets=(Target(key="a"), Target(key="b")))
    await scribe.resolve(question, 1.0, target="a")
    (row,) = await scribe.ledger.questions.search("rain")
    assert (row.crowd, row.targets, row.resolved, row.batch) == (0.25, 2, 1, "2026-03-01")


async def test_a_batch_is_read_whole_with_current_texts_and_crowds(scribe: LedgerFixture) -> None:
    rain, snow = await scribe.ask("rain"), await scribe.ask("snow", crowd=None)
    await scribe.ask("other", batch="2026-03-15")
    rain = await scribe.ask("rain", title="Newer?")
    assert await scribe.ledger.questions.in_batch("lantern", "2026-03-01") == [rain, snow]


async def test_questions_are_watched_until_each_forecast_target_has_an_outcome(scribe: LedgerFixture) -> None:
    question = await scribe.ask(targets=(Target(key="a"), Target(key="b")))
    await scribe.ask("never forecast")

    async def pending(venue: str = "lantern") -> list[QuestionRef]:
        return await scribe.ledger.questions.awaiting_outcome(venue, since=NOON + timedelta(days=1))

    assert await pending() == []
    await scribe.forecast(question)
    assert await pending() == [question.ref]
    await scribe.resolve(question, 1.0, target="a")
    assert await pending() == [question.ref]
    await scribe.resolve(question, 0.0, target="b")
    assert await pending() == []
    assert await pending("elsewhere") == []


async def test_a_fresh_outcome_is_watched_for_corrections(scribe: LedgerFixture) -> None:
    question = await scribe.ask()
    await scribe.forecast(question)
    await scribe.resolve(question, 1.0)
    assert await scribe.ledger.questions.awaiting_outcome("lantern", since=NOON) == [question.ref]
    assert await scribe.ledger.questions.awaiting_outcome("lantern", since=NOON + timedelta(seconds=1)) == []


async def test_more_questions_than_one_write_holds_are_recorded_whole(scribe: LedgerFixture) -> None:
    questions = [scribe.question(f"q{number}") for number in range(1201)]
    assert await scribe.ledger.questions.record(questions, seen_at=NOON) == UpsertResult(new=1201)
    assert await scribe.ledger.questions.record([*questions, scribe.question("x")], seen_at=NOON) == UpsertResult(
        new=1, same=1201
    )
