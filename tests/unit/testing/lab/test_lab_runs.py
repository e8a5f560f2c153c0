"""Forecasters in the laboratory: the real desk, gateway and ledger on a few questions, twice the same."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.plugin_settings import settings_of
from bot.domain.research import Fetched
from bot.errors import NotFound, Rejected
from bot.registry import load_registry
from bot.testing.clock import FakeClock
from bot.testing.lab.answers import Answers
from bot.testing.lab.bench import SUBJECT, Hall, config_of
from bot.testing.lab.forecasters import VARIANTS, plugins_of
from bot.testing.lab.pages import ORIGIN, PressFetcher, PressReader
from bot.testing.lab.questions import END_DAY, world_of
from bot.testing.lab.running import Job, play, play_all
from bot.testing.lab.variants import BOLD_AT_ONCE, FACTOR, PARTS, PLAIN_AT_ONCE, Setup
from bot.testing.world.news import Kind
from bot.testing.world.web import Press

SEED = 4


def job(folder: Path, setup: Setup, count: int = 2) -> Job:
    return Job(seed=SEED, count=count, setup=setup, folder=folder, plugins=("blf", "baseline"))


def untimed(answers: Answers) -> Answers:
    return replace(answers, uses={count: replace(use, seconds=0.0) for count, use in answers.uses.items()})


def test_a_run_is_the_same_again_and_its_audit_finds_no_leak(tmp_path: Path) -> None:
    setup = Setup(name="reference", trials=2, audited=True, corrected=True)
    once, again = (play(job(tmp_path / name, setup)) for name in ("once", "again"))
    assert untimed(once) == untimed(again)
    assert (once.silent, once.failures) == (0, {})
    assert once.uses[1].calls < once.uses[2].calls
    assert all(0.05 <= one <= 0.95 for one in once.said(2))
    # Two questions are too few for a fit, and nothing that was rewritten came to the forecaster.
    assert once.corrected is not None
    assert (list(once.corrected.answers), list(once.corrected.adopted)) == (list(once.said(2)), [])
    assert once.leaks is not None
    assert (once.leaks.let_in, once.leaks.caught) == (0, 0)


def test_a_lenient_judge_lets_rewritten_articles_in_and_the_audit_finds_them(tmp_path: Path) -> None:
    answers = play(job(tmp_path, PARTS["leaks"][0], count=4))
    assert answers.leaks is not None
    assert 0 < answers.leaks.caught == answers.leaks.let_in == answers.leaks.met


def test_the_bold_mind_multiplies_log_odds_and_does_nothing_else(tmp_path: Path) -> None:
    told: list[str] = []
    jobs = [replace(job(tmp_path, setup, count=12)) for setup in (PLAIN_AT_ONCE, BOLD_AT_ONCE)]
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


@pytest.mark.parametrize("name", VARIANTS)
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
        given = settings_of(registry.forecasters[SUBJECT], config).model_dump()
        assert all(given[key] == value for key, value in setup.settings.items() if key != "interventions")


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
