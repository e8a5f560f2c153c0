"""Forecasters in the laboratory: the real trial tools, gateway and ledger on a few questions, twice the same."""

import math
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import NotFoundError, PluginError, RequestRejectedError
from bot.core.predictions import BinaryPrediction
from bot.core.questions import SINGLE_TARGET
from bot.core.research import FetchedPage
from bot.core.values import Json
from bot.plugin_system.registry import BrokenPlugin, load_registry
from bot.simulator.laboratory.__main__ import main
from bot.simulator.laboratory.answers import ForecasterAnswers
from bot.simulator.laboratory.experiment import ExperimentPlan, run_ablations, run_comparison
from bot.simulator.laboratory.forecaster_comparison import VARIANTS, comparison_variants, forecaster_plugins
from bot.simulator.laboratory.forecaster_variants import (
    BOLD_ONE_STEP,
    OVERCONFIDENCE_FACTOR,
    PARTS,
    PLAIN_ONE_STEP,
    ForecasterVariant,
)
from bot.simulator.laboratory.questions import END_DAY, create_world, select_questions
from bot.simulator.laboratory.runs import ForecasterJob, run_all_jobs, run_blend_job, run_job
from bot.simulator.laboratory.trial_runner import (
    FORECASTER_NAME,
    NEWS_ORIGIN,
    LaboratoryServers,
    NewsPageFetcher,
    NewsPageReader,
    SubGoalCounter,
    require_no_broken_plugins,
    write_config,
)
from bot.simulator.world.news import ArticleKind
from bot.simulator.world.news_server import NewsServer
from bot.testing.clock import FakeClock
from plugins.team import team_run

# As a team records them.
GOALS, SETTLED = team_run.GOALS, team_run.SETTLED
SEED = 4


def job(folder: Path, setup: ForecasterVariant, count: int = 2) -> ForecasterJob:
    return ForecasterJob(seed=SEED, count=count, setup=setup, folder=folder, plugins=("blf", "baseline"))


def step(name: str, arguments: dict[str, Json]) -> Step:
    belief = Belief(predictions={SINGLE_TARGET: BinaryPrediction(0.5)})
    return Step(action=StepAction(name=name, arguments=arguments), observation=StepObservation(text=""), belief=belief)


def untimed(answers: ForecasterAnswers) -> ForecasterAnswers:
    return replace(answers, uses={count: replace(use, seconds=0.0) for count, use in answers.uses.items()})


def test_a_run_is_the_same_again_and_no_rewritten_article_passes_its_guards(tmp_path: Path) -> None:
    setup = ForecasterVariant(name="reference", trials=2, audits_leaks=True, is_calibrated=True)
    once, again = (run_job(job(tmp_path / name, setup, count=2)) for name in ("once", "again"))
    assert untimed(once) == untimed(again)
    assert (once.unanswered, once.failures) == (0, {})
    assert once.uses[1].calls < once.uses[2].calls
    assert all(0.05 <= one <= 0.95 for one in once.pooled_answers(2))
    # Two questions are too little for a fit.
    assert once.corrected is not None
    assert (list(once.corrected.answers), list(once.corrected.adopted)) == (list(once.pooled_answers(2)), [])
    assert once.leaks is not None
    assert once.leaks.found_by_search > 0
    assert (once.leaks.let_in, once.leaks.caught) == (0, 0)


def test_a_lenient_judge_lets_rewritten_articles_in_and_the_audit_finds_them(tmp_path: Path) -> None:
    answers = run_job(job(tmp_path, PARTS["leaks"][0], count=2))
    assert answers.leaks is not None
    assert 0 < answers.leaks.caught == answers.leaks.let_in == answers.leaks.found_by_search


def test_the_bold_mind_multiplies_log_odds_and_does_nothing_else(tmp_path: Path) -> None:
    reported: list[str] = []
    jobs = [replace(job(tmp_path, setup, count=10)) for setup in (PLAIN_ONE_STEP, BOLD_ONE_STEP)]
    plain, bold = (answers.pooled_answers(1) for answers in run_all_jobs(run_job, jobs, 1, reported.append))
    pairs = [(math.log(p / (1 - p)), math.log(b / (1 - b))) for p, b in zip(plain, bold, strict=True)]
    # Answers have four digits, and are kept off 0 and 1.
    inner = [(straight, stretched) for straight, stretched in pairs if 0.2 < abs(straight) < 2.5]
    assert len(inner) >= 5
    assert [stretched for _, stretched in inner] == pytest.approx(
        [OVERCONFIDENCE_FACTOR * one for one, _ in inner], rel=0.01
    )
    assert [line.partition(":")[0] for line in reported] == [PLAIN_ONE_STEP.name, BOLD_ONE_STEP.name]


def test_a_forecaster_without_models_needs_no_workshop(tmp_path: Path) -> None:
    answers = run_job(job(tmp_path, VARIANTS["baseline"][0], count=3))
    assert (answers.use.calls, answers.unanswered, len(answers.pooled_answers(1))) == (0, 0, 3)


def test_a_forecaster_from_which_the_crowd_is_hidden_answers_without_it(tmp_path: Path) -> None:
    (variant,) = comparison_variants(["baseline"])
    (hiding,) = comparison_variants(["baseline"], hides_crowd=True)
    crowd = [case.crowd for case in select_questions(create_world(SEED, 3), 3)]
    seen = run_job(job(tmp_path / "seen", variant, count=3)).pooled_answers(1)
    hidden = run_job(job(tmp_path / "hidden", hiding, count=3)).pooled_answers(1)
    assert np.corrcoef(seen, crowd)[0, 1] > 0.9
    assert all(abs(one - price) > 0.01 for one, price in zip(hidden, crowd, strict=True))


@pytest.mark.parametrize("name", [name for name in VARIANTS if VARIANTS[name]])
def test_every_variant_is_a_configuration_that_its_plugin_takes(name: str, tmp_path: Path) -> None:
    (plugin,) = forecaster_plugins([name])
    pytest.importorskip(f"plugins.{plugin}")
    world = create_world(SEED, 2)
    clock = FakeClock()
    for setup in VARIANTS[name]:
        servers = LaboratoryServers(
            world=world,
            clock=clock,
            news_server=NewsServer(clock, world),
            press_url="http://127.0.0.1:1",
            minds_url="http://127.0.0.1:2/v1",
            folder=tmp_path,
            plugins=(plugin,),
        )
        config = write_config(servers, setup)
        registry = load_registry(config)
        assert registry.broken == ()
        given = load_plugin_settings(registry.forecasters[FORECASTER_NAME], config).model_dump()
        assert all(given[key] == value for key, value in setup.settings.items() if key != "interventions")


async def test_the_share_of_settled_sub_goals_is_counted_over_trials() -> None:
    counter = SubGoalCounter()
    assert counter.rate is None
    cases: tuple[list[Json], ...] = (["status"], [], ["status", "dates"])
    for settled in cases:
        log_step = counter.start_trial()
        await log_step(1, step("search", {}))
        await log_step(2, step("note", {SETTLED: settled, GOALS: 4} if settled else {}))
        await log_step(3, step("submit", {GOALS: 4}))
    assert counter.rate == 3 / 12


def test_a_misspelt_part_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["--only", "believe", "--out", str(tmp_path / "out.json")]) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "no part believe" in capsys.readouterr().err


def test_forecasters_are_run_and_their_blend_after_them(tmp_path: Path) -> None:
    plan = ExperimentPlan(seed=SEED, questions=2, folder=tmp_path, forecasters=("baseline", "blf", "blend"))
    rows = {row.name: row for row in run_comparison(plan, lambda _: None).rows}
    assert {"blf, 1 trial", "blf, 3 trials", "baseline", "blend", "true chance"} <= rows.keys()
    assert rows["blend"].use is not None
    assert rows["blend"].use.calls == 0


def test_the_bold_mind_is_looked_at_where_that_is_asked_for(tmp_path: Path) -> None:
    plan = ExperimentPlan(seed=SEED, questions=2, folder=tmp_path, parts=("overconfidence",), many=20, resamples=2)
    (recovery,) = run_ablations(plan, lambda _: None).recoveries
    assert (recovery.name, recovery.recovered) == ("overconfidence", False)
    assert "too few outcomes" in recovery.found


@pytest.mark.slow
def test_processes_side_by_side_give_what_one_gives(tmp_path: Path) -> None:
    setups = [replace(VARIANTS["baseline"][0], name=name) for name in ("first", "second")]
    alone, together = (
        run_all_jobs(run_job, [job(tmp_path / str(processes), setup) for setup in setups], processes, lambda _: None)
        for processes in (1, 2)
    )
    assert [untimed(one) for one in alone] == [untimed(one) for one in together]
    assert [one.name for one in together] == ["first", "second"]


def test_nothing_is_measured_without_a_plugin_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('plugins = ["blf"]', encoding="utf-8")
    registry = load_registry(load_config(tmp_path / "config.toml", {}))
    assert require_no_broken_plugins(registry) is registry
    with pytest.raises(PluginError, match="blf is broken: it fell"):
        require_no_broken_plugins(
            replace(registry, broken=(BrokenPlugin(plugin=registry.enabled[0], error=PluginError("it fell")),))
        )


def test_the_blend_learns_from_what_was_known_whom_to_follow(tmp_path: Path) -> None:
    pytest.importorskip("plugins.blend")
    count = 60
    cases = select_questions(create_world(SEED, count), count)
    message = {"blf": [0.9 if case.outcome else 0.1 for case in cases], "baseline": [0.6 for _ in cases]}
    asked = ForecasterJob(
        seed=SEED,
        count=count,
        setup=ForecasterVariant(name="any"),
        folder=tmp_path,
        plugins=("blend", "blf", "baseline"),
    )
    answers = run_blend_job(asked, message)
    assert (answers.unanswered, answers.use.calls) == (0, 0)
    # At first both count alike: odds of 9 or 1/9 times 1.5, to the power of 0.575.
    first, last = (1.5 * (9.0 if case.outcome else 1 / 9) for case in (cases[0], cases[-1]))
    assert answers.pooled_answers(1)[0] == pytest.approx(first**0.575 / (1 + first**0.575))
    # Later on, the one that was always right counts for more.
    assert abs(answers.pooled_answers(1)[-1] - 0.5) > abs(last**0.575 / (1 + last**0.575) - 0.5)


async def test_pages_are_the_articles_as_they_stand_now() -> None:
    world = create_world(SEED, 2)
    press = NewsServer(FakeClock(world.calendar.moment_of(END_DAY)), world, origin=NEWS_ORIGIN)
    article = next(one for one in press.news.published(END_DAY) if one.kind is ArticleKind.EDITED)
    fetcher, reader = NewsPageFetcher(press), NewsPageReader(press)
    page = await reader.read(await fetcher.fetch(f"{NEWS_ORIGIN}/news/{article.id}", refusal=lambda _: None))
    assert (page.title, page.text) == (article.title, article.versions[-1].text)
    assert page.published_at == world.calendar.moment_of(article.published)
    with pytest.raises(RequestRejectedError, match="not for this question"):
        await fetcher.fetch(f"{NEWS_ORIGIN}/news/{article.id}", refusal=lambda _: "not for this question")
    with pytest.raises(NotFoundError):
        await fetcher.fetch("https://elsewhere.example/", refusal=lambda _: None)
    with pytest.raises(NotFoundError):
        await reader.read(FetchedPage(url="https://elsewhere.example/", content=b"", media_type="text/plain"))
