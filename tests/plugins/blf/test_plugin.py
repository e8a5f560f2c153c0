"""The plugin as the engine finds it: its spec, its settings in config, and the prompts that come with it."""

from importlib.resources import files
from pathlib import Path
from string import Template

import pytest

from bot.config.load import load_config
from bot.config.plugin_settings import settings_of
from bot.errors import ConfigError
from bot.registry import load_registry
from bot.specs import Can, ForecasterSpec, Table, Workplace
from bot.testing.clock import FakeClock
from bot.testing.http import DictHttp
from plugins.blf import foxcast_forecasters
from plugins.blf.forecaster import Blf
from plugins.blf.learning import RateLearner
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import desk, question, submit


def spec() -> ForecasterSpec[BlfSettings]:
    (offered,) = foxcast_forecasters()
    return offered


async def test_the_engine_opens_it_with_settings_from_config(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('plugins = ["blf"]\n[forecasters.blf.settings]\nsteps = 1\nmode = "batch"\n')
    config = load_config(file, {})
    assert load_registry(config).broken == ()
    settings = settings_of(spec(), config)
    place = Workplace(clock=FakeClock(), http=DictHttp({}), folder=tmp_path)
    async with spec().open(settings, place) as forecaster:
        steps = [step async for step in forecaster.steps(question(), desk(submit(0.7)))]
    assert [step.action.name for step in steps] == ["submit"]


def test_it_asks_models_learns_and_runs_five_trials() -> None:
    assert spec().abilities == {Can.ASK_MODELS, Can.LEARN}
    assert spec().table is Table.FORECASTERS
    assert spec().trials == 5
    learner = spec().learner
    assert learner is not None
    assert isinstance(learner(BlfSettings()), RateLearner)


@pytest.mark.parametrize(
    "line", ["beleif = false", "submit_margin = 0.5", "steps = 0", 'mode = "both"', "quantiles = [50]"]
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'plugins = ["blf"]\n[forecasters.blf.settings]\n{line}\n')
    with pytest.raises(ConfigError):
        settings_of(spec(), load_config(file, {}))


def test_every_prompt_is_a_template_that_is_used_and_holds_no_stray_sign() -> None:
    source = (Path(str(files("plugins.blf"))) / "wording.py").read_text() + "compact"
    for prompt in (files("plugins.blf") / "prompts").iterdir():
        assert Template(prompt.read_text(encoding="utf-8")).is_valid()
        assert prompt.name.removesuffix(".txt") in source


async def test_two_trials_of_one_forecaster_share_nothing() -> None:
    forecaster = Blf(BlfSettings())
    first = forecaster.steps(question(), desk(submit(0.7)))
    second = forecaster.steps(question(), desk(submit(0.2), trial=2))
    answers = [await anext(first), await anext(second)]
    await first.aclose()
    await second.aclose()
    assert [str(step.belief.predictions["outcome"]) for step in answers] == [
        "Binary(probability=0.7, kind='binary')",
        "Binary(probability=0.2, kind='binary')",
    ]
