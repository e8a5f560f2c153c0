import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    ConfigError,
    IntentState,
    PluginContext,
    Question,
    SubmissionBatch,
    WriteReceipt,
)
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.forecastbench.archive import ForecastBenchArchive
from plugins.forecastbench.settings import ForecastBenchSettings
from plugins.forecastbench.writer import open_paper_forecasts, open_writer
from tests.plugins.forecastbench.records import batch, intent

DUE = datetime(2026, 5, 24, tzinfo=UTC)
SETTINGS = ForecastBenchSettings(organization="Fox Team", model="Fox", set_number=2)
NAME = "2026-05-24.Fox Team.2.json"


@pytest.fixture
def questions() -> tuple[Question, ...]:
    """15 market and 14 dataset questions with 111 rows."""
    return ForecastBenchArchive(ForecastBenchSettings(), Path("sample")).read_round("2026-05-24").questions


def context(folder: Path, now: datetime = DUE) -> PluginContext:
    return PluginContext(clock=FakeClock(now), http=FakeHttpClient({}), folder=folder)


async def submit(
    folder: Path, wanted: SubmissionBatch, settings: ForecastBenchSettings = SETTINGS
) -> Sequence[WriteReceipt]:
    async with open_paper_forecasts(settings, context(folder)) as book:
        return await book.submit(wanted)


def written(folder: Path, name: str = NAME) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "forecast_sets" / name).read_bytes())
    return content


def states(receipts: Sequence[WriteReceipt]) -> set[IntentState]:
    return {receipt.state for receipt in receipts}


async def test_a_round_becomes_one_complete_file(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    receipts = await submit(tmp_path, batch(questions))
    assert {(receipt.state, receipt.reference, receipt.detail) for receipt in receipts} == {
        (IntentState.ACKED, NAME, "126 of 126 rows")
    }
    payload = written(tmp_path)
    rows = payload.pop("forecasts")
    assert payload == {
        "organization": "Fox Team",
        "model": "Fox",
        "model_organization": "foxcast",
        "question_set": "2026-05-24-llm.json",
    }
    assert {(row["source"], row["id"], row["resolution_date"]) for row in rows} == {
        (question.source, question.source_id, target.key if question.family == "dataset" else None)
        for question in questions
        for target in question.targets
    }
    assert len(rows) == 126
    assert rows[0]["reasoning"] == "Foxcast forecast f0001"


async def test_published_rounds_give_the_documented_number_of_rows(shared: Path, tmp_path: Path) -> None:
    expected = json.loads((shared / "venues" / "forecastbench_expected.json").read_text())["forecast_set_rows"]
    archive = ForecastBenchArchive(SETTINGS, shared / "data" / "forecastbench")
    for key in archive.round_keys():
        receipts = await submit(tmp_path, batch(archive.read_round(key).questions))
        rows = written(tmp_path, f"{key}.Fox Team.2.json")["forecasts"]
        assert states(receipts) == {IntentState.ACKED}
        assert Counter("market" if row["resolution_date"] is None else "dataset" for row in rows) == expected[key]


async def test_eligibility_is_written_where_it_is_set(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    await submit(tmp_path, batch(questions), SETTINGS.model_copy(update={"leaderboard_eligible": False}))
    assert written(tmp_path)["leaderboard_eligible"] is False


async def test_the_last_write_wins_and_leaves_one_file(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    await submit(tmp_path, batch(questions))
    wanted = batch(questions)
    changed = intent(questions[0], 0.9, name="newer")
    await submit(tmp_path, replace(wanted, intents=(changed, *wanted.intents[1:])))
    assert [path.name for path in (tmp_path / "forecast_sets").iterdir()] == [NAME]
    assert Counter(row["forecast"] for row in written(tmp_path)["forecasts"]) == {0.9: 1, 0.4: 125}


async def test_two_answers_to_one_question_leave_the_later_one(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    wanted = batch(questions)
    later = intent(questions[0], 0.9, name="later")
    receipts = await submit(tmp_path, replace(wanted, intents=(*wanted.intents, later)))
    by_intent = {receipt.intent: receipt for receipt in receipts}
    assert by_intent[later.id].state is IntentState.ACKED
    assert by_intent[wanted.intents[0].id].state is IntentState.REFUSED
    assert len(written(tmp_path)["forecasts"]) == 126


@pytest.mark.parametrize(
    ("source", "count", "reason"),
    [
        ("manifold", 1, "1 of 15 market rows are missing (6.7 %"),
        ("wikipedia", 1, "8 of 126 all rows"),
        ("fred", 1, "1 of 13 dataset (up to 7 days) rows"),
    ],
)
async def test_a_file_that_misses_too_much_is_not_written_and_may_come_again(
    source: str, count: int, reason: str, tmp_path: Path, questions: tuple[Question, ...]
) -> None:
    left_out = [question for question in questions if question.source == source][:count]
    receipts = await submit(tmp_path, batch(questions, left_out=left_out))
    assert states(receipts) == {IntentState.ABSENT}
    assert reason in receipts[0].detail
    assert list((tmp_path / "forecast_sets").iterdir()) == []


async def test_a_few_missing_rows_are_borne(shared: Path, tmp_path: Path) -> None:
    archive = ForecastBenchArchive(SETTINGS, shared / "data" / "forecastbench")
    asked = archive.read_round("2026-04-26").questions
    markets = [question for question in asked if question.family == "market"]
    for missing, state in ((12, IntentState.ACKED), (13, IntentState.ABSENT)):  # of 250: 4.8 % and 5.2 %
        assert states(await submit(tmp_path, batch(asked, left_out=markets[:missing]))) == {state}


async def test_an_intent_that_does_not_fit_is_refused_alone(shared: Path, tmp_path: Path) -> None:
    asked = ForecastBenchArchive(SETTINGS, shared / "data" / "forecastbench").read_round("2026-04-26").questions
    wanted = batch(asked)
    market, series = asked[0], asked[-1]
    odd = (
        replace(
            intent(market, name="kind"), predictions={"outcome": ChoicePrediction(probabilities={"a": 0.5, "b": 0.5})}
        ),
        replace(intent(series, name="targets"), predictions={"outcome": BinaryPrediction(0.5)}),
        replace(intent(market, name="stranger"), ref=replace(market.ref, key="2026-04-26/manifold/unheard-of")),
    )
    others = tuple(given for given in wanted.intents if given.ref not in {market.ref, series.ref})
    receipts = await submit(tmp_path, replace(wanted, intents=(*others, *odd)))
    assert {receipt.intent for receipt in receipts if receipt.state is IntentState.REFUSED} == {
        given.id for given in odd
    }
    assert "9 of" not in receipts[0].detail
    assert len(written(tmp_path, "2026-04-26.Fox Team.2.json")["forecasts"]) == 2243 - 9


async def test_a_batch_that_is_no_round_is_refused(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    receipts = await submit(tmp_path, replace(batch(questions), key="../2026-05-24"))
    assert states(receipts) == {IntentState.REFUSED}
    assert list((tmp_path / "forecast_sets").iterdir()) == []


async def test_what_the_validator_objects_to_is_not_written(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    unchecked = SETTINGS.model_copy(update={"organization": "Fox.Team"})  # the settings themselves refuse it
    receipts = await submit(tmp_path, batch(questions), unchecked)
    assert states(receipts) == {IntentState.REFUSED}
    assert "file name" in receipts[0].detail
    # Of four objections (file name, organization, model, eligibility) the first three are named.
    wrong = {"organization": "", "model": "", "leaderboard_eligible": "maybe"}
    receipts = await submit(tmp_path, batch(questions), SETTINGS.model_copy(update=wrong))
    assert [name in receipts[0].detail for name in ("file name", *wrong)] == [True, True, True, False]
    assert list((tmp_path / "forecast_sets").iterdir()) == []


async def test_a_disk_that_fails_leaves_the_old_file_and_no_proof(
    tmp_path: Path, questions: tuple[Question, ...]
) -> None:
    await submit(tmp_path, batch(questions))
    before = written(tmp_path)
    (tmp_path / "forecast_sets" / f".{NAME}.tmp").mkdir()  # the place where the new file would be prepared
    receipts = await submit(tmp_path, batch(questions))
    assert states(receipts) == {IntentState.UNKNOWN}
    assert written(tmp_path) == before


async def test_an_unreadable_file_proves_nothing(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    async with open_paper_forecasts(SETTINGS, context(tmp_path)) as book:
        (tmp_path / "forecast_sets" / NAME).write_text("{")
        assert states(await book.read_submissions(batch(questions))) == {IntentState.UNKNOWN}
        (tmp_path / "forecast_sets" / NAME).write_text('{"question_set": "2026-05-24", "forecasts": [5]}')
        assert states(await book.read_submissions(batch(questions))) == {IntentState.UNKNOWN}


async def test_what_was_changed_by_others_does_not_stand(tmp_path: Path, questions: tuple[Question, ...]) -> None:
    wanted = batch(questions)
    await submit(tmp_path, wanted)
    payload = written(tmp_path)
    payload["forecasts"][0]["forecast"] = 0.99
    (tmp_path / "forecast_sets" / NAME).write_text(json.dumps(payload))
    async with open_paper_forecasts(SETTINGS, context(tmp_path)) as book:
        receipts = await book.read_submissions(wanted)
    assert [receipt.intent for receipt in receipts if receipt.state is IntentState.ABSENT] == [wanted.intents[0].id]


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (DUE - timedelta(seconds=1), IntentState.REFUSED),
        (DUE, IntentState.ACKED),
        (DUE + timedelta(hours=23, minutes=59, seconds=59), IntentState.ACKED),
        (DUE + timedelta(hours=24), IntentState.REFUSED),
    ],
)
async def test_the_live_writer_keeps_to_the_day_of_the_due_date(
    now: datetime, state: IntentState, tmp_path: Path, questions: tuple[Question, ...]
) -> None:
    upload = tmp_path / "bucket"
    upload.mkdir()
    settings = SETTINGS.model_copy(update={"upload_folder": upload})
    async with open_writer(settings, context(tmp_path, now)) as writer:
        receipts = await writer.submit(batch(questions))
    assert states(receipts) == {state}
    assert [path.name for path in upload.iterdir()] == ([NAME] if state is IntentState.ACKED else [])
    assert state is IntentState.ACKED or "window" in receipts[0].detail


@pytest.mark.parametrize("folder", [None, "nowhere"])
async def test_the_live_writer_needs_its_folder(folder: str | None, tmp_path: Path) -> None:
    upload = None if folder is None else tmp_path / folder
    settings = SETTINGS.model_copy(update={"upload_folder": upload})
    with pytest.raises(ConfigError, match="upload_folder"):
        await open_writer(settings, context(tmp_path)).__aenter__()


async def test_questions_that_could_not_be_read_count_as_missing(
    tmp_path: Path, questions: tuple[Question, ...]
) -> None:
    unread = tuple(replace(one, facts={**one.facts, "left_out_market": "1"}) for one in questions)
    receipts = await submit(tmp_path, batch(unread))
    assert states(receipts) == {IntentState.ABSENT}
    assert "1 of 16 market rows are missing" in receipts[0].detail
    assert not (tmp_path / "forecast_sets" / NAME).exists()
