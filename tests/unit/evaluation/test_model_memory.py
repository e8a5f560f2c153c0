"""Outcomes that a model may simply remember: counted, named, and told apart from those of which nothing is known."""

import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from bot.cli.output.console import SafeConsole
from bot.cli.output.model_memory import memory_line, memory_to_json, print_memory, print_memory_line
from bot.config.schema import LlmSection
from bot.core.clock import SeededRandom
from bot.core.learning import Round
from bot.core.outcomes import BinaryOutcome, Resolution, VoidOutcome
from bot.evaluation.backtest import BacktestSubject, BacktestWindow, run_backtest
from bot.evaluation.model_memory import (
    AskedOutcome,
    MemoryReport,
    canonical_model_name,
    knowledge_cutoff,
    memory_in_rounds,
    memory_on_record,
    memory_report,
    published_cutoff,
    shipped_cutoffs,
)
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import ForecastRunFixture, model_with_beliefs, open_forecast_runs, question
from tests.unit.testing.correct_venue import START, LanternArchive, outcome

NOTHING = LlmSection()
PUBLISHED = {
    canonical_model_name(name): date.fromisoformat(day)
    for name, day in {
        "opal-4": "2023-12-01",
        "opal-4-turbo": "2024-06-01",
        "opal-4.1": "2024-09-30",
        "opal-4.1-mini": "2024-05-31",
        "flint3": "2024-08-31",
    }.items()
}


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("opal-4", "2023-12-01"),
        ("opal-4-0613", "2023-12-01"),
        ("opal-4-1106-preview", "2023-12-01"),
        ("opal-4-turbo-2024-04-09", "2024-06-01"),
        ("opal-4.1", "2024-09-30"),
        ("maker/OPAL-4-1:free", "2024-09-30"),
        ("router/maker/opal-4.1-mini-2025-04-14", "2024-05-31"),
        ("cloud/us.maker.opal-4-1-20250929-v1:0", "2024-09-30"),
        ("cloud/opal-4-1@20250514", "2024-09-30"),
        ("opal-4.1-preview-05-06", "2024-09-30"),
        ("flint3:27b-instruct-q4_K_M", "2024-08-31"),
        ("flint-3-8b-it", "2024-08-31"),
    ],
)
def test_a_name_stands_for_its_versions_sizes_and_spellings(name: str, day: str) -> None:
    assert published_cutoff(name, PUBLISHED) == date.fromisoformat(day)


@pytest.mark.parametrize(
    "name",
    [
        "opal-4.2",
        "opal-4o",
        "opal-4-fast",
        "opal-40",
        "opal-4.1-pro",
        "opal",
        "flint-3n",
        "chatopal-4",
        "local/small",
        "",
    ],
)
def test_another_model_of_the_family_is_not_guessed(name: str) -> None:
    assert published_cutoff(name, PUBLISHED) is None


def test_config_counts_before_what_is_shipped_and_other_models_are_unknown() -> None:
    shipped = "litellm:gemini/gemini-3.1-pro-preview"
    assert knowledge_cutoff(shipped, NOTHING) == date(2025, 1, 31)
    section = LlmSection.model_validate(
        {"models": {shipped: {"knowledge_cutoff": "2025-08-01"}, "local:small": {"free": True}}}
    )
    assert knowledge_cutoff(shipped, section) == date(2025, 8, 1)
    assert knowledge_cutoff("local:small", section) is None


def test_every_line_that_is_shipped_is_read_and_each_name_stands_once() -> None:
    text = resources.files("plugins").joinpath("knowledge_cutoffs.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(shipped_cutoffs()) == len(lines) > 40
    assert all(date(2021, 1, 1) < day < date(2026, 11, 1) for day in shipped_cutoffs().values())
    assert lines == sorted(lines)


DAY = timedelta(days=1)
NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
SMALL, LARGE = "local:small", "local:large"
# What plays the role main in the theatre.
PLAYER = "prime:big"
ARCHIVE = LanternArchive()


def section(**cutoffs: date) -> LlmSection:
    return LlmSection.model_validate(
        {"models": {f"local:{name}": {"knowledge_cutoff": day} for name, day in cutoffs.items()}}
    )


def asked(ref: str, known_at: datetime, *models: str) -> AskedOutcome:
    return AskedOutcome(ref=ref, known_at=known_at, models=frozenset(models))


def printed(report: MemoryReport, show: Any) -> str:
    console = SafeConsole(file=io.StringIO(), width=300, markup=False, highlight=False)
    show(console, report)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_outcomes_known_by_the_day_of_the_cutoff_are_marked() -> None:
    outcomes = [
        asked("q:1", NOON, SMALL),
        asked("q:2", NOON + DAY, SMALL),
        asked("q:3", NOON - DAY, SMALL, LARGE),
        asked("q:3", NOON, SMALL),
        asked("q:4", NOON, *()),
    ]
    report = memory_report(outcomes, section(small=NOON.date()))
    assert (report.asked, report.remembered, report.unclear, report.questions) == (4, 3, 0, ("q:1", "q:3"))
    assert [(one.model, one.cutoff, one.asked, one.remembered) for one in report.models] == [
        (LARGE, None, 1, 0),
        (SMALL, NOON.date(), 4, 3),
    ]
    assert report.unknown == (LARGE,)


def test_where_no_known_cutoff_reaches_an_outcome_an_unknown_one_leaves_it_unclear() -> None:
    report = memory_report([asked("q:1", NOON, SMALL, LARGE)], section(small=NOON.date() - DAY))
    assert (report.remembered, report.unclear) == (0, 1)


MANY = (
    "memory: 1 of 1 outcomes were known before the knowledge cutoff of a model (local:small, 2025-06-01: 1), "
    "which may remember them"
)
NONE = "memory: none of 1 outcomes was known before the knowledge cutoff of a model (local:small, 2025-05-31)"
UNKNOWN = 'memory: the knowledge cutoff of local:small is not known: set knowledge_cutoff in [llm.models."local:small"]'


@pytest.mark.parametrize(("cutoff", "told"), [(NOON.date(), MANY), (NOON.date() - DAY, NONE), (None, UNKNOWN)])
def test_a_backtest_says_it_in_one_line(cutoff: date | None, told: str) -> None:
    report = memory_report([asked("q:1", NOON, SMALL)], section() if cutoff is None else section(small=cutoff))
    assert memory_line(report) == told
    assert printed(report, print_memory_line) == f"{told}\n"


def test_without_a_model_there_is_nothing_to_say() -> None:
    report = memory_report([asked("q:1", NOON)], section())
    assert printed(report, print_memory_line) == printed(report, print_memory) == ""


def test_an_audit_has_a_section_of_it() -> None:
    report = memory_report([asked("q:1", NOON, SMALL), asked("q:2", NOON, LARGE)], section(small=NOON.date()))
    text = " ".join(printed(report, print_memory).split())
    assert "What models may remember" in text
    assert "local:small 2025-06-01 1 1" in text
    assert "local:large not known 1 not known" in text
    assert "1 of 2 forecasts are of outcomes that a model may remember" in text
    assert 'set knowledge_cutoff in [llm.models."local:large"]' in text


def test_it_is_told_as_json_too() -> None:
    report = memory_report([asked("q:1", NOON, SMALL), asked("q:2", NOON, LARGE)], section(small=NOON.date()))
    assert json.loads(json.dumps(memory_to_json(report))) == {
        "asked": 2,
        "may_be_remembered": 1,
        "unclear": 1,
        "questions": ["q:1"],
        "models": {
            LARGE: {"knowledge_cutoff": None, "asked": 1, "may_be_remembered": None},
            SMALL: {"knowledge_cutoff": "2025-06-01", "asked": 1, "may_be_remembered": 1},
        },
    }


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    ) as forecast_runs:
        yield forecast_runs


def trained(until: date) -> LlmSection:
    return LlmSection.model_validate({"models": {PLAYER: {"knowledge_cutoff": until}}})


def nothing(a_round: Round) -> None:
    """Learn nothing."""


async def test_a_backtest_is_held_against_the_models_that_really_answered(forecast_runs: ForecastRunFixture) -> None:
    tested = BacktestSubject(
        configured_forecaster=forecast_runs.configure_forecaster(trials=2),
        fit_parameters=nothing,
        tool_factory=forecast_runs.make_tool_factory(),
    )
    await run_backtest(ARCHIVE, tested, BacktestWindow(), random=SeededRandom(1), progress=lambda _: None)
    rounds = [ARCHIVE.read_round(key) for key in ARCHIVE.round_keys()]
    scopes = {one.ref: tested.record_scope(one.ref) for a_round in rounds for one in a_round.questions}
    # The first outcome was known two days after the start, the second one a day later.
    until = (START + 2 * DAY).date()
    report = await memory_in_rounds(rounds, scopes, forecast_runs.ledger, trained(until))
    assert (report.asked, report.remembered, report.questions) == (2, 1, ("lantern:0",))
    assert [one.model for one in report.models] == [PLAYER]
    # What another run took from the record was answered by the same model.
    other = BacktestSubject(
        configured_forecaster=forecast_runs.configure_forecaster(trials=2),
        fit_parameters=nothing,
        tool_factory=forecast_runs.make_tool_factory(),
        run="other",
    )
    await run_backtest(ARCHIVE, other, BacktestWindow(), random=SeededRandom(1), progress=lambda _: None)
    again = {ref: other.record_scope(ref) for ref in scopes}
    assert await memory_in_rounds(rounds, again, forecast_runs.ledger, trained(until)) == report


async def test_annulled_questions_and_those_without_a_model_do_not_count(forecast_runs: ForecastRunFixture) -> None:
    a_round = ARCHIVE.read_round("0")
    annulled = Round(
        key="0",
        as_of=a_round.as_of,
        questions=a_round.questions,
        resolutions=(outcome(0, outcome=VoidOutcome("withdrawn")),),
    )
    scopes = {one.ref: "a scope" for one in a_round.questions}
    for rounds in ([annulled], [a_round]):
        assert (await memory_in_rounds(rounds, scopes, forecast_runs.ledger, trained(START.date()))).asked == 0


async def test_what_is_on_record_of_a_backtest_counts_from_the_day_as_of_which_it_was_asked(
    forecast_runs: ForecastRunFixture,
) -> None:
    tested = BacktestSubject(
        configured_forecaster=forecast_runs.configure_forecaster(trials=1),
        fit_parameters=nothing,
        tool_factory=forecast_runs.make_tool_factory(),
    )
    await run_backtest(ARCHIVE, tested, BacktestWindow(), random=SeededRandom(1), progress=lambda _: None)
    report = await memory_on_record(forecast_runs.ledger, trained(START.date()))
    assert (report.asked, report.remembered, report.questions) == (2, 1, ("lantern:0",))
    assert (await memory_on_record(forecast_runs.ledger, trained(START.date() - DAY))).remembered == 0
    later = forecast_runs.clock.now() + DAY
    assert (await memory_on_record(forecast_runs.ledger, trained(START.date()), since=later)).models == ()


async def test_a_forecast_on_record_counts_by_its_outcome_else_by_when_that_is_due(
    forecast_runs: ForecastRunFixture,
) -> None:
    now = forecast_runs.clock.now()
    snow = question("snow", closes_at=now + 9 * DAY)
    await forecast_runs.forecast(question("rain"))
    await forecast_runs.forecast(snow)
    until = trained((now + 5 * DAY).date())
    # Of rain nothing is known but when it was asked.
    assert (await memory_on_record(forecast_runs.ledger, until)).questions == ("lantern:rain",)
    known = Resolution(ref=snow.ref, target="outcome", outcome=BinaryOutcome(1.0), resolved_at=now + 2 * DAY)
    await forecast_runs.ledger.resolutions.record([known], seen_at=now + 2 * DAY)
    assert set((await memory_on_record(forecast_runs.ledger, until)).questions) == {"lantern:rain", "lantern:snow"}


async def test_what_may_see_everything_is_left_aside(forecast_runs: ForecastRunFixture) -> None:
    past = forecast_runs.clock.now() - 30 * DAY
    await forecast_runs.forecast(question("rain", as_of=past), clairvoyant=True)
    assert (await memory_on_record(forecast_runs.ledger, trained(forecast_runs.clock.now().date()))).asked == 0
