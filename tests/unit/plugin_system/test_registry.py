"""What becomes of enabled plugins; the plugins of these tests are modules made from text, loaded as single files."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.errors import ConfigError, NotFoundError, PluginError
from bot.core.plugin_specs import API_VERSION, ConfigurableSpec, PluginTableName
from bot.plugin_system import hook_specs
from bot.plugin_system.registry import HOOK_SPECS, Registry, load_registry

HEAD = """
from datetime import timedelta
from bot.api import *
from bot.api import hookimpl

class Quiet(PluginSettings):
    pass

def nothing(*args):
    raise AssertionError("only described")

FORECASTER = ForecasterSpec(name="oracle", summary="Knows", settings=Quiet, open=nothing)
"""
GOOD = """
@hookimpl
def foxcast_forecasters():
    return [FORECASTER]
"""

Enable = Callable[..., Registry]


@pytest.fixture
def enable(tmp_path: Path) -> Iterator[Enable]:
    """Writes each text as a plugin of that name, enables them in this order and returns the registry."""

    def enable(table: str = "", **plugins: str) -> Registry:
        for name, text in plugins.items():
            (tmp_path / f"{name}.py").write_text(HEAD + text)
        names = list(plugins)
        file = tmp_path / "config.toml"
        file.write_text(f"plugins = {names}\nplugin_files = {[f'{name}.py' for name in names]}\n{table}")
        return load_registry(load_config(file, {}))

    yield enable
    for name in [name for name in sys.modules if name.startswith("foxcast_file_")]:
        del sys.modules[name]


def reason(enable: Enable, text: str) -> str:
    """Why a plugin is broken; beside it there is a good one that it must not spoil."""
    registry = enable(bad=text, good=GOOD)
    assert registry.forecasters.names == ("oracle",)
    (broken,) = registry.broken
    assert broken.plugin.name == "bad"
    assert "\n" not in broken.reason
    return broken.reason


def returning(hook: str, spec: str) -> str:
    return f"@hookimpl\ndef {hook}():\n    return [{spec}]\n"


def test_foxcast_venues(enable: Enable) -> None:
    spec = "VenueSpec(name='lantern', summary='Light', settings=Quiet, reader=nothing)"
    assert enable(mine=returning("foxcast_venues", spec)).venues["lantern"].summary == "Light"


def test_foxcast_forecasters(enable: Enable) -> None:
    assert enable(mine=GOOD).forecasters["oracle"].summary == "Knows"


def test_a_variant_of_a_forecaster_has_a_name_and_settings_of_its_own(enable: Enable) -> None:
    registry = enable("[forecasters.second]\nuses = 'oracle'", mine=GOOD)
    assert registry.forecasters.names == ("oracle", "second")
    assert registry.forecasters["second"] == replace(registry.forecasters["oracle"], name="second")
    assert registry.forecasters.plugin_of("second").name == "mine"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            "[forecasters.second]\nuses = 'oracel'",
            "uses: no enabled plugin offers this forecaster; did you mean oracle?",
        ),
        ("[forecasters.oracle]\nuses = 'oracle'", "uses: a plugin offers oracle itself"),
        ("[forecasters.a]\nuses='b'\n[forecasters.b]\nuses='oracle'", "no enabled plugin offers this forecaster"),
    ],
)
def test_a_variant_of_nothing_is_refused(enable: Enable, table: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        enable(table, mine=GOOD)


def test_foxcast_search_engines(enable: Enable) -> None:
    spec = "SearchSpec(name='seeker', summary='Seeks', settings=Quiet, open=nothing)"
    assert enable(mine=returning("foxcast_search_engines", spec)).search_engines["seeker"].summary == "Seeks"


def test_foxcast_data_sources(enable: Enable) -> None:
    spec = "DataSpec(name='gauge', summary='Measures', settings=Quiet, open=nothing)"
    assert enable(mine=returning("foxcast_data_sources", spec)).data_sources["gauge"].summary == "Measures"


def test_foxcast_models(enable: Enable) -> None:
    spec = "ModelSpec(name='speaker', summary='Speaks', settings=Quiet, open=nothing)"
    assert enable(mine=returning("foxcast_models", spec)).models["speaker"].summary == "Speaks"


def test_foxcast_notifiers(enable: Enable) -> None:
    spec = "NotifierSpec(name='bell', summary='Rings', settings=Quiet, open=nothing)"
    assert enable(mine=returning("foxcast_notifiers", spec)).notifiers["bell"].summary == "Rings"


def test_foxcast_commands(enable: Enable) -> None:
    spec = "CommandSpec(name='wave', summary='Waves', run=nothing)"
    assert enable(mine=returning("foxcast_commands", spec)).commands["wave"].summary == "Waves"


def test_foxcast_jobs(enable: Enable) -> None:
    spec = "JobSpec(name='sweep', summary='Sweeps', every=timedelta(hours=1), run=nothing)"
    assert enable(mine=returning("foxcast_jobs", spec)).jobs["sweep"].summary == "Sweeps"


def test_every_hook_has_a_test_named_after_it_and_a_shelf() -> None:
    hooks = {name for name, value in vars(hook_specs).items() if hasattr(value, "foxcast_spec")}
    assert hooks == set(HOOK_SPECS)
    assert [hook for hook in sorted(hooks) if f"test_{hook}" not in globals()] == []


def test_every_table_of_config_has_a_shelf(enable: Enable) -> None:
    registry = enable(mine=GOOD)
    assert [table for table in PluginTableName if "oracle" in registry.specs_of_table(table)] == [
        PluginTableName.FORECASTERS
    ]
    tables = {kind.table for kind in HOOK_SPECS.values() if issubclass(kind, ConfigurableSpec)}
    assert tables == set(PluginTableName)


def test_a_shelf_knows_names_order_and_provider(enable: Enable) -> None:
    second = returning("foxcast_forecasters", "ForecasterSpec(name='a', summary='A', settings=Quiet, open=nothing)")
    shelf = enable(zebra=GOOD, ant=second).forecasters
    assert shelf.names == ("oracle", "a")
    assert [spec.name for spec in shelf] == ["oracle", "a"]
    assert len(shelf) == 2
    assert shelf.plugin_of("a").name == "ant"


def test_an_unknown_name_is_not_found_and_the_nearest_is_named(enable: Enable) -> None:
    with pytest.raises(NotFoundError, match="offers a forecaster oracel; did you mean oracle"):
        enable(mine=GOOD).forecasters["oracel"]


def test_a_generator_is_a_list_too(enable: Enable) -> None:
    assert enable(mine="@hookimpl\ndef foxcast_forecasters():\n    yield FORECASTER\n").forecasters.names == ("oracle",)


def test_a_hook_under_another_name_is_asked(enable: Enable) -> None:
    text = "@hookimpl(specname='foxcast_forecasters')\ndef mine():\n    return [FORECASTER]\n"
    assert enable(mine=text).forecasters.names == ("oracle",)


def test_a_hook_of_a_later_version_may_be_optional(enable: Enable) -> None:
    text = GOOD + "@hookimpl(optionalhook=True)\ndef foxcast_dreams():\n    raise AssertionError\n"
    registry = enable(mine=text)
    assert (registry.forecasters.names, registry.broken) == (("oracle",), ())


def test_only_enabled_plugins_are_imported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise AssertionError")
    file = tmp_path / "config.toml"
    file.write_text("plugin_files = ['mine.py']")
    registry = load_registry(load_config(file, {}))
    assert (registry.enabled, registry.broken) == ((), ())
    assert "mine" in {plugin.name for plugin in registry.found}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 / 0", "it cannot be imported: ZeroDivisionError: division by zero"),
        ("import no_such_module", "it cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:", "it cannot be imported: SyntaxError: invalid syntax"),
        ("raise SystemExit(3)", "it cannot be imported: SystemExit: 3"),
        ("", "it offers nothing: no function is marked with @hookimpl"),
        (
            "@hookimpl\ndef foxcast_jobs():\n    return 1 / 0",
            "foxcast_jobs failed: ZeroDivisionError: division by zero",
        ),
        ("@hookimpl\ndef foxcast_jobs():\n    exit()", "foxcast_jobs failed: SystemExit"),
        ("@hookimpl\ndef foxcast_jobs():\n    yield 1 / 0", "foxcast_jobs failed: ZeroDivisionError"),
        (
            "@hookimpl\ndef foxcast_jobs():\n    return [FORECASTER]",
            "should return a list of JobSpec, not ForecasterSpec",
        ),
        (
            "@hookimpl\ndef foxcast_jobs():\n    return FORECASTER",
            "should return a list of JobSpec, not ForecasterSpec",
        ),
        ("@hookimpl\ndef foxcast_jobs():\n    pass", "should return a list of JobSpec, not NoneType"),
        ("@hookimpl\ndef foxcast_jobs():\n    return 'jobs'", "should return a list of JobSpec, not str"),
        ("@hookimpl\ndef foxcast_jobs():\n    return {'a': 1}", "should return a list of JobSpec, not str"),
        ("@hookimpl\ndef foxcast_job():\n    return []", "there is no hook foxcast_job; did you mean foxcast_jobs"),
        ("@hookimpl\ndef dreams():\n    return []", "there is no hook dreams; valid: foxcast_commands, "),
        ("@hookimpl\ndef foxcast_jobs(wrong):\n    return []", "its hooks cannot be registered: PluginValidationError"),
        ("@hookimpl\nasync def foxcast_jobs():\n    return []", "foxcast_jobs is async"),
        ("@hookimpl\nasync def foxcast_jobs():\n    yield 1", "foxcast_jobs is async"),
        ("@hookimpl(wrapper=True)\ndef foxcast_jobs():\n    return (yield)", "foxcast_jobs is a wrapper"),
        (f"{GOOD}\ndef foxcast_jobs():\n    return []", "foxcast_jobs is not marked with @hookimpl"),
        (
            returning(
                "foxcast_jobs", "JobSpec(name='a', summary='A', every=timedelta(1), run=nothing, api_version=99)"
            ),
            f"a is built for plugin API 99, this Foxcast has {API_VERSION}",
        ),
        (
            returning("foxcast_data_sources", "DataSpec(name='a', summary='A', settings=dict, open=nothing)"),
            "the settings of a should be a class made from PluginSettings",
        ),
        (
            returning("foxcast_commands", "CommandSpec(name='Not-A-Name', summary='A', run=nothing)"),
            "the name 'Not-A-Name' should be lower-case letters",
        ),
        (
            returning("foxcast_commands", "CommandSpec(name='a', summary='', run=nothing)"),
            "the summary should be one line",
        ),
        (returning("foxcast_commands", "CommandSpec(name='a')"), "foxcast_commands failed: TypeError"),
    ],
)
def test_a_broken_plugin_is_kept_with_its_reason_and_spoils_no_other(enable: Enable, text: str, expected: str) -> None:
    assert expected in reason(enable, text)


def test_a_reason_names_file_and_line(enable: Enable, tmp_path: Path) -> None:
    line = HEAD.count("\n") + 2
    assert f"({tmp_path / 'bad.py'}:{line})" in reason(enable, "\n1 / 0")


def test_a_plugin_that_fails_in_one_hook_offers_nothing_at_all(enable: Enable) -> None:
    registry = enable(bad=GOOD + "@hookimpl\ndef foxcast_jobs():\n    return 1 / 0\n")
    assert (len(registry.forecasters), len(registry.broken)) == (0, 1)


def test_a_name_offered_twice_stays_with_the_first_and_the_reason_names_both(enable: Enable, tmp_path: Path) -> None:
    registry = enable(zebra=GOOD, ant=GOOD)
    assert registry.forecasters.plugin_of("oracle").name == "zebra"
    (broken,) = registry.broken
    assert broken.plugin.name == "ant"
    for side in (f"zebra ({tmp_path / 'zebra.py'})", f"ant ({tmp_path / 'ant.py'})"):
        assert side in broken.reason


def test_a_name_offered_twice_by_one_plugin_breaks_it(enable: Enable) -> None:
    assert "oracle is offered twice" in enable(mine=GOOD.replace("[F", "[FORECASTER, F")).broken[0].reason


def test_an_enabled_plugin_that_is_not_there_is_refused_with_key_and_line(enable: Enable) -> None:
    with pytest.raises(ConfigError, match=r"config.toml:1: plugins\[1\]: there is no plugin mnie; did you mean mine"):
        enable_names(enable, "mine", "mnie")


def enable_names(enable: Enable, good: str, missing: str) -> None:
    registry = enable(**{good: GOOD})
    folder = Path(registry.found[[plugin.name for plugin in registry.found].index(good)].where).parent
    (folder / "config.toml").write_text(f"plugins = ['{good}', '{missing}']\nplugin_files = ['{good}.py']")
    load_registry(load_config(folder / "config.toml", {}))


def test_two_plugins_of_one_name_are_refused_with_both(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(HEAD + GOOD)
    file = tmp_path / "config.toml"
    file.write_text("plugins = ['mine']\nplugin_files = ['a/mine.py', 'b/mine.py']")
    with pytest.raises(PluginError, match=r"two plugins are called mine: .*a/mine\.py.*b/mine\.py"):
        load_registry(load_config(file, {}))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("[forecasters.oracel]", "config.toml:3: forecasters.oracel: no plugin offers it; did you mean oracle?"),
        ("[search.oracle]", "config.toml:3: search.oracle: no plugin offers it"),
        ("[forecasters.v.settings]", "forecasters.v: no plugin offers it; valid: oracle (a variant of another"),
        ("[forecasters.v.settings]", 'needs uses = "NAME")'),
        (
            "[research]\nsearch = ['orakle']",
            "config.toml:4: research.search[0]: no enabled plugin offers this search engine; ",
        ),
    ],
)
def test_a_table_that_nothing_answers_to_is_refused_with_the_nearest(enable: Enable, table: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        enable(table, mine=GOOD)
    assert expected in str(caught.value)


def test_a_variable_for_a_table_that_nothing_answers_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    environ = {"FOXCAST_DATA__GAUGE__SETTINGS__TOKEN": "x"}
    with pytest.raises(
        ConfigError, match=r"env FOXCAST_DATA__GAUGE__SETTINGS__TOKEN: data\.gauge: no plugin offers it"
    ):
        load_registry(load_config(tmp_path / "config.toml", environ))


def test_the_table_of_a_plugin_that_is_not_enabled_may_stay_unread(enable: Enable) -> None:
    table = "[venues.forecastbench]\nforecasters = ['whoever']\n[venues.forecastbench.settings]\nsurce = 1\n"
    assert enable(table, mine=GOOD).venues.names == ()


def test_while_a_plugin_is_broken_any_table_may_be_its_own(enable: Enable) -> None:
    assert len(enable("[forecasters.unheard]", mine=GOOD, bad="1 / 0").broken) == 1


def test_the_forecasters_of_a_venue_must_be_there(enable: Enable) -> None:
    venue = returning("foxcast_venues", "VenueSpec(name='lantern', summary='L', settings=Quiet, reader=nothing)")
    table = "[venues.lantern]\nforecasters = ['oracle', 'oracel', 'forecastbench']\n"
    with pytest.raises(ConfigError) as caught:
        enable(table, mine=GOOD, light=venue)
    lines = [line.rpartition("/")[2] for line in str(caught.value).splitlines()]
    assert lines == [
        "config.toml:4: venues.lantern.forecasters[1]: no enabled plugin offers this forecaster; did you mean oracle?",
        "config.toml:4: venues.lantern.forecasters[2]: the plugin forecastbench is not enabled; add it to plugins",
    ]


def test_config_toml_enables_what_comes_with_the_program() -> None:
    config = load_config(Path(__file__).resolve().parents[3] / "config.toml", {})
    registry = load_registry(config)
    assert registry.broken == ()
    for table in PluginTableName:
        for name in config.plugin_tables(table):
            assert load_plugin_settings(registry.specs_of_table(table)[name], config)
