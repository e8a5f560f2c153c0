"""Forecasters in the laboratory: the real desk, gateway and ledger on a few questions, twice the same."""

import math
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.domain.research import Fetched
from bot.errors import NotFound, PluginError, Rejected
from bot.registry import Broken, load_registry
from bot.testing.clock import FakeClock
from bot.testing.lab.__main__ import main
from bot.testing.lab.answers import Answers
from bot.testing.lab.bench import SUBJECT, Hall, config_of, whole
from bot.testing.lab.experiment import Plan, comparison_of, findings_of
from bot.testing.lab.forecasters import VARIANTS, plugins_of
from bot.testing.lab.pages import ORIGIN, PressFetcher, PressReader
from bot.testing.lab.questions import END_DAY, cases_of, world_of
from bot.testing.lab.running import Job, play, play_all, play_together
from bot.testing.lab.variants import BOLD_AT_ONCE, FACTOR, PARTS, PLAIN_AT_ONCE, Setup
from bot.testing.world.news import Kind
from bot.testing.world.web import Press

SEED = 4


def job(folder: Path, setup: Setup, count: int = 2) -> Job:
    return Job(seed=SEED, count=count, setup=setup, folder=folder, plugins=("blf", "baseline"))


def untimed(answers: Answers) -> Answers:
    return replace(answers, uses={count: replace(use, seconds=0.0) for count, use in answers.uses.items()})


def test_a_run_is_the_same_again_and_no_rewritten_article_passes_its_guards(tmp_path: Path) -> None:
    setup = Setup(name="reference", trials=2, audited=True, corrected=True)
    once, again = (play(job(tmp_path / name, setup, count=2)) for name in ("once", "again"))
    assert untimed(once) == untimed(again)
    assert (once.silent, once.failures) == (0, {})
    assert once.uses[1].calls < once.uses[2].calls
    assert all(0.05 <= one <= 0.95 for one in once.said(2))
    # Two questions are too little for a fit.
    assert once.corrected is not None
    assert (list(once.corrected.answers), list(once.corrected.adopted)) == (list(once.said(2)), [])
    assert once.leaks is not None
    assert once.leaks.met > 0
    assert (once.leaks.let_in, once.leaks.caught) == (0, 0)


def test_a_lenient_judge_lets_rewritten_articles_in_and_the_audit_finds_them(tmp_path: Path) -> None:
    answers = play(job(tmp_path, PARTS["leaks"][0], count=2))
    assert answers.leaks is not None
    assert 0 < answers.leaks.caught == answers.leaks.let_in == answers.leaks.met


def test_the_bold_mind_multiplies_log_odds_and_does_nothing_else(tmp_path: Path) -> None:
    told: list[str] = []
    jobs = [replace(job(tmp_path, setup, count=10)) for setup in (PLAIN_AT_ONCE, BOLD_AT_ONCE)]
    plain, bold = (answers.said(1) for answers in play_all(jobs, 1, told.append))
    pairs = [(math.log(p / (1 - p)), math.log(b / (1 - b))) for p, b in zip(plain, bold, strict=True)]
    # Answers have four digits, and are kept off 0 and 1.
    inner = [(straight, stretched) for straight, stretched in pairs if 0.2 < abs(straight) < 2.5]
    assert len(inner) >= 5
    assert [stretched for _, stretched in inner] == pytest.approx([FACTOR * one for one, _ in inner], rel=0.01)
    assert [line.partition(":")[0] for line in told] == [PLAIN_AT_ONCE.name, BOLD_AT_ONCE.name]


def test_a_forecaster_without_models_needs_no_workshop(tmp_path: Path) -> None:
    answers = play(job(tmp_path, VARIANTS["baseline"][0], count=3))
    assert (answers.use.calls, answers.silent, len(answers.said(1))) == (0, 0, 3)


@pytest.mark.parametrize("name", [name for name in VARIANTS if VARIANTS[name]])
def test_every_variant_is_a_configuration_that_its_plugin_takes(name: str, tmp_path: Path) -> None:
    (plugin,) = plugins_of([name])
    pytest.importorskip(f"plugins.{plugin}")
    world = world_of(SEED, 2)
    clock = FakeClock()
    for setup in VARIANTS[name]:
        hall = Hall(
            world=world,
            clock=clock,
            press=Press(clock, world),
            press_url="http://127.0.0.1:1",
            minds_url="http://127.0.0.1:2/v1",
            folder=tmp_path,
            plugins=(plugin,),
        )
        config = config_of(hall, setup)
        registry = load_registry(config)
        assert registry.broken == ()
        given = load_plugin_settings(registry.forecasters[SUBJECT], config).model_dump()
        assert all(given[key] == value for key, value in setup.settings.items() if key != "interventions")


def test_a_misspelt_part_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["--only", "believe", "--out", str(tmp_path / "out.json")]) == 2
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "no part believe" in capsys.readouterr().err


def test_forecasters_are_run_and_their_ensemble_after_them(tmp_path: Path) -> None:
    plan = Plan(seed=SEED, questions=2, folder=tmp_path, forecasters=("baseline", "blf", "ensemble"))
    rows = {row.name: row for row in comparison_of(plan, lambda _: None).rows}
    assert {"blf, 1 trial", "blf, 3 trials", "baseline", "ensemble", "true chance"} <= rows.keys()
    assert rows["ensemble"].use is not None
    assert rows["ensemble"].use.calls == 0


def test_the_bold_mind_is_looked_at_where_that_is_asked_for(tmp_path: Path) -> None:
    plan = Plan(seed=SEED, questions=2, folder=tmp_path, parts=("overconfidence",), many=20, resamples=2)
    (recovery,) = findings_of(plan, lambda _: None).recoveries
    assert (recovery.name, recovery.recovered) == ("overconfidence", False)
    assert "too few outcomes" in recovery.found


@pytest.mark.slow
def test_processes_side_by_side_give_what_one_gives(tmp_path: Path) -> None:
    setups = [replace(VARIANTS["baseline"][0], name=name) for name in ("first", "second")]
    alone, together = (
        play_all([job(tmp_path / str(processes), setup) for setup in setups], processes, lambda _: None)
        for processes in (1, 2)
    )
    assert [untimed(one) for one in alone] == [untimed(one) for one in together]
    assert [one.name for one in together] == ["first", "second"]


def test_nothing_is_measured_without_a_plugin_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('plugins = ["blf"]', encoding="utf-8")
    registry = load_registry(load_config(tmp_path / "config.toml", {}))
    assert whole(registry) is registry
    with pytest.raises(PluginError, match="blf is broken: it fell"):
        whole(replace(registry, broken=(Broken(plugin=registry.enabled[0], error=PluginError("it fell")),)))


def test_the_ensemble_learns_from_what_was_known_whom_to_follow(tmp_path: Path) -> None:
    pytest.importorskip("plugins.ensemble")
    count = 60
    cases = cases_of(world_of(SEED, count), count)
    said = {"blf": [0.9 if case.outcome else 0.1 for case in cases], "baseline": [0.5 for _ in cases]}
    asked = Job(
        seed=SEED, count=count, setup=Setup(name="any"), folder=tmp_path, plugins=("ensemble", "blf", "baseline")
    )
    answers = play_together(asked, said)
    assert (answers.silent, answers.use.calls) == (0, 0)
    # In equal parts a sure 0.9 and an even 0.5 make log-odds of half of ln 9, which is 0.75.
    assert answers.said(1)[0] == pytest.approx(0.75 if cases[0].outcome else 0.25)
    # Later on, who was always right counts for more.
    assert abs(answers.said(1)[-1] - 0.5) > 0.26


async def test_pages_are_the_articles_as_they_stand_now() -> None:
    world = world_of(SEED, 2)
    press = Press(FakeClock(world.calendar.at(END_DAY)), world, origin=ORIGIN)
    article = next(one for one in press.newsroom.published(END_DAY) if one.kind is Kind.EDITED)
    fetcher, reader = PressFetcher(press), PressReader(press)
    page = await reader.read(await fetcher.fetch(f"{ORIGIN}/news/{article.id}", refusal=lambda _: None))
    assert (page.title, page.text) == (article.title, article.versions[-1].text)
    assert page.published_at == world.calendar.at(article.published)
    with pytest.raises(Rejected, match="not for this question"):
        await fetcher.fetch(f"{ORIGIN}/news/{article.id}", refusal=lambda _: "not for this question")
    with pytest.raises(NotFound):
        await fetcher.fetch("https://elsewhere.example/", refusal=lambda _: None)
    with pytest.raises(NotFound):
        await reader.read(Fetched(url="https://elsewhere.example/", content=b"", media_type="text/plain"))
