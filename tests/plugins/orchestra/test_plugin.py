"""The plugin as the engine finds it, and whole forecasts on a real ledger: on record, replayed, and learned from."""

from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from string import Template

import pytest

from bot.clock import SeededRandom
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.domain.forecast import Forecast, Limits, TrialEnd
from bot.domain.prompt import Completion, Prompt
from bot.domain.question import Question
from bot.domain.resolution import Happened, Resolution
from bot.domain.step import Usage
from bot.errors import ConfigError
from bot.evaluation.replay import replay_forecast
from bot.jobs.calibrate import Identity
from bot.jobs.learn import School, Teacher
from bot.jobs.policy import Reforecast
from bot.jobs.sitting import Means, begin
from bot.registry import load_registry
from bot.specs import Can, ForecasterSpec, Table, Workplace
from bot.testing.clock import FakeClock
from bot.testing.http import DictHttp
from bot.testing.llm import ScriptedLlm
from plugins.orchestra import foxcast_forecasters
from plugins.orchestra.catalogue import CUSTOM, kinds
from plugins.orchestra.forecaster import Orchestra
from plugins.orchestra.lessons import LessonLearner
from plugins.orchestra.settings import OrchestraSettings
from tests.plugins.orchestra.cases import believing, desk, make, move, parallel, report, search, speaker, store, submit
from tests.plugins.orchestra.cases import question as asked_of
from tests.unit.sittings import Theatre, open_theatre, question

NAME = "orchestra"
DAY_S = 86_400.0


def spec() -> ForecasterSpec[OrchestraSettings]:
    (offered,) = foxcast_forecasters()
    return offered


async def test_the_engine_opens_it_with_settings_from_config(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('plugins = ["orchestra"]\n[forecasters.orchestra.settings]\nsteps = 2\nlessons = false\n')
    config = load_config(file, {})
    assert load_registry(config).broken == ()
    settings = load_plugin_settings(spec(), config)
    place = Workplace(clock=FakeClock(), http=DictHttp({}), folder=tmp_path)
    async with spec().open(settings, place) as forecaster:
        steps = [step async for step in forecaster.steps(asked_of(), desk(submit(0.7)))]
    assert [step.action.name for step in steps] == ["submit"]


def test_it_asks_models_and_learns() -> None:
    assert spec().abilities == {Can.ASK_MODELS, Can.LEARN}
    assert (spec().table, spec().trials, spec().roles) == (Table.FORECASTERS, 1, ("main",))
    steps, learner = spec().steps, spec().learner
    assert steps is not None
    # 14 moves of its own and 40 of subagents.
    assert steps(OrchestraSettings()) == 54
    assert learner is not None
    assert isinstance(learner(OrchestraSettings()), LessonLearner)


@pytest.mark.parametrize(
    "line",
    [
        "subagent = 3",
        "steps = 1",
        "candidates = 1",
        "concurrency = 9",
        "submit_margin = 0.5",
        "lesson_days = 0",
        'models = ["a b"]',
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'plugins = ["orchestra"]\n[forecasters.orchestra.settings]\n{line}\n')
    with pytest.raises(ConfigError):
        load_plugin_settings(spec(), load_config(file, {}))


def test_every_kind_has_a_summary_a_part_and_tools_and_only_the_forecaster_forecasts() -> None:
    found = kinds()
    assert list(found) == ["scout", "researcher", "analyst", "critic", "forecaster", CUSTOM]
    assert all(kind.summary and (kind.text or kind.name == CUSTOM) for kind in found.values())
    assert [kind.name for kind in found.values() if kind.forecasts] == ["forecaster"]
    there = ("web_search", "lookup_url")
    assert {name: kind.given(there) for name, kind in found.items()} == {
        "scout": there,
        "researcher": there,
        "analyst": there,
        "critic": (),
        "forecaster": (),
        CUSTOM: there,
    }


async def test_every_prompt_is_a_template_and_part_of_the_version_of_the_prompts() -> None:
    at = desk(submit())
    _ = [step async for step in Orchestra(OrchestraSettings()).steps(asked_of(), at)]
    folder = files("plugins.orchestra") / "prompts"
    prompts = [entry for entry in (*folder.iterdir(), *(folder / "kinds").iterdir()) if entry.is_file()]
    assert len(prompts) == 14
    for prompt in prompts:
        text = prompt.read_text(encoding="utf-8").rstrip("\n")
        assert Template(text).is_valid()
        assert text in at.kept[0]


def played(prompt: Prompt) -> Completion:
    """Return what each of them says, by how far it is: a leader with two researchers who work at the same time."""
    number = sum(message.speaker == "assistant" for message in prompt.messages)
    lines = {
        "orchestrator": [
            make("ann"),
            make("bob"),
            parallel("ann", "bob"),
            move("keep_lesson", {"text": "almanacs are late"}, believing(0.62)),
            submit(0.8),
        ],
        "ann": [search("clouds"), store("clouds come"), report("it will rain")],
        "bob": [search("wind"), move("shared_memory", {"operation": "recent"}), report("the wind turns")],
        "candidate": [move("give_answer", {"reasoning": "all said", "probability": 0.6})],
        "merger": [move("give_merged_answer", {"reasoning": "the better half", "probability": 0.7})],
    }
    return replace(lines[speaker(prompt)][number], usage=Usage(calls=1, tokens_in=1000, tokens_out=50))


@pytest.fixture
async def theatre(tmp_path: Path) -> AsyncIterator[Theatre]:
    async with open_theatre(tmp_path, ScriptedLlm(turns=[played])) as theatre:
        theatre.limits = Limits(steps=100)
        yield theatre


async def sat(theatre: Theatre, asked: Question, settings: OrchestraSettings | None = None) -> Forecast:
    theatre.forecasters[NAME] = Orchestra(settings or OrchestraSettings())
    await theatre.record(asked)
    means = Means(
        ledger=theatre.ledger,
        teacher=Teacher(
            ledger=theatre.ledger,
            archives=(),
            schools={NAME: School(learner=LessonLearner(), shipped=())},
            clock=theatre.clock,
        ),
        calibrator=Identity(),
        policy=Reforecast(),
        clock=theatre.clock,
        random=SeededRandom(1),
        benches=theatre.workshop(),
    )
    return await (await begin(means, theatre.seat(NAME, trials=1), asked, "asked for")).forecast()


@pytest.mark.parametrize(("candidates", "steps", "limit"), [(0, 11, 100), (2, 14, 100), (2, 6, 10)])
async def test_a_whole_forecast_is_on_record_and_replays_to_the_same_steps(
    theatre: Theatre, candidates: int, steps: int, limit: int
) -> None:
    theatre.limits = Limits(steps=limit)
    settings = OrchestraSettings(candidates=candidates)
    forecast = await sat(theatre, question(), settings)
    trace = await theatre.ledger.forecasts.trace(forecast.id)
    (record,) = trace.trials
    assert (record.end, len(record.steps)) == (TrialEnd.FINISHED, steps)
    asked = len(theatre.llm.requests)
    told = await replay_forecast(
        trace, theatre.seat(NAME, trials=1), theatre.workshop(sealed=True), SeededRandom(1), None
    )
    assert told.is_identical
    assert len(theatre.llm.requests) == asked


async def test_what_a_run_learned_is_offered_to_the_next_one_once_the_outcome_is_known(theatre: Theatre) -> None:
    first = await sat(theatre, question("rain"))
    await theatre.clock.advance(3 * DAY_S)
    await sat(theatre, question("snow"))
    assert not any("almanacs are late" in request.prompt.messages[0].text for request in theatre.llm.requests)
    resolved_at = theatre.clock.now()
    happened = Resolution(ref=first.ref, target="outcome", outcome=Happened(0.0), resolved_at=resolved_at)
    await theatre.ledger.resolutions.record([happened], seen_at=resolved_at)
    await theatre.clock.advance(2 * DAY_S)
    third = await sat(theatre, question("hail"))
    system = theatre.llm.requests[-1].prompt.messages[0].text
    assert "almanacs are late" in system
    assert f"Forecast {first.id}" in system
    assert "We said 0.8; it came out as no" in system
    assert third.fitted is not None
    fitted = await theatre.ledger.learning.get(third.fitted)
    assert fitted.examples == 1
    trace = await theatre.ledger.forecasts.trace(third.id)
    again = await replay_forecast(
        trace, theatre.seat(NAME, trials=1), theatre.workshop(sealed=True), SeededRandom(1), fitted
    )
    assert again.is_identical
    count = len(theatre.llm.requests)
    await sat(theatre, question("fog"), OrchestraSettings(lessons=False))
    plain = [request.prompt.messages[0].text for request in theatre.llm.requests[count:]]
    assert plain
    assert not any("almanacs are late" in text for text in plain)
