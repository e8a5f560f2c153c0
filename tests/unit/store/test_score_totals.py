"""The sums of scores that the writer keeps against the rows, computed by other code, after any history."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap

from bot.core.forecasts import Forecast
from bot.core.outcomes import BRIER, BinaryOutcome, ChoiceOutcome, Outcome, Resolution, VoidOutcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction, ChoiceShape
from bot.core.questions import CrowdForecast, Question, Target
from bot.core.submissions import ExecutionMode, IntentState, SendDecision, WriteReceipt
from bot.evaluation.group_scores import SUMS, compare_sums, resample_groups, score_group, score_resampled
from bot.evaluation.ledger_scores import rows_by_forecaster
from bot.evaluation.score_report import build_report, kind_reports
from bot.evaluation.summed_scores import ALL, ForecasterSums, reliability_bins, sums_by_forecaster
from bot.jobs.resolution import compute_scores
from bot.stats.calibration import equal_width_bins
from bot.stats.scores import index_from_brier
from bot.store.ledger import open_ledger
from bot.store.scores import ScoreFilter
from bot.store.submission_queries import list_question_orders
from tests.row_scores import read_row_scores, rule_scores_by_forecaster
from tests.unit.store.conftest import NOON, LedgerFixture

DAY = timedelta(days=1)
COLOURS = ChoiceShape(options=("red", "blue"))
# On the edges of bins, and next to them.
PROBABILITIES = (0.0, 0.1, 0.3, 0.1 + 0.2, 0.45, 0.7, 0.9, 1.0)
TABLES = ("score_total", "score_bin", "score_cluster", "unscored", "score_round")
SUBMITTED_TABLES = ("submitted_total", "submitted_bin", "submitted_round")
EVERYTHING = ScoreFilter()
# More than once for each: what happens to some questions, in any order.
EVENTS = ("ask", *["forecast"] * 4, *["resolve"] * 2, "change", "score")


class RandomHistory:
    """Does what venues and the daemon may do, in any order, and mostly scores at last."""

    def __init__(self, fixture: LedgerFixture, seed: int, events: Sequence[str] = EVENTS) -> None:
        self.fixture, self.random, self.events = fixture, Random(seed), events
        self.questions: dict[str, Question] = {}
        self.forecasts: list[Forecast] = []

    async def run(self, events: int) -> None:
        await self.ask()
        for _ in range(events):
            await getattr(self, self.random.choice(self.events))()

    async def ask(self) -> None:
        key, draw = f"q{len(self.questions)}", self.random.choice
        shape = draw([COLOURS, None, None])
        changes: dict[str, Any] = {} if shape is None else {"shape": shape}
        crowd = BinaryPrediction(draw(PROBABILITIES)) if shape is None else ChoicePrediction({"red": 0.6, "blue": 0.4})
        horizons = draw([(None,), (None, None), (7,), (7, 30)])
        question = self.fixture.question(
            key,
            targets=tuple(Target(key=f"t{place}", horizon_days=days) for place, days in enumerate(horizons)),
            crowd=draw([None, CrowdForecast(prediction=crowd, at=NOON)]),
            **changes,
            **self.draw_changes(),
        )
        self.questions[key] = question
        await self.fixture.ledger.questions.record([question], seen_at=NOON)

    def draw_changes(self) -> dict[str, Any]:
        draw = self.random.choice
        return {
            "series": draw(["", "rain in town"]),
            "batch": draw([None, "2026-03-01", "2026-03-02"]),
            "source": draw(["almanac", "gauge", ""]),
            "family": draw(["market", "dataset"]),
            "closes_at": draw([None, NOON + 2 * DAY, NOON + 9 * DAY]),
            "spot_at": draw([None, None, None, NOON + 3 * DAY]),
        }

    async def change(self) -> None:
        key = self.random.choice([*self.questions])
        self.questions[key] = replace(self.questions[key], **self.draw_changes())
        await self.fixture.ledger.questions.record([self.questions[key]], seen_at=NOON)

    async def forecast(self) -> None:
        question = self.random.choice([*self.questions.values()])
        now, forecaster = NOON + self.random.randrange(5) * DAY, self.random.choice(["first", "second"])
        running = await self.fixture.begin(question, now=now, cutoff=now, forecaster=forecaster)
        probability = self.random.choice(PROBABILITIES)
        said = (
            ChoicePrediction({"red": 0.3, "blue": 0.7}) if question.shape is COLOURS else BinaryPrediction(probability)
        )
        given = {target.key: said for target in question.targets}
        answer = self.fixture.answer(question, running, 0.5, made_at=now, forecaster=forecaster)
        made = replace(answer, raw=given, predictions=given)
        await self.fixture.ledger.forecasts.complete(made, next_due=None)
        self.forecasts.append(made)

    async def submit(self) -> None:
        """Also long after the outcome, or again; what still waits for its venue is superseded."""
        if not self.forecasts:
            return
        store, mode = self.fixture.ledger.submissions, self.random.choice([ExecutionMode.PAPER, ExecutionMode.LIVE])
        forecast, account = self.random.choice(self.forecasts), f"account {self.random.randrange(8)}"
        send = self.fixture.send(forecast)
        name = f"{send.intent.id} {account} {mode}"
        planned = replace(send, intent=replace(send.intent, id=name, account=account), mode=mode)
        stored = await store.decide(forecast_id=forecast.id, decision=planned, at=NOON)
        rows = await store.readers.run(lambda database: list_question_orders(database, forecast.ref, 100))
        waiting = {one.row.intent.id for one in rows if one.row.state is IntentState.PLANNED}
        if isinstance(stored, SendDecision) and stored.intent.id in waiting:
            state = self.random.choice([None, IntentState.ACKED, IntentState.ACKED, IntentState.REFUSED])
            if state is not None:
                await store.begin_attempt([stored.intent.id], at=NOON)
                await store.settle([WriteReceipt(intent=stored.intent.id, state=state)], at=NOON)

    async def resolve(self) -> None:
        question = self.random.choice([*self.questions.values()])
        known: list[Outcome] = [BinaryOutcome(1.0), BinaryOutcome(0.0), BinaryOutcome(0.25)]
        if question.shape is COLOURS:
            known = [ChoiceOutcome("red"), ChoiceOutcome("blue")]
        outcome = self.random.choice([*known * 3, VoidOutcome("withdrawn"), VoidOutcome("annulled")])
        target = self.random.choice(question.targets).key
        at = NOON + self.random.randrange(2, 7) * DAY
        found = Resolution(ref=question.ref, target=target, outcome=outcome, resolved_at=at)
        await self.fixture.ledger.resolutions.record([found], seen_at=NOON)

    async def score(self) -> None:
        items = await self.fixture.ledger.scores.to_score(self.random.choice([1, 3, 1000]))
        await self.fixture.ledger.scores.record(items, compute_scores(items), at=NOON)


async def read_forecasters(fixture: LedgerFixture, chosen: ScoreFilter = EVERYTHING) -> dict[str, ForecasterSums]:
    return sums_by_forecaster(await fixture.ledger.scores.read_sums(chosen))


@pytest.mark.parametrize("seed", range(3))
async def test_sums_equal_what_the_rows_give_after_any_history(ledger_fixture: LedgerFixture, seed: int) -> None:
    await live_through(RandomHistory(ledger_fixture, seed), events=30)
    await require_sums_of_rows(ledger_fixture, EVERYTHING)


@pytest.mark.parametrize("seed", range(3))
async def test_sums_of_what_was_submitted_equal_what_the_rows_give(ledger_fixture: LedgerFixture, seed: int) -> None:
    await live_through(RandomHistory(ledger_fixture, seed, (*EVENTS, *["submit"] * 8)), events=80)
    for chosen in (ScoreFilter(paper=True), ScoreFilter(paper=False)):
        assert not chosen.needs_rows
        await require_sums_of_rows(ledger_fixture, chosen)


async def live_through(history: RandomHistory, events: int) -> None:
    for _ in range(4):
        await history.run(events)
        # Also while outcomes wait to be scored.
        assert history.fixture.faults() == {}
    while await history.fixture.ledger.scores.to_score(1):
        await history.score()


async def require_sums_of_rows(ledger_fixture: LedgerFixture, chosen: ScoreFilter) -> None:
    scores, rng = ledger_fixture.ledger.scores, np.random.default_rng(1)
    rows = rows_by_forecaster(await scores.read_binary_columns(chosen))
    forecasters = await read_forecasters(ledger_fixture, chosen)
    assert {name for name, own in forecasters.items() if own.score_groups(rng)} == {*rows} != set()
    bins = reliability_bins(await scores.read_bins(chosen))
    for name, found in rows.items():
        total = forecasters[name].score_groups(rng)[ALL][ALL]
        expected = score_group([one.row for one in found], rng)
        assert (total.n, total.base_rate, total.brier) == pytest.approx(
            (expected.n, expected.base_rate, expected.brier)
        )
        # Nothing that is drawn together is taken for independent.
        own, least = forecasters[name].rules[BRIER], 1 if chosen is EVERYTHING else 0
        assert least < len({*own.units[own.values[:, 0] > 0].tolist()}) <= len({one.row.cluster for one in found})
        assert (total.crowd is None) == (expected.crowd is None)
        if total.crowd is not None and expected.crowd is not None:
            assert total.crowd.n == expected.crowd.n
            assert total.crowd.gain.estimate == pytest.approx(expected.crowd.gain.estimate)
        reliability = equal_width_bins([one.row.probability for one in found], [one.row.outcome for one in found])
        for column in ("lower", "upper", "rows", "mean_forecast", "event_rate"):
            assert getattr(bins[name], column) == pytest.approx(getattr(reliability, column)), column


async def test_choices_and_groups_equal_those_of_the_rows(ledger_fixture: LedgerFixture) -> None:
    history = RandomHistory(ledger_fixture, 12)
    await history.run(200)
    while await ledger_fixture.ledger.scores.to_score(1):
        await history.score()
    others = rule_scores_by_forecaster(await read_row_scores(ledger_fixture.ledger, ScoreFilter()))
    rows = rows_by_forecaster(await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter()))
    forecasters, rng = await read_forecasters(ledger_fixture), np.random.default_rng(1)
    assert others.keys() == {"first", "second"}
    for name, found in others.items():
        [kind], [expected] = (
            forecasters[name].report_kinds(rng).values(),
            kind_reports(found, rng=rng).values(),
        )
        assert kind.n == expected.n
        assert {rule: one.estimate for rule, one in kind.scores.items()} == pytest.approx(
            {rule: one.estimate for rule, one in expected.scores.items()}
        )
        assert {source: one.n for source, one in kind.by_source.items()} == {
            source: one.n for source, one in expected.by_source.items()
        }
        groups = forecasters[name].score_groups(rng)
        for source in ("almanac", "gauge"):
            own = [one.row for one in rows[name] if one.row.source == source]
            assert groups["source"][source].brier == pytest.approx(score_group(own, rng).brier)
        days = {one.row.horizon_days for one in rows[name]} - {None}
        assert [*groups["horizon"]] == [str(one) for one in sorted(filter(None, days))]


async def test_the_whole_report_equals_that_of_the_rows(ledger_fixture: LedgerFixture) -> None:
    history = RandomHistory(ledger_fixture, 13)
    await history.run(200)
    while await ledger_fixture.ledger.scores.to_score(1):
        await history.score()
    scores, rng = ledger_fixture.ledger.scores, np.random.default_rng(1)
    rows = rows_by_forecaster(await scores.read_binary_columns(ScoreFilter()))
    others = rule_scores_by_forecaster(await read_row_scores(ledger_fixture.ledger, ScoreFilter()))
    # Read from the sums, and added up because of the time.
    for chosen in (ScoreFilter(), ScoreFilter(since=NOON - DAY)):
        rounds = await scores.read_rounds(chosen)
        for name, own in (await read_forecasters(ledger_fixture)).items():
            of_name = [one for one in rounds if one.forecaster == name]
            found = own.report(own.score_groups(rng), of_name, rng).to_json()
            expected = build_report([one.row for one in rows[name]], graded=others[name], rng=rng).to_json()
            assert len(expected["by_round"]) == 3  # type: ignore[arg-type]
            assert flatten(found) == {
                path: pytest.approx(leaf) if isinstance(leaf, float) else leaf
                for path, leaf in flatten(expected).items()
            }


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of a report by their path, but not the ends of intervals, which are drawn."""
    if not isinstance(value, dict):
        return {path: value}
    return {
        name: leaf
        for key, part in value.items()
        if key not in {"low", "high"}
        for name, leaf in flatten(part, f"{path}/{key}").items()
    }


async def test_a_filter_by_time_reads_rows_and_finds_the_same(ledger_fixture: LedgerFixture) -> None:
    history = RandomHistory(ledger_fixture, 5)
    await history.run(100)
    scores = ledger_fixture.ledger.scores
    gauge, market = ScoreFilter(source="gauge"), ScoreFilter(venue="lantern", family="market")
    for same in (ScoreFilter(), ScoreFilter(forecaster="first"), gauge, market):
        kept = await scores.read_sums(same)
        counted = await scores.read_sums(replace(same, since=NOON - DAY))
        assert sorted(zip(counted.rule, counted.unit, counted.n, strict=True)) == sorted(
            zip(kept.rule, kept.unit, kept.n, strict=True)
        )
        assert sum(kept.value) == pytest.approx(sum(counted.value))
    assert (await scores.read_sums(ScoreFilter(since=NOON + 9 * DAY))).n == ()


async def test_pairs_are_the_predictions_that_both_forecasters_made(ledger_fixture: LedgerFixture) -> None:
    history = RandomHistory(ledger_fixture, 3)
    await history.run(150)
    while await ledger_fixture.ledger.scores.to_score(1):
        await history.score()
    columns = await ledger_fixture.ledger.scores.read_binary_columns(ScoreFilter())
    brier = {
        (forecaster, ref, target): (probability - outcome) ** 2
        for forecaster, ref, target, probability, outcome in zip(
            columns.forecaster, columns.ref, columns.target, columns.probability, columns.outcome, strict=True
        )
    }
    shared = [key[1:] for key in brier if key[0] == "first" and ("second", *key[1:]) in brier]
    pairs = await ledger_fixture.ledger.scores.read_pairs(ScoreFilter(), other="second")
    assert {name for name, *_ in pairs} == {"first"}
    _, _, counts, own, theirs = zip(*pairs, strict=True)
    assert sum(counts) == len(shared) > 3
    assert sum(own) == pytest.approx(sum(brier["first", *key] for key in shared))
    assert sum(theirs) == pytest.approx(sum(brier["second", *key] for key in shared))
    gain = compare_sums(np.array([row[2:] for row in pairs]), np.random.default_rng(1))
    assert gain.brier_index == pytest.approx(float(index_from_brier(sum(own) / sum(counts))))
    assert gain.gain.estimate == pytest.approx(gain.brier_index - gain.crowd_brier_index)


async def test_an_older_ledger_is_filled_by_its_migration(ledger_fixture: LedgerFixture, tmp_path: Path) -> None:
    history = RandomHistory(ledger_fixture, 7, (*EVENTS, *["submit"] * 4))
    await history.run(200)
    older = tmp_path / "older" / "ledger.sqlite"
    older.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(ledger_fixture.path)) as source, closing(sqlite3.connect(older)) as copy:
        source.backup(copy)
        for table in (*TABLES, *SUBMITTED_TABLES):
            copy.execute(f"drop table {table}")
        for table in ("_sqlite_migrations", "_migration_checksum"):
            copy.execute(f"delete from {table} where name glob '000[246]_s*'")  # noqa: S608 - names of ours
        copy.commit()
    async with open_ledger(older, now=NOON) as ledger:
        filled = LedgerFixture(ledger, older)
        assert filled.faults() == {}
        columns = "forecaster, rule, sum(n), round(sum(value), 9)"
        asked = f"select {columns} from score_total where n <> 0 group by 1, 2"  # noqa: S608 - names of ours
        assert filled.rows(asked) == ledger_fixture.rows(asked) != []
        for table in SUBMITTED_TABLES:
            asked = f"select paper, forecaster, sum(n) from {table} where n <> 0 group by 1, 2"  # noqa: S608 - names of ours
            assert filled.rows(asked) == ledger_fixture.rows(asked) != []
        asked = "select ref, target, forecaster, why from unscored where why <> 'not scored yet' order by 1, 2, 3"
        assert {*ledger_fixture.rows(asked)} <= {*filled.rows(asked)}


def test_the_interval_of_a_group_agrees_with_scipy() -> None:
    random = np.random.default_rng(3)
    brier = random.beta(1, 5, 400)
    ones = np.ones(len(brier))
    crowd = np.minimum(brier + random.normal(0.02, 0.05, len(brier)), 1.0).clip(0.0)
    sums = np.column_stack([ones, ones, brier, ones, brier, crowd])
    assert len(SUMS) == sums.shape[1]
    found = score_resampled(resample_groups([sums], random)[0])

    def gain(own: Any, other: Any, axis: int) -> Any:
        return index_from_brier(own.mean(axis=axis)) - index_from_brier(other.mean(axis=axis))

    theirs = bootstrap(
        (brier, crowd), gain, paired=True, n_resamples=2_000, method="percentile", rng=random
    ).confidence_interval
    assert found.crowd is not None
    assert found.crowd.gain.low == pytest.approx(theirs.low, abs=0.1)
    assert found.crowd.gain.high == pytest.approx(theirs.high, abs=0.1)


def test_a_group_in_some_units_has_the_interval_of_those_units() -> None:
    """As a domain of the whole: the same width as when its units are drawn alone, to the error of 2,000 resamples."""
    random = np.random.default_rng(4)
    brier = random.beta(1, 5, 600)
    sums = np.column_stack([np.ones(600), np.ones(600), brier, np.zeros(600), np.zeros(600), np.zeros(600)])
    part = sums * (np.arange(600) % 6 == 0)[:, None]
    _, within = resample_groups([sums, part], random)
    [alone] = resample_groups([sums[::6]], random)
    one, other = score_resampled(within).brier_index, score_resampled(alone).brier_index
    assert one.estimate == pytest.approx(other.estimate)
    assert None not in {one.low, one.high, other.low, other.high}
    assert (one.high or 0) - (one.low or 0) == pytest.approx((other.high or 0) - (other.low or 0), rel=0.15)
