"""The plugin as the engine finds it: its spec, its settings in config, its prompts and the schemas of its moves."""

from importlib.resources import files
from pathlib import Path
from string import Template

import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.errors import ConfigError
from bot.core.plugin_specs import ForecasterSpec, PluginContext
from bot.forecasting.agent.answer_schema import create_answer_format
from bot.forecasting.tool_factory import FIXED_TOOL_NAMES
from bot.plugin_system.registry import load_registry
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.solo import answer_rules, earlier_forecast, foxcast_forecasters, own_tools
from plugins.solo.settings import SoloSettings
from tests.plugins.solo.cases import CHOICE, CURVE, question, scripted_context, submit


def spec() -> ForecasterSpec[SoloSettings]:
    (offered,) = foxcast_forecasters()
    return offered


async def test_the_engine_opens_it_with_settings_from_config(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('plugins = ["solo"]\n[forecasters.solo.settings]\nsteps = 1\n')
    config = load_config(file, {})
    assert load_registry(config).broken == ()
    settings = load_plugin_settings(spec(), config)
    place = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    async with spec().open(settings, place) as forecaster:
        steps = [step async for step in forecaster.steps(question(), scripted_context(submit(0.7)))]
    assert [step.action.name for step in steps] == ["submit"]


def test_it_asks_models_in_one_trial_of_as_many_steps_as_it_is_set_to() -> None:
    assert spec().abilities == ("ask models",)
    assert (spec().trials, spec().roles) == (1, ("main",))
    steps = spec().steps
    assert steps is not None
    assert steps(SoloSettings(steps=7)) == 7


@pytest.mark.parametrize(
    "line", ["stesp = 3", "steps = 0", "extreme = 0.5", "quantiles = [50]", "quantiles = [9, 5]", "stale_days = 2"]
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'plugins = ["solo"]\n[forecasters.solo.settings]\n{line}\n')
    with pytest.raises(ConfigError):
        load_plugin_settings(spec(), load_config(file, {}))


def test_every_prompt_is_a_template_that_is_used_and_holds_no_stray_sign() -> None:
    source = (Path(str(files("plugins.solo"))) / "prompt_texts.py").read_text()
    for prompt in (files("plugins.solo") / "prompts").iterdir():
        assert Template(prompt.read_text(encoding="utf-8")).is_valid()
        assert f'"{prompt.name.removesuffix(".txt")}"' in source


@pytest.mark.parametrize("shape", [None, CHOICE, CURVE])
def test_reasons_stand_before_numbers_and_what_is_required_can_be_given(shape: object) -> None:
    asked, settings = question(shape), SoloSettings()  # type: ignore[arg-type]  # one of the three shapes
    ballot = create_answer_format(asked, settings.answer_settings, percent=False)
    for tool in (own_tools.update_tool(ballot, settings), own_tools.solo_submit_tool(asked, ballot, settings)):
        names = list(tool.parameters["properties"])  # type: ignore[arg-type]  # an object
        assert names[:2] == [answer_rules.BOTTOM_LINE, answer_rules.RATIONALE]
        assert names[-1] == ballot.answer_schema.field
        assert set(tool.parameters["required"]) <= set(names)  # type: ignore[arg-type]  # a list of text


def test_the_tool_that_knows_its_past_is_one_of_the_engine() -> None:
    assert earlier_forecast.EARLIER_FORECASTS_TOOL in FIXED_TOOL_NAMES
