"""Replays of forecasts that were really sat through: nobody is asked, and nothing may differ unnoticed."""

import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.clock import SeededRandom
from bot.core.errors import NotFoundError, RequestRejectedError, ServiceUnavailableError
from bot.core.forecasts import TrialEnd, TrialLimits
from bot.core.interfaces import TrialContext
from bot.core.language_models import Message, MessageRole, Prompt
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.core.research import FetchedPage
from bot.evaluation.replay import OfflineNetwork, ReplayDiscrepancy, ReplayResult, replay_forecast
from bot.forecasting.aggregation import PoolingMethod
from bot.forecasting.forecast_run import NoAnswerError
from bot.store.documents import compress_document
from bot.store.evidence import EvidenceReader, evidence_path, put_evidence
from bot.store.evidence_checks import check_evidence
from bot.store.evidence_packing import remove_evidence
from bot.store.forecasts import ForecastStart
from bot.testing.models import ScriptedModelProvider, text_completion
from plugins.blf.forecaster import BlfForecaster
from plugins.blf.settings import BlfSettings
from tests.unit.forecast_run_fixture import (
    ForecastRunFixture,
    FunctionForecaster,
    hits,
    model_with_beliefs,
    open_forecast_runs,
    question,
)


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    llm = ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.55, 0.7)])
    async with open_forecast_runs(tmp_path, llm) as forecast_runs:
        yield forecast_runs


async def again(
    forecast_runs: ForecastRunFixture, forecast_id: str, *, seed: int = 1, **configured: Any
) -> ReplayResult:
    trace = await forecast_runs.ledger.forecasts.trace(forecast_id)
    return await replay_forecast(
        trace,
        forecast_runs.configure_forecaster(**configured),
        forecast_runs.make_tool_factory(sealed=True),
        SeededRandom(seed),
        None,
    )


def first(told: ReplayResult) -> ReplayDiscrepancy:
    return next(trial.discrepancy for trial in told.trials if trial.discrepancy is not None)


def believing(*probabilities: float, text: str = "", then: Exception | None = None) -> FunctionForecaster:
    """Return a forecaster that believes these in turn, in its n-th trial n hundredths more; its second one may fail."""

    async def script(asked: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        for probability in probabilities:
            yield Step(
                action=StepAction(name="think"),
                observation=StepObservation(text=text),
                belief=Belief(predictions={"outcome": BinaryPrediction(probability + 0.01 * context.trial)}),
            )
        if then is not None and context.trial == 2:
            raise then

    return FunctionForecaster(script)


async def test_a_forecast_comes_to_the_same_number_and_nobody_is_asked(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    asked, searched = len(forecast_runs.llm.requests), len(forecast_runs.engine.searched)
    assert (asked, searched) == (6, 4)
    told = await again(forecast_runs, forecast.id)
    assert told.is_identical
    assert (told.raw, told.steps) == (forecast.raw, 6)
    assert (len(forecast_runs.llm.requests), len(forecast_runs.engine.searched)) == (asked, searched)


async def test_a_replay_writes_nothing(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())

    def rows() -> list[tuple[str, int]]:
        with closing(sqlite3.connect(forecast_runs.path)) as ledger:
            tables = [name for (name,) in ledger.execute("select name from sqlite_master where type = 'table'")]
            return [(name, ledger.execute(f'select count(*) from "{name}"').fetchone()[0]) for name in sorted(tables)]  # noqa: S608 - names of our own tables

    before = rows()
    assert (await again(forecast_runs, forecast.id)).is_identical
    assert rows() == before


async def test_what_the_web_says_now_changes_nothing(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    forecast_runs.engine.hits = hits(1)
    forecast_runs.llm.turns = [text_completion("something else")]
    assert (await again(forecast_runs, forecast.id)).is_identical


@pytest.mark.parametrize("settings", [BlfSettings(steps=4), BlfSettings(crowd=False), BlfSettings(search=False)])
async def test_other_settings_ask_what_is_not_on_record(
    forecast_runs: ForecastRunFixture, settings: BlfSettings
) -> None:
    forecast = await forecast_runs.forecast(question())
    forecast_runs.forecasters["blf"] = BlfForecaster(settings)
    told = await again(forecast_runs, forecast.id)
    assert not told.is_identical
    assert "not on record" in first(told).missing


async def test_another_seed_asks_what_is_not_on_record(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    told = await again(forecast_runs, forecast.id, seed=2)
    assert "not on record" in first(told).missing
    assert told.raw is None


async def test_a_forecaster_that_concludes_otherwise_is_found_out_at_the_step(
    forecast_runs: ForecastRunFixture,
) -> None:
    forecast_runs.forecasters["plain"] = believing(0.2, 0.3, 0.4)
    forecast = await forecast_runs.forecast(question(), "plain")
    forecast_runs.forecasters["plain"] = believing(0.2, 0.35, 0.4)
    told = await again(forecast_runs, forecast.id, name="plain")
    found = first(told)
    assert (found.step, found.part, found.missing) == (2, "belief.predictions.outcome.probability", "")
    assert [found.recorded, found.replayed] == pytest.approx([0.31, 0.36])
    # Where it ends is the same, so the aggregate is.
    assert told.aggregate is None
    assert not told.is_identical


async def test_what_a_step_saw_is_compared_before_what_it_believed(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.forecasters["plain"] = believing(0.2, text="rain")
    forecast = await forecast_runs.forecast(question(), "plain")
    forecast_runs.forecasters["plain"] = believing(0.3, text="sun")
    found = first(await again(forecast_runs, forecast.id, name="plain"))
    assert (found.part, found.recorded, found.replayed) == ("observation.text", "rain", "sun")


async def test_another_pool_changes_the_aggregate_alone(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.forecasters["plain"] = believing(0.2, 0.9)
    forecast_runs.pool = PoolingMethod.MEAN
    forecast = await forecast_runs.forecast(question(), "plain", trials=2)
    # The mean of 0.91 and 0.92.
    assert forecast.raw["outcome"] == BinaryPrediction(0.915)
    forecast_runs.pool = PoolingMethod.LOGIT_MEAN
    told = await again(forecast_runs, forecast.id, name="plain")
    assert [trial.discrepancy for trial in told.trials] == [None, None]
    assert told.aggregate is not None
    assert told.aggregate.part == "outcome.probability"
    assert not told.is_identical


@pytest.mark.parametrize(
    ("now", "step", "part"),
    [(believing(0.2, 0.3, 0.4), 3, "action"), (believing(0.2), None, "steps")],
    ids=["one more", "one fewer"],
)
async def test_a_step_more_or_fewer_is_a_difference(
    forecast_runs: ForecastRunFixture, now: FunctionForecaster, step: int | None, part: str
) -> None:
    forecast_runs.forecasters["plain"] = believing(0.2, 0.3)
    forecast = await forecast_runs.forecast(question(), "plain")
    forecast_runs.forecasters["plain"] = now
    found = first(await again(forecast_runs, forecast.id, name="plain"))
    assert (found.step, found.part) == (step, part)


async def test_a_trial_that_failed_fails_again_and_must_fail_alike(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.forecasters["plain"] = believing(0.2, then=RuntimeError("no more ink"))
    forecast = await forecast_runs.forecast(question(), "plain")
    assert (await again(forecast_runs, forecast.id, name="plain")).is_identical
    forecast_runs.forecasters["plain"] = believing(0.2, then=KeyError("no more ink"))
    found = first(await again(forecast_runs, forecast.id, name="plain"))
    assert (found.step, found.part) == (None, "detail")
    # By its type and place: what it says stays with it.
    assert str(found.recorded).startswith("RuntimeError (")
    forecast_runs.forecasters["plain"] = believing(0.2)
    assert first(await again(forecast_runs, forecast.id, name="plain")).part == "end"


async def test_a_model_that_did_not_answer_does_not_answer_again(forecast_runs: ForecastRunFixture) -> None:
    # The two trials ask by turns; the first one gets no answer to its second question.
    forecast_runs.llm.turns = [
        model_with_beliefs(0.3, 0.55),
        model_with_beliefs(0.3, 0.55),
        ServiceUnavailableError("down"),
        model_with_beliefs(0.3, 0.55),
    ]
    forecast = await forecast_runs.forecast(question())
    trace = await forecast_runs.ledger.forecasts.trace(forecast.id)
    assert sorted(str(record.end) for record in trace.trials) == [TrialEnd.FAILED, TrialEnd.FINISHED]
    forecast_runs.llm.turns = [model_with_beliefs(0.3, 0.55)]
    assert (await again(forecast_runs, forecast.id)).is_identical


async def test_a_trial_that_was_stopped_is_stopped_where_it_was(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.limits = TrialLimits(steps=2)
    forecast_runs.forecasters["plain"] = believing(0.2, 0.3, 0.4)
    forecast = await forecast_runs.forecast(question(), "plain")
    trace = await forecast_runs.ledger.forecasts.trace(forecast.id)
    assert {record.end for record in trace.trials} == {TrialEnd.STEP_LIMIT}
    told = await again(forecast_runs, forecast.id, name="plain")
    assert told.is_identical
    assert [(trial.recorded, trial.replayed) for trial in told.trials] == [(2, 2), (2, 2)]


async def test_a_record_that_was_tampered_with_is_found_out(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    with closing(sqlite3.connect(evidence_path(forecast_runs.path))) as evidence, evidence:
        (digest,) = evidence.execute("select body from step where trial = 2 and number = 2").fetchone()
        text = EvidenceReader(evidence, forecast.id).text(digest)
        other = compress_document(text.replace("thought 2", "thought 9").encode(), "application/json")
        assert other.digest != digest
        put_evidence(Database(evidence), other, forecast.id)
        evidence.execute("update step set body = ? where trial = 2 and number = 2", [other.digest])
    told = await again(forecast_runs, forecast.id)
    assert [trial.discrepancy is None for trial in told.trials] == [True, False]
    found = first(told)
    assert (found.step, found.part, found.recorded) == (2, "belief.reason", "thought 9")


async def test_what_was_not_completed_cannot_be_replayed(forecast_runs: ForecastRunFixture) -> None:
    asked = question()
    await forecast_runs.record(asked)
    now = forecast_runs.clock.now()
    running = await forecast_runs.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster="blf", cutoff=now, why="asked for", now=now)
    )
    with pytest.raises(NotFoundError, match="running"):
        await again(forecast_runs, running.id)


async def test_nothing_gets_out_of_a_replay(forecast_runs: ForecastRunFixture) -> None:
    nowhere = OfflineNetwork()
    for reaching in (
        nowhere.get("https://a.example", max_bytes=1),
        nowhere.post("https://a.example", {}, max_bytes=1),
        nowhere.fetch("https://a.example", refusal=lambda _: None),
        nowhere.read(FetchedPage(url="https://a.example", content=b"", media_type="")),
    ):
        with pytest.raises(RequestRejectedError, match=r"a\.example"):
            await reaching


async def test_the_digest_of_a_text_that_the_forecaster_keeps_is_compared(forecast_runs: ForecastRunFixture) -> None:
    async def keeping(text: str, context: TrialContext) -> AsyncGenerator[Step, None]:
        kept = await context.store_text(text)
        await context.ask_model("main", Prompt(messages=(Message(speaker=MessageRole.USER, text="?"),)))
        yield Step(
            action=StepAction(name="think"),
            observation=StepObservation(documents=(kept,)),
            belief=Belief(predictions={"outcome": BinaryPrediction(0.5)}),
        )

    forecast_runs.llm.turns = [text_completion("yes")]
    forecast_runs.forecasters["keeper"] = FunctionForecaster(lambda _, context: keeping("old words", context))
    forecast = await forecast_runs.forecast(question(), "keeper")
    forecast_runs.forecasters["keeper"] = FunctionForecaster(lambda _, context: keeping("new words", context))
    assert first(await again(forecast_runs, forecast.id, name="keeper")).part == "observation.documents.1"


async def test_a_step_may_cite_only_what_its_trial_has_on_record(forecast_runs: ForecastRunFixture) -> None:
    async def citing(context: TrialContext, others: tuple[str, ...]) -> AsyncGenerator[Step, None]:
        kept = await context.store_text("a text")
        prompt = Prompt(messages=(Message(speaker=MessageRole.USER, text="?"),))
        answer = await context.ask_model("main", prompt)
        found = await context.use_tool("web_search", {"query": "rain"})
        for documents in ((kept, answer.document, *found.observation.documents), others):
            yield Step(
                action=StepAction(name="think"),
                observation=StepObservation(documents=documents),
                belief=Belief(predictions={"outcome": BinaryPrediction(0.5)}),
            )

    forecast_runs.llm.turns = [text_completion("yes")]
    forecast_runs.forecasters["citing"] = FunctionForecaster(lambda _, context: citing(context, ("feed",)))
    with pytest.raises(NoAnswerError, match="2 trials failed: documents must be stored before they are cited: feed"):
        await forecast_runs.forecast(question(), "citing")
    with closing(sqlite3.connect(evidence_path(forecast_runs.path))) as evidence:
        # What they have on record themselves they may cite.
        assert evidence.execute("select trial, number from step order by trial").fetchall() == [(1, 1), (2, 1)]
    assert check_evidence(forecast_runs.path).problems == ()


def asking(text: str, *, then: str = "and?") -> FunctionForecaster:
    """Return a forecaster that asks this, and then something else, a step for each."""

    async def script(asked: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        for words in (text, then):
            prompt = Prompt(
                messages=(
                    Message(speaker=MessageRole.SYSTEM, text="Be brief."),
                    Message(speaker=MessageRole.USER, text=words),
                )
            )
            answer = await context.ask_model("main", prompt)
            yield Step(
                action=StepAction(name="think"),
                observation=StepObservation(documents=(answer.document,)),
                belief=Belief(predictions={"outcome": BinaryPrediction(0.5)}),
            )

    return FunctionForecaster(script)


async def test_a_prompt_that_changed_is_shown_where_it_changed_first(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.llm.turns = [text_completion("yes")]
    forecast_runs.forecasters["asker"] = asking("Will it rain?")
    forecast = await forecast_runs.forecast(question(), "asker")
    forecast_runs.forecasters["asker"] = asking("Will it snow?")
    told = await again(forecast_runs, forecast.id, name="asker")
    found = first(told)
    assert (found.step, found.part) == (1, "prompt.messages.2.text")
    assert (found.recorded, found.replayed) == ("Will it rain?", "Will it snow?")
    assert "not on record" in found.missing
    assert told.raw is None


async def test_what_was_made_before_a_prompt_that_changed_is_kept(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.llm.turns = [text_completion("yes")]
    forecast_runs.forecasters["asker"] = asking("Will it rain?")
    forecast = await forecast_runs.forecast(question(), "asker")
    forecast_runs.forecasters["asker"] = asking("Will it rain?", then="so?")
    told = await again(forecast_runs, forecast.id, name="asker")
    found = first(told)
    assert (found.step, found.part, found.recorded, found.replayed) == (2, "prompt.messages.2.text", "and?", "so?")
    assert [trial.agreed for trial in told.trials] == [1, 1]
    # A replay whose trials fail has no answer.
    assert told.raw is None


async def test_another_seed_alone_is_named(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    assert first(await again(forecast_runs, forecast.id, seed=2)).part == "seed"


async def test_what_was_deleted_cannot_be_replayed_and_says_so(forecast_runs: ForecastRunFixture) -> None:
    forecast = await forecast_runs.forecast(question())
    documents = forecast_runs.ledger.documents
    await remove_evidence(documents.writer, documents.readers, [forecast.id], at=forecast.made_at)
    with pytest.raises(NotFoundError, match="can no longer be replayed: its steps, exchanges and pages were deleted"):
        await again(forecast_runs, forecast.id)
