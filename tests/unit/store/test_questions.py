from dataclasses import replace
from datetime import timedelta

import pytest

from bot.core.errors import NotFoundError
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape, Prediction
from bot.core.questions import CrowdForecast, QuestionRef, Target
from bot.store.question_history import read_question_version
from bot.store.questions import QuestionFilter, QuestionState, UpsertResult
from bot.store.serialization import question_version
from tests.unit.store.conftest import NOON, LedgerFixture


async def test_a_question_comes_back_as_it_was_recorded(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(
        criteria="Resolves yes if a station reports it.",
        targets=(Target(key="2026-06-01", horizon_days=92), Target(key="2026-07-01", horizon_days=122)),
        as_of=NOON,
        facts={"station": "north"},
    )
    assert await ledger_fixture.ledger.questions.get(question.ref) == question


async def test_recording_again_what_is_known_changes_nothing(ledger_fixture: LedgerFixture) -> None:
    question = ledger_fixture.question()
    first = await ledger_fixture.ledger.questions.record([question], seen_at=NOON)
    before = ledger_fixture.rows("select * from question")
    second = await ledger_fixture.ledger.questions.record([question], seen_at=NOON + timedelta(days=1))
    assert (first, second) == (UpsertResult(new=1), UpsertResult(same=1))
    assert ledger_fixture.rows("select * from question") == before
    assert len(ledger_fixture.rows("select * from price")) == 1


async def test_each_version_of_a_changed_text_is_kept(ledger_fixture: LedgerFixture) -> None:
    old = await ledger_fixture.ask()
    new = replace(old, title="Will it rain in July?")
    assert await ledger_fixture.ledger.questions.record([new], seen_at=NOON) == UpsertResult(changed=1)
    assert await ledger_fixture.ledger.questions.current_version(old.ref) == question_version(new)
    kept = await ledger_fixture.ledger.questions.readers.run(
        lambda found: read_question_version(found, question_version(old), price=None)
    )
    assert kept == replace(old, crowd=None)
    assert (await ledger_fixture.ledger.questions.get(old.ref)).title == "Will it rain in July?"


async def test_a_text_that_returns_to_an_old_version_adds_none(ledger_fixture: LedgerFixture) -> None:
    old = await ledger_fixture.ask()
    await ledger_fixture.ask(title="Another?")
    await ledger_fixture.ask()
    assert await ledger_fixture.ledger.questions.current_version(old.ref) == question_version(old)
    assert len(ledger_fixture.rows("select * from question_version")) == 2


@pytest.mark.parametrize("is_listed", [False, True], ids=["the writer alone", "a list before it"])
async def test_a_list_older_than_the_writer_s_reading_does_not_bring_the_old_text_back(
    ledger_fixture: LedgerFixture, *, is_listed: bool
) -> None:
    old, questions = await ledger_fixture.ask(), ledger_fixture.ledger.questions
    new = replace(old, title="Will it rain in July?")
    if is_listed:
        await questions.record([new], seen_at=NOON)
    await questions.record([new], seen_at=NOON + timedelta(minutes=1), by_writer=True)
    lagging = await questions.record([old], seen_at=NOON + timedelta(minutes=2))
    assert lagging == UpsertResult(same=1, outdated=frozenset({old.ref}))
    assert (await questions.get(old.ref)).title == new.title
    assert await questions.record([old], seen_at=NOON + timedelta(hours=2)) == UpsertResult(changed=1)


async def test_prices_are_added_only_when_they_move(ledger_fixture: LedgerFixture) -> None:
    for price, hour in ((0.2, 1), (0.2, 2), (0.3, 3), (0.2, 4)):
        await ledger_fixture.ask(
            crowd=CrowdForecast(prediction=BinaryPrediction(price), at=NOON + timedelta(hours=hour))
        )
    assert ledger_fixture.rows("select probability from price order by id") == [(0.2,), (0.3,), (0.2,)]
    current = await ledger_fixture.ledger.questions.get(QuestionRef("lantern", "rain"))
    assert current.crowd == CrowdForecast(prediction=BinaryPrediction(0.2), at=NOON + timedelta(hours=4))


async def test_a_moved_price_makes_no_new_version(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    moved = replace(question, crowd=CrowdForecast(prediction=BinaryPrediction(0.9), at=NOON))
    assert await ledger_fixture.ledger.questions.record([moved], seen_at=NOON) == UpsertResult(same=1)
    assert await ledger_fixture.ledger.questions.get(question.ref) == moved


async def test_prices_of_other_shapes_are_kept_too(ledger_fixture: LedgerFixture) -> None:
    crowd = CrowdForecast(prediction=ChoicePrediction({"a": 0.25, "b": 0.75}), at=NOON, explanation="poll")
    question = await ledger_fixture.ask(shape=ChoiceShape(options=("a", "b")), crowd=crowd)
    assert (await ledger_fixture.ledger.questions.get(question.ref)).crowd == crowd


@pytest.mark.parametrize("prediction", [ChoicePrediction({"a": 0.2, "b": 0.3, "c": 0.5}), BinaryPrediction(0.4)])
async def test_a_price_of_other_options_costs_the_price_and_not_the_question(
    ledger_fixture: LedgerFixture, prediction: Prediction
) -> None:
    question = await ledger_fixture.ask(shape=ChoiceShape(options=("a", "b")), crowd=None)
    shown = CrowdForecast(prediction=prediction, at=NOON)
    await ledger_fixture.ledger.questions.record_crowd_prices([(question.ref, shown)], seen_at=NOON)
    assert await ledger_fixture.ledger.questions.get(question.ref) == question


async def test_a_long_text_is_stored_once_whoever_says_it(ledger_fixture: LedgerFixture) -> None:
    for key in ("rain", "snow", "hail"):
        await ledger_fixture.ask(key, background="long " * 1000, criteria="long " * 1000)
    assert len(ledger_fixture.rows("select * from question_text")) == 1


async def test_lone_surrogates_from_the_web_do_not_stop_the_ledger(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(title="a\ud800b", background="c\udfffd")
    stored = await ledger_fixture.ledger.questions.get(question.ref)
    assert (stored.title, stored.background) == ("a\ufffdb", "c\ufffdd")
    assert question_version(stored) == question_version(question)


def test_a_name_with_a_lone_surrogate_is_no_name() -> None:
    with pytest.raises(ValueError, match="surrogate"):
        QuestionRef("lantern", "a\ud800")
    with pytest.raises(ValueError, match="surrogate"):
        Target(key="\ud800")


async def test_a_question_that_is_not_there_is_named_with_its_neighbours(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask("rain-in-june")
    await ledger_fixture.ask("snow")
    with pytest.raises(
        NotFoundError, match=r"no question lantern:rain-in-july .* did you mean lantern:rain-in-june\?$"
    ):
        await ledger_fixture.ledger.questions.get(QuestionRef("lantern", "rain-in-july"))
    with pytest.raises(NotFoundError, match=r"no question elsewhere:x in the ledger$"):
        await ledger_fixture.ledger.questions.current_version(QuestionRef("elsewhere", "x"))
    with pytest.raises(NotFoundError, match="no question version"):
        await ledger_fixture.ledger.questions.readers.run(lambda found: read_question_version(found, "00", price=None))


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
    ledger_fixture: LedgerFixture, text: str, found: list[str]
) -> None:
    for key in ("rain", "hail", "snail"):
        await ledger_fixture.ask(key, title="Snail" if key == "snail" else f"Will there be {key} in June?")
    rows = await ledger_fixture.ledger.questions.search(text)
    assert sorted(row.ref.key for row in rows) == found


async def test_questions_are_listed_by_state_and_source(ledger_fixture: LedgerFixture) -> None:
    await ledger_fixture.ask("open", closes_at=None)
    await ledger_fixture.ask("soon", closes_at=NOON + timedelta(hours=1), source="radio")
    await ledger_fixture.ask("closed", closes_at=NOON)
    done = await ledger_fixture.ask("done", closes_at=NOON)
    await ledger_fixture.resolve(done, 1.0)

    async def keys(**chosen: object) -> list[str]:
        rows = await ledger_fixture.ledger.questions.rows(QuestionFilter(**chosen), now=NOON)  # type: ignore[arg-type]
        assert all(chosen.get("state") in {None, row.state(NOON)} for row in rows)
        return [row.ref.key for row in rows]

    assert await keys() == ["closed", "done", "soon", "open"]
    assert await keys(state=QuestionState.OPEN) == ["soon", "open"]
    assert await keys(state=QuestionState.CLOSED) == ["closed"]
    assert await keys(state=QuestionState.RESOLVED) == ["done"]
    assert await keys(source="radio", venue="lantern") == ["soon"]
    assert await keys(venue="elsewhere") == []
    assert await keys(limit=1) == ["closed"]
    assert await ledger_fixture.ledger.questions.count() == 4

    # The venue moved two closes.
    await ledger_fixture.ask("closed", closes_at=NOON + timedelta(hours=2))
    await ledger_fixture.ask("soon", closes_at=NOON, source="radio")
    assert await keys(state=QuestionState.OPEN) == ["closed", "open"]
    assert await keys(state=QuestionState.CLOSED) == ["soon"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PRICES", ["euro", "percent"]),
        ("100%", ["percent"]),
        ("_", ["under_score"]),
        ("über", ["uber"]),
        ("ÜBER", ["uber"]),
        ("lantern:EURO", ["euro"]),
        ("RADIO", ["euro"]),
        ("2026-03", ["euro", "percent", "uber", "under_score"]),
        ("nothing says this", []),
        ("", ["euro", "percent", "uber", "under_score"]),
    ],
)
async def test_questions_are_searched_by_title_names_and_batch_in_any_case(
    ledger_fixture: LedgerFixture, text: str, found: list[str]
) -> None:
    await ledger_fixture.ask("euro", title="Will Prices rise?", source="radio")
    await ledger_fixture.ask("percent", title="Will prices rise by 100%, not by 1005?")
    await ledger_fixture.ask("uber", title="Will Über grow?", batch="2026-03-01")
    await ledger_fixture.ask("under_score", title="Will it rain?")
    for limit in (50, 1):
        rows = await ledger_fixture.ledger.questions.rows(QuestionFilter(text=text, limit=limit), now=NOON)
        assert [row.ref.key for row in rows] == found[:limit]


async def test_a_row_tells_the_crowd_and_how_much_has_resolved(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(targets=(Target(key="a"), Target(key="b")))
    await ledger_fixture.resolve(question, 1.0, target="a")
    (row,) = await ledger_fixture.ledger.questions.search("rain")
    assert (row.crowd, row.targets, row.resolved, row.batch) == (0.25, 2, 1, "2026-03-01")


async def test_a_batch_is_read_whole_with_current_texts_and_crowds(ledger_fixture: LedgerFixture) -> None:
    rain, snow = await ledger_fixture.ask("rain"), await ledger_fixture.ask("snow", crowd=None)
    await ledger_fixture.ask("other", batch="2026-03-15")
    rain = await ledger_fixture.ask("rain", title="Newer?")
    assert await ledger_fixture.ledger.questions.in_batch("lantern", "2026-03-01") == [rain, snow]


async def test_questions_are_watched_until_each_forecast_target_has_an_outcome(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask(targets=(Target(key="a"), Target(key="b")))
    await ledger_fixture.ask("never forecast")

    async def pending(venue: str = "lantern") -> list[QuestionRef]:
        return await ledger_fixture.ledger.questions.awaiting_outcome(venue, since=NOON + timedelta(days=1))

    assert await pending() == []
    await ledger_fixture.forecast(question)
    assert await pending() == [question.ref]
    await ledger_fixture.resolve(question, 1.0, target="a")
    assert await pending() == [question.ref]
    await ledger_fixture.resolve(question, 0.0, target="b")
    assert await pending() == []
    assert await pending("elsewhere") == []


async def test_a_fresh_outcome_is_watched_for_corrections(ledger_fixture: LedgerFixture) -> None:
    question = await ledger_fixture.ask()
    await ledger_fixture.forecast(question)
    await ledger_fixture.resolve(question, 1.0)
    assert await ledger_fixture.ledger.questions.awaiting_outcome("lantern", since=NOON) == [question.ref]
    assert await ledger_fixture.ledger.questions.awaiting_outcome("lantern", since=NOON + timedelta(seconds=1)) == []


async def test_more_questions_than_one_write_holds_are_recorded_whole(ledger_fixture: LedgerFixture) -> None:
    questions = [ledger_fixture.question(f"q{number}") for number in range(1201)]
    assert await ledger_fixture.ledger.questions.record(questions, seen_at=NOON) == UpsertResult(new=1201)
    assert await ledger_fixture.ledger.questions.record(
        [*questions, ledger_fixture.question("x")], seen_at=NOON
    ) == UpsertResult(new=1, same=1201)
