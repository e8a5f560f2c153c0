"""The plugin as the engine finds it, and a whole forecast: ledger, gateway, tools and replay."""

from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pytest

from bot.app.forecaster_requirements import unused_role_warnings
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.beliefs import Step
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError, ServiceUnavailableError
from bot.core.forecasts import TrialEnd, TrialLimits
from bot.core.language_models import ModelCompletion, Prompt
from bot.core.plugin_specs import ForecasterSpec, PluginContext, PluginTableName
from bot.evaluation.replay import replay_forecast
from bot.plugin_system.registry import load_registry
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.models import ScriptedModelProvider
from plugins.team import foxcast_forecasters
from plugins.team.forecaster import TeamForecaster
from plugins.team.prompt_texts import PROMPT_NAMES
from plugins.team.settings import DEFAULT_GOALS, TeamSettings
from tests.plugins.team.cases import ScriptedMember, fact, form_of, question, remarks, steps_of, team_context, told
from tests.unit.forecast_run_fixture import ForecastRunFixture, open_forecast_runs
from tests.unit.forecast_run_fixture import question as asked


def spec() -> ForecasterSpec[TeamSettings]:
    (offered,) = foxcast_forecasters()
    return offered


def settings_from(folder: Path, lines: str) -> TeamSettings:
    file = folder / "config.toml"
    file.write_text(f'plugins = ["team"]\n[forecasters.team.settings]\n{lines}\n')
    config = load_config(file, {})
    assert load_registry(config).broken == ()
    return load_plugin_settings(spec(), config)


async def test_the_engine_opens_it_with_settings_from_config(tmp_path: Path) -> None:
    settings = settings_from(
        tmp_path, 'members = 1\nsteps = 1\n[[forecasters.team.settings.goals]]\nname = "x"\nask = "?"'
    )
    place = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    async with spec().open(settings, place) as forecaster:
        steps = [step async for step in forecaster.steps(question(), team_context(ScriptedMember()))]
    assert [step.action.name for step in steps] == ["state_belief"]
    assert steps[0].belief.open_questions == ("?",)


def test_the_example_of_mixed_models_holds_together() -> None:
    config = load_config(Path(str(files("plugins.team"))) / "examples" / "mixed.toml", {})
    registry = load_registry(config)
    assert registry.broken == ()
    assert load_plugin_settings(spec(), config).human_members == {3}
    assert list(unused_role_warnings(config, registry)) == []
    roles = {role: table.model for role, table in config.llm.roles.items()}
    assert len(set(roles.values())) == len(roles) == 3
    assert config.llm.models[roles["team_3"]].free


def test_a_misspelt_role_of_a_member_is_told(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    roles = "".join(f'[llm.roles.{role}]\nmodel = "x:y"\n' for role in ("main", "team", "team_5", "team_6", "teem_1"))
    file.write_text(f'plugins = ["team"]\n{roles}')
    config = load_config(file, {})
    told = list(unused_role_warnings(config, load_registry(config)))
    assert [line.partition("]")[0] for line in told] == ["[llm.roles.team_6", "[llm.roles.teem_1"]


def test_it_asks_models_and_takes_as_many_steps_as_its_members_do() -> None:
    assert spec().abilities == ("ask models",)
    assert spec().table is PluginTableName.FORECASTERS
    assert spec().trials == 1
    counted = spec().steps
    assert counted is not None
    assert counted(TeamSettings(members=4, steps=5)) == 20
    assert [goal.name for goal in DEFAULT_GOALS][:4] == ["base_rate", "status", "key_dates", "counter_evidence"]


@pytest.mark.parametrize(
    "line",
    [
        "members = 6",
        "members = 0",
        "steps = 0",
        'names = ["Ada", "Ada", "Chen"]',
        'names = ["Ada"]',
        'names = ["<b>", "Boris", "Chen"]',
        "people = [4]",
        'pool = "guess"',
        "quantiles = [50, 25]",
        "talkative = true",
        '[[forecasters.team.settings.goals]]\nname = "x"',
        2 * '[[forecasters.team.settings.goals]]\nname = "x"\nask = "?"\n',
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError):
        settings_from(tmp_path, line)


def test_every_prompt_is_a_template_that_is_used() -> None:
    prompts = {prompt.name.removesuffix(".txt"): prompt for prompt in (files("plugins.team") / "prompts").iterdir()}
    assert set(prompts) == set(PROMPT_NAMES)
    for prompt in prompts.values():
        assert Template(prompt.read_text(encoding="utf-8")).is_valid()


async def test_two_trials_of_one_team_share_nothing() -> None:
    team = TeamForecaster(TeamSettings(members=1, steps=2))
    trials = [
        team.steps(question(), team_context(ScriptedMember(probability=probability), trial=trial))
        for trial, probability in ((1, 0.7), (2, 0.2))
    ]
    firsts: list[Step] = [await anext(trial) for trial in trials]
    for trial in trials:
        await trial.aclose()
    assert [str(step.belief.predictions["outcome"]) for step in firsts] == [
        "BinaryPrediction(probability=0.7, kind='binary')",
        "BinaryPrediction(probability=0.2, kind='binary')",
    ]


@pytest.mark.parametrize("members", [1, 2, 5])
async def test_any_team_of_one_to_five_comes_to_an_answer(members: int) -> None:
    players = [ScriptedMember() for _ in range(members)]
    steps, error = await steps_of(question(), team_context(*players), members=members, steps=3)
    assert error is None
    assert len(steps) == 3 * members
    assert steps[-1].final


# A whole forecast


def facts(prompt: Any) -> list[dict[str, Any]]:
    shown = told(prompt).partition("The result:")[2]
    found = [f"search_{number}_result_1" for number in range(1, 20) if f"search_{number}_result_1" in shown]
    goal = "status" if "status (yours, open)" in told(prompt) else "base_rate"
    return [fact(f"{goal}: clouds", found[0], goal)] if found else []


@pytest.fixture
async def forecast_fixture(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    player = ScriptedMember(
        facts=facts, message=lambda prompt: f"I found {len(told(prompt))} clouds", picks=("send", "search")
    )

    def answer(prompt: Prompt) -> ModelCompletion:
        said = player(prompt)
        assert isinstance(said, ModelCompletion)
        return said

    async with open_forecast_runs(tmp_path, ScriptedModelProvider(turns=[answer])) as forecast_fixture:
        forecast_fixture.limits = TrialLimits(steps=12)
        forecast_fixture.forecasters["team"] = TeamForecaster(TeamSettings())
        yield forecast_fixture


async def test_a_forecast_of_a_team_is_replayed_to_the_same_number_and_nobody_is_asked(
    forecast_fixture: ForecastRunFixture,
) -> None:
    forecast = await forecast_fixture.forecast(asked(), "team", trials=1)
    requests, searched = len(forecast_fixture.llm.requests), len(forecast_fixture.engine.searched)
    assert searched > 0
    trace = await forecast_fixture.ledger.forecasts.trace(forecast.id)
    (trial,) = trace.trials
    assert trial.trial is not None
    assert (trial.trial.end, trial.trial.steps) == (TrialEnd.FINISHED, 12)
    actions = [logged.step.action.name for logged in trial.steps]
    assert {"web_search", "send_message"} <= set(actions)
    assert "evidence: 2 of 6 sub-goals settled (efficiency 0.33" in trial.steps[-1].step.remarks[-1]
    told_again = await replay_forecast(
        trace,
        forecast_fixture.configure_forecaster("team", trials=1),
        forecast_fixture.make_tool_factory(sealed=True),
        SeededRandom(1),
        None,
    )
    assert told_again.is_identical
    assert (len(forecast_fixture.llm.requests), len(forecast_fixture.engine.searched)) == (requests, searched)


async def test_a_team_that_the_engine_stops_early_has_an_answer(forecast_fixture: ForecastRunFixture) -> None:
    forecast_fixture.limits = TrialLimits(steps=12, tokens=1)
    forecast = await forecast_fixture.forecast(asked(), "team", trials=1)
    trace = await forecast_fixture.ledger.forecasts.trace(forecast.id)
    trial = trace.trials[0].trial
    assert trial is not None
    assert (trial.end, trial.steps) == (TrialEnd.TOKEN_LIMIT, 1)
    assert trial.belief is not None


async def test_who_leaves_in_a_joint_step_is_told_after_it_so_that_a_replay_asks_the_same(tmp_path: Path) -> None:
    """On record all is there at once, so one member is out before the next one has begun: its prompt is no other."""
    player = ScriptedMember(words=lambda _: "clouds")

    def answer(prompt: Prompt) -> ModelCompletion:
        if form_of(prompt) == "choose" and "You are Ada." in prompt.messages[1].text:
            message = "nobody there"
            raise ServiceUnavailableError(message)
        said = player(prompt)
        assert isinstance(said, ModelCompletion)
        return said

    async with open_forecast_runs(tmp_path, ScriptedModelProvider(turns=[answer])) as forecast_fixture:
        forecast_fixture.limits = TrialLimits(steps=12)
        forecast_fixture.forecasters["team"] = TeamForecaster(TeamSettings(steps=3))
        forecast = await forecast_fixture.forecast(asked(), "team", trials=1)
        trace = await forecast_fixture.ledger.forecasts.trace(forecast.id)
        steps = [logged.step for logged in trace.trials[0].steps]
        assert "Ada takes no part any more: could not be asked: nobody there" in remarks(steps)
        told_again = await replay_forecast(
            trace,
            forecast_fixture.configure_forecaster("team", trials=1),
            forecast_fixture.make_tool_factory(sealed=True),
            SeededRandom(1),
            None,
        )
    assert told_again.is_identical
