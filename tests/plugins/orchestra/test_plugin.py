"""The plugin as the engine finds it, and whole forecasts on a real ledger: on record, replayed, and learned from."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from string import Template

import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.beliefs import ModelUsage
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError
from bot.core.forecasts import Forecast, TrialEnd, TrialLimits
from bot.core.language_models import ModelCompletion, Prompt
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.plugin_specs import ForecasterSpec, PluginContext, PluginTableName
from bot.core.questions import Question
from bot.evaluation.replay import replay_forecast
from bot.forecasting.calibration import IdentityCalibrator
from bot.forecasting.forecast_run import ForecastContext, begin_forecast
from bot.forecasting.parameter_fitting import ForecasterTraining, ParameterFitter
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.plugin_system.registry import load_registry
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.models import ScriptedModelProvider
from plugins.orchestra import foxcast_forecasters
from plugins.orchestra.forecaster import OrchestraForecaster
from plugins.orchestra.lessons import LessonLearner
from plugins.orchestra.settings import OrchestraSettings
from plugins.orchestra.subagent_kinds import CUSTOM_KIND, load_kinds
from tests.plugins.orchestra.cases import (
    believing,
    make,
    move,
    parallel,
    report,
    scripted_context,
    search,
    speaker,
    store,
    submit,
)
from tests.plugins.orchestra.cases import question as asked_of
from tests.unit.forecast_run_fixture import ForecastRunFixture, open_forecast_runs, question

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
    place = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    async with spec().open(settings, place) as forecaster:
        steps = [step async for step in forecaster.steps(asked_of(), scripted_context(submit(0.7)))]
    assert [step.action.name for step in steps] == ["submit"]


def test_it_asks_models_and_learns() -> None:
    assert spec().abilities == ("ask models", "learn")
    assert (spec().table, spec().trials, spec().roles) == (PluginTableName.FORECASTERS, 1, ("main",))
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
    found = load_kinds()
    assert list(found) == ["scout", "researcher", "analyst", "critic", "forecaster", CUSTOM_KIND]
    assert all(kind.summary and (kind.text or kind.name == CUSTOM_KIND) for kind in found.values())
    assert [kind.name for kind in found.values() if kind.forecasts] == ["forecaster"]
    available = ("web_search", "lookup_url")
    assert {name: kind.granted_tools(available) for name, kind in found.items()} == {
        "scout": available,
        "researcher": available,
        "analyst": available,
        "critic": (),
        "forecaster": (),
        CUSTOM_KIND: available,
    }


async def test_every_prompt_is_a_template_and_part_of_the_version_of_the_prompts() -> None:
    at = scripted_context(submit())
    _ = [step async for step in OrchestraForecaster(OrchestraSettings()).steps(asked_of(), at)]
    folder = files("plugins.orchestra") / "prompts"
    prompts = [entry for entry in (*folder.iterdir(), *(folder / "kinds").iterdir()) if entry.is_file()]
    assert len(prompts) == 13
    for prompt in prompts:
        text = prompt.read_text(encoding="utf-8").rstrip("\n")
        assert Template(text).is_valid()
        assert text in at.stored_texts[0]


def played(prompt: Prompt) -> ModelCompletion:
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
    return replace(lines[speaker(prompt)][number], usage=ModelUsage(calls=1, tokens_in=1000, tokens_out=50))


@pytest.fixture
async def forecast_fixture(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(tmp_path, ScriptedModelProvider(turns=[played])) as forecast_fixture:
        forecast_fixture.limits = TrialLimits(steps=100)
        yield forecast_fixture


async def sat(
    forecast_fixture: ForecastRunFixture, asked: Question, settings: OrchestraSettings | None = None
) -> Forecast:
    forecast_fixture.forecasters[NAME] = OrchestraForecaster(settings or OrchestraSettings())
    await forecast_fixture.record(asked)
    forecast_context = ForecastContext(
        ledger=forecast_fixture.ledger,
        parameter_fitter=ParameterFitter(
            ledger=forecast_fixture.ledger,
            archives=(),
            trainings={NAME: ForecasterTraining(learner=LessonLearner(), shipped_parameters=())},
            clock=forecast_fixture.clock,
        ),
        calibrator=IdentityCalibrator(),
        policy=ReforecastPolicy(),
        clock=forecast_fixture.clock,
        random=SeededRandom(1),
        resources=forecast_fixture.make_tool_factory(),
    )
    return await (
        await begin_forecast(
            forecast_context, forecast_fixture.configure_forecaster(NAME, trials=1), asked, "asked for"
        )
    ).run()


@pytest.mark.parametrize(("candidates", "steps", "limit"), [(0, 11, 100), (2, 14, 100), (2, 10, 10)])
async def test_a_whole_forecast_is_on_record_and_replays_to_the_same_steps(
    forecast_fixture: ForecastRunFixture, candidates: int, steps: int, limit: int
) -> None:
    forecast_fixture.limits = TrialLimits(steps=limit)
    settings = OrchestraSettings(candidates=candidates)
    forecast = await sat(forecast_fixture, question(), settings)
    trace = await forecast_fixture.ledger.forecasts.trace(forecast.id)
    (record,) = trace.trials
    assert (record.end, len(record.steps)) == (TrialEnd.FINISHED, steps)
    asked = len(forecast_fixture.llm.requests)
    told = await replay_forecast(
        trace,
        forecast_fixture.configure_forecaster(NAME, trials=1),
        forecast_fixture.make_tool_factory(sealed=True),
        SeededRandom(1),
        None,
    )
    assert told.is_identical
    assert len(forecast_fixture.llm.requests) == asked


async def test_what_a_run_learned_is_offered_to_the_next_one_once_the_outcome_is_known(
    forecast_fixture: ForecastRunFixture,
) -> None:
    first = await sat(forecast_fixture, question("rain"))
    await forecast_fixture.clock.advance(3 * DAY_S)
    await sat(forecast_fixture, question("snow"))
    assert not any("almanacs are late" in request.prompt.messages[0].text for request in forecast_fixture.llm.requests)
    resolved_at = forecast_fixture.clock.now()
    happened = Resolution(ref=first.ref, target="outcome", outcome=BinaryOutcome(0.0), resolved_at=resolved_at)
    await forecast_fixture.ledger.resolutions.record([happened], seen_at=resolved_at)
    await forecast_fixture.clock.advance(2 * DAY_S)
    third = await sat(forecast_fixture, question("hail"))
    system = forecast_fixture.llm.requests[-1].prompt.messages[0].text
    assert "almanacs are late" in system
    assert f"Forecast {first.id}" in system
    assert "We said 0.8; it came out as no" in system
    assert third.fitted is not None
    fitted = await forecast_fixture.ledger.learning.get(third.fitted)
    assert fitted.examples == 1
    trace = await forecast_fixture.ledger.forecasts.trace(third.id)
    again = await replay_forecast(
        trace,
        forecast_fixture.configure_forecaster(NAME, trials=1),
        forecast_fixture.make_tool_factory(sealed=True),
        SeededRandom(1),
        fitted,
    )
    assert again.is_identical
    count = len(forecast_fixture.llm.requests)
    await sat(forecast_fixture, question("fog"), OrchestraSettings(lessons=False))
    plain = [request.prompt.messages[0].text for request in forecast_fixture.llm.requests[count:]]
    assert plain
    assert not any("almanacs are late" in text for text in plain)


async def test_a_note_is_readable_at_once_as_unresolved_and_never_as_a_lesson(
    forecast_fixture: ForecastRunFixture,
) -> None:
    first = await sat(forecast_fixture, question("rain"))
    await forecast_fixture.clock.advance(60)
    before = len(forecast_fixture.llm.requests)
    forecast_fixture.llm.turns = [recalling]
    second = await sat(forecast_fixture, question("snow"))
    trace = await forecast_fixture.ledger.forecasts.trace(second.id)
    (shown, *_) = [logged.step for logged in trace.trials[0].steps]
    assert shown.action.name == "unresolved_notes"
    assert f"unresolved, forecast {first.id} of {first.ref} (" in shown.observation.text
    assert ": almanacs are late" in shown.observation.text
    later = [request.prompt.messages[0].text for request in forecast_fixture.llm.requests[before:]]
    assert not any("almanacs are late" in text or "Lessons from" in text for text in later)
    again = await replay_forecast(
        trace,
        forecast_fixture.configure_forecaster(NAME, trials=1),
        forecast_fixture.make_tool_factory(sealed=True),
        SeededRandom(1),
        None,
    )
    assert again.is_identical
    # Switched off, or resolved, it is no note any more; a question that resolves only later leaves it one.
    notes = forecast_fixture.ledger.learning.read_unresolved_notes
    now = forecast_fixture.clock.now()
    assert [note.text for note in await notes(NAME, before=now, running="")] == ["almanacs are late"]
    assert await notes(NAME, before=first.made_at, running="") == []
    assert await notes(NAME, before=now, running=first.id) == []
    assert await notes("other", before=now, running="") == []
    happened = Resolution(ref=first.ref, target="outcome", outcome=BinaryOutcome(0.0), resolved_at=now)
    await forecast_fixture.ledger.resolutions.record([happened], seen_at=now)
    assert len(await notes(NAME, before=now, running="")) == 1
    assert await notes(NAME, before=now + timedelta(seconds=1), running="") == []
    count = len(forecast_fixture.llm.requests)
    await sat(forecast_fixture, question("fog"), OrchestraSettings(lessons=False))
    offered_names = [tool.name for request in forecast_fixture.llm.requests[count:] for tool in request.prompt.tools]
    assert offered_names
    assert "unresolved_notes" not in offered_names


def recalling(prompt: Prompt) -> ModelCompletion:
    number = sum(message.speaker == "assistant" for message in prompt.messages)
    recalled = [move("unresolved_notes"), submit(0.4)]
    return replace(recalled[min(number, 1)], usage=ModelUsage(calls=1))
