"""The plugin as the engine finds it: its spec, its settings in config, and the prompts that come with it."""

from importlib.resources import files
from pathlib import Path
from string import Template

import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.errors import ConfigError
from bot.core.language_models import ModelCompletion
from bot.core.plugin_specs import ForecasterSpec, PluginContext, PluginTableName
from bot.plugin_system.registry import load_registry
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.blf import foxcast_forecasters
from plugins.blf.base_rates import BaseRateLearner
from plugins.blf.forecaster import BlfForecaster
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import create_context, question, steps_of, submit


def spec() -> ForecasterSpec[BlfSettings]:
    (offered,) = foxcast_forecasters()
    return offered


async def test_the_engine_opens_it_with_settings_from_config(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('plugins = ["blf"]\n[forecasters.blf.settings]\nsteps = 1\nmode = "batch"\n')
    config = load_config(file, {})
    assert load_registry(config).broken == ()
    settings = load_plugin_settings(spec(), config)
    place = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    async with spec().open(settings, place) as forecaster:
        steps = [step async for step in forecaster.steps(question(), create_context(submit(0.7)))]
    assert [step.action.name for step in steps] == ["submit"]


def test_it_asks_models_learns_and_runs_five_trials() -> None:
    assert spec().abilities == ("ask models", "learn")
    assert spec().table is PluginTableName.FORECASTERS
    assert spec().trials == 5
    learner = spec().learner
    assert learner is not None
    assert isinstance(learner(BlfSettings()), BaseRateLearner)


@pytest.mark.parametrize(
    "line", ["beleif = false", "submit_margin = 0.5", "steps = 0", 'mode = "both"', "quantiles = [50]"]
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'plugins = ["blf"]\n[forecasters.blf.settings]\n{line}\n')
    with pytest.raises(ConfigError):
        load_plugin_settings(spec(), load_config(file, {}))


def configured(folder: Path, **prompts: str) -> BlfSettings:
    """Return the settings of a config whose folder of prompts, named relative to it, holds these files."""
    (folder / "mine").mkdir()
    for name, text in prompts.items():
        (folder / "mine" / f"{name}.txt").write_text(text, encoding="utf-8")
    file = folder / "config.toml"
    file.write_text('plugins = ["blf"]\n[forecasters.blf.settings]\nprompts = "mine"\n')
    return load_plugin_settings(spec(), load_config(file, {}))


async def test_prompts_of_the_user_are_asked_with_and_are_the_version_on_record(tmp_path: Path) -> None:
    mine = {
        "loop": "Be brief. $task $judging $belief_field $steps $early_stop $bounds",
        "judge_binary": "Judge well.",
        "repair": "Again ($why): $tools",
        "question": "$title $background $criteria $targets $date $crowd $prior $advice $facts",
        "turn": "Turn $number of $steps$last: $tools $listing",
    }
    settings = configured(tmp_path, **mine)
    at = create_context(ModelCompletion(text="hm"), submit(0.7))
    _, error = await steps_of(question(), at, settings)
    assert error is None
    system, first, _, again = [message.text for message in at.prompts[1].prompt.messages]
    assert system.startswith("Be brief. ")
    assert "Judge well." in system
    assert first.startswith("<untrusted-")
    assert "Turn 1 of 10: web_search" in first
    assert again == "Again (the answer held no action): web_search, lookup_url, submit"
    (kept,) = at.stored_texts
    assert all(text in kept for text in mine.values())
    shipped = create_context(submit(0.7))
    await steps_of(question(), shipped)
    assert shipped.stored_texts != at.stored_texts


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("loop", "Be brief. $task", "mine/loop.txt: the placeholder $belief_field is missing"),
        ("lopo", "Be brief.", "mine/lopo.txt: there is no prompt of that name; did you mean loop.txt?"),
    ],
)
def test_a_prompt_of_the_user_that_does_not_fit_is_a_fault_of_the_config(
    tmp_path: Path, name: str, text: str, shown: str
) -> None:
    with pytest.raises(ConfigError) as found:
        configured(tmp_path, **{name: text})
    assert shown in str(found.value)
    assert "config.toml:3: forecasters.blf.settings.prompts" in str(found.value)


def test_every_prompt_is_a_template_that_is_used_and_holds_no_stray_sign() -> None:
    source = (Path(str(files("plugins.blf"))) / "prompt_texts.py").read_text() + "compact"
    for prompt in (files("plugins.blf") / "prompts").iterdir():
        assert Template(prompt.read_text(encoding="utf-8")).is_valid()
        assert prompt.name.removesuffix(".txt") in source


async def test_two_trials_of_one_forecaster_share_nothing() -> None:
    forecaster = BlfForecaster(BlfSettings())
    first = forecaster.steps(question(), create_context(submit(0.7)))
    second = forecaster.steps(question(), create_context(submit(0.2), trial=2))
    answers = [await anext(first), await anext(second)]
    await first.aclose()
    await second.aclose()
    assert [str(step.belief.predictions["outcome"]) for step in answers] == [
        "BinaryPrediction(probability=0.7, kind='binary')",
        "BinaryPrediction(probability=0.2, kind='binary')",
    ]
