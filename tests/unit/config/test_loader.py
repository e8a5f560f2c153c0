import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, ValidationError

from bot.config.loader import load_config
from bot.config.schema import Config, ForecasterTable
from bot.config.settings_report import list_origins
from bot.config.sources import MAX_FILE_BYTES, TomlDocument, read_toml_file
from bot.config.validation import leaf_keys
from bot.config.venue_schema import VenueTable
from bot.core.errors import ConfigError
from bot.core.plain_text import nearest_names, suggest_names
from bot.core.submissions import ExecutionMode
from bot.forecasting.aggregation import PoolingMethod

ROOT = Path(__file__).resolve().parents[3]
VENUE = '[venues.lantern]\nforecasters = ["oracle"]\n'

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Writes the text as config.toml and loads it with the given variables, their prefix left out."""

    def load(text: str, **variables: str) -> Config:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        return load_config(file, {f"FOXCAST_{name}": value for name, value in variables.items()})

    return load


def refusal(load: Load, text: str, **variables: str) -> str:
    """What the operator is told, without the folder of the test."""
    with pytest.raises(ConfigError) as caught:
        load(text, **variables)
    return "\n".join(line.rpartition("/")[2] for line in str(caught.value).splitlines())


def test_without_a_file_and_variables_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {})
    assert config.mode is ExecutionMode.PAPER
    assert config.plugins == ()
    assert config.state == tmp_path / "state"


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built-in configuration outside the working directory, which is empty."""
    working, program = tmp_path / "working", tmp_path / "program"
    working.mkdir()
    program.mkdir()
    monkeypatch.chdir(working)
    file = program / "built_in.toml"
    file.write_text('plugins = ["lantern"]\nseed = 7\n')
    return file


def test_a_built_in_file_is_read_where_there_is_no_other_and_keeps_results_in_the_working_directory(
    built_in: Path,
) -> None:
    config = load_config(None, {"FOXCAST_MODE": "off"}, built_in=built_in)
    assert (config.plugins, config.seed, config.mode) == (("lantern",), 7, ExecutionMode.OFF)
    assert config.sources.document.is_built_in
    assert config.state == Path.cwd() / "state"
    assert config.sources.origin(("seed",)) == f"{built_in}:2"


def test_a_built_in_file_gives_way_to_any_other_and_to_plugins_in_the_environment(built_in: Path) -> None:
    assert load_config(None, {"FOXCAST_PLUGINS": '["ember"]'}, built_in=built_in).seed == 1
    Path("config.toml").write_text("seed = 2")
    found = load_config(None, {}, built_in=built_in)
    assert (found.seed, found.plugins) == (2, ())
    assert not found.sources.document.is_built_in


def test_the_file_named_by_hand_wins_over_the_variable_and_that_over_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, name in enumerate(("config.toml", "variable.toml", "hand.toml")):
        (tmp_path / name).write_text(f"seed = {seed}")
    monkeypatch.chdir(tmp_path)
    environ = {"FOXCAST_CONFIG": "variable.toml"}
    assert load_config(None, {}).seed == 0
    assert load_config(None, environ).seed == 1
    assert load_config(Path("hand.toml"), environ).seed == 2


def test_a_variable_replaces_one_value_and_leaves_its_neighbours(load: Load) -> None:
    text = f"[daemon]\nconcurrency = 3\nlease_s = 5\n{VENUE}mode = 'live'\n"
    config = load(text, DAEMON__CONCURRENCY="7", VENUES__LANTERN__MODE="off", LIMITS__TOKENS="12")
    assert (config.daemon.concurrency, config.daemon.lease_s, config.limits.tokens) == (7, 5, 12)
    assert config.mode_of("lantern") is ExecutionMode.OFF
    assert config.venues["lantern"].forecasters == ("oracle",)


def test_a_list_in_a_variable_is_json(load: Load) -> None:
    assert load("plugins = ['a']", PLUGINS='["b", "c"]').plugins == ("b", "c")
    assert refusal(load, "", PLUGINS="b,c") == 'env FOXCAST_PLUGINS: should be JSON, a list such as ["one", "two"]'


def test_names_of_variables_are_read_in_any_case_and_twice_is_refused() -> None:
    assert load_config(ROOT / "config.toml", {"foxcast_seed": "5"}).seed == 5
    with pytest.raises(ConfigError, match="set the same value"):
        load_config(None, {"foxcast_seed": "5", "FOXCAST_SEED": "6"})


def test_variables_of_other_programs_are_left_alone() -> None:
    assert load_config(ROOT / "config.toml", {"FOXCASTING": "1", "PATH": "x", "SEED": "9"}).seed == 1


def test_relative_paths_are_meant_beside_the_file(tmp_path: Path, load: Load) -> None:
    config = load("state = 'ledger'\nplugin_files = ['mine.py', '/opt/other.py']")
    assert config.state == tmp_path / "ledger"
    assert config.plugin_files == (tmp_path / "mine.py", Path("/opt/other.py"))


def test_the_mode_of_a_venue_is_its_own_else_the_common_one_else_off() -> None:
    table = VenueTable(forecasters=("oracle",))
    config = Config(
        mode=ExecutionMode.LIVE,
        venues={"lantern": table, "beacon": table.model_copy(update={"mode": ExecutionMode.PAPER})},
    )
    assert [config.mode_of(name) for name in ("lantern", "beacon", "unheard")] == [
        ExecutionMode.LIVE,
        ExecutionMode.PAPER,
        ExecutionMode.OFF,
    ]


def test_a_forecaster_without_a_table_has_the_defaults() -> None:
    config = Config(forecasters={"oracle": ForecasterTable(trials=5)})
    assert [config.forecaster_table(name).trials for name in ("oracle", "unheard")] == [5, None]


def test_the_environment_is_that_of_the_process_unless_another_is_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOXCAST_SEED", "8")
    assert load_config(ROOT / "config.toml").seed == 8
    assert load_config(ROOT / "config.toml", {}).seed == 1


def test_nothing_can_be_changed_later() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Config().seed = 2  # type: ignore[misc]  # the type checker refuses it as well


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\nsed = 1", "config.toml:2: sed: there is no such key; did you mean seed?"),
        ("[log]\nlevle = 'info'", "config.toml:2: log.levle: there is no such key; did you mean level?"),
        ("[lgo]\n", "config.toml:1: lgo: there is no such key; did you mean log?"),
        ("[log]\nzzz = 1", "config.toml:2: log.zzz: there is no such key; valid: format, level"),
        ("mode = 'papr'", "config.toml:1: mode: should be 'off', 'paper', 'approve' or 'live'; did you mean paper?"),
        (
            "[llm.roles.main]\nmodel = 'a:b'\neffort = 'hgih'",
            (
                "config.toml:3: llm.roles.main.effort: should be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' "
                "or 'max'; did you mean high?"
            ),
        ),
        ("seed = '1'", "config.toml:1: seed: should be a valid integer (found text)"),
        ("seed = true", "config.toml:1: seed: should be a valid integer (found true or false)"),
        ("seed = -1", "config.toml:1: seed: should be greater than or equal to 0"),
        ("state = 3", "config.toml:1: state: should be text (found a number)"),
        ("plugins = 'a'", "config.toml:1: plugins: should be a list (found text)"),
        ("log = 3", "config.toml:1: log: should be a table (found a number)"),
        ("venues = []", "config.toml:1: venues: should be a table (found a list)"),
        (
            "[policy]\nnear_close_h = [\n1,\n'a']",
            "config.toml:2: policy.near_close_h[1]: should be a valid number (found text)",
        ),
        ("[policy]\nprice_move = nan", "config.toml:2: policy.price_move: should be a finite number"),
        ("[daemon]\nlease_s = inf", "config.toml:2: daemon.lease_s: should be a finite number"),
        (
            "[venues.lantern]",
            (
                "config.toml:1: venues.lantern.forecasters: is missing; "
                "write it into config.toml or set FOXCAST_VENUES__LANTERN__FORECASTERS"
            ),
        ),
        ("[venues.lantern]\nforecasters = []", "config.toml:2: venues.lantern.forecasters: has too few entries"),
        (f"{VENUE}mod = 'off'", "config.toml:3: venues.lantern.mod: there is no such key; did you mean mode?"),
    ],
)
def test_a_refusal_names_line_key_fault_and_the_nearest_name(load: Load, text: str, expected: str) -> None:
    assert refusal(load, text) == expected


@pytest.mark.parametrize("name", ["Lantern", "lan-tern", "lan__tern", "9", "l" * 61, "lan tern"])
def test_a_table_name_that_no_variable_could_hold_is_refused(load: Load, name: str) -> None:
    assert refusal(load, f"[data.'{name}']").startswith(f"config.toml:1: data.{name}: should ")


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("SED", "there is no such setting; did you mean FOXCAST_SEED?"),
        ("LOG_LEVEL", "there is no such setting; did you mean FOXCAST_LOG__LEVEL?"),
        ("DEAMON__LEASE_S", "there is no such setting; did you mean FOXCAST_DAEMON__LEASE_S?"),
        ("VENUES__LANTERN__MOED", "there is no such setting; did you mean FOXCAST_VENUES__LANTERN__MODE?"),
        ("LOG__ZZZ", "there is no such setting; valid: format, level"),
        ("SEED__X", "there is no such setting; did you mean FOXCAST_SEED?"),
        ("LOG", "names a table; name one value in it, such as FOXCAST_LOG__FORMAT"),
    ],
)
def test_a_misspelt_variable_is_refused(load: Load, variable: str, expected: str) -> None:
    assert refusal(load, "", **{variable: "1"}) == f"env FOXCAST_{variable}: {expected}"


@pytest.mark.parametrize("variable", ["VENUES", "VENUES__LANTERN", "VENUES__LANTERN__SETTINGS", "DATA"])
def test_a_variable_sets_one_value_and_no_table(load: Load, variable: str) -> None:
    said = refusal(load, VENUE, **{variable: '{"mode": "live"}'})
    assert said.startswith(f"env FOXCAST_{variable}: names a table; name one value in it, such as FOXCAST_")


def test_a_wrong_value_in_a_variable_names_the_variable_and_not_the_value(load: Load) -> None:
    said = refusal(load, "seed = 1", SEED="soon")
    assert said == "env FOXCAST_SEED: seed: should be a valid integer (found text)"


def test_an_empty_variable_and_one_for_a_table_of_nearly_that_name_are_refused(load: Load) -> None:
    assert refusal(load, "", STATE="") == "env FOXCAST_STATE: is empty; give it a value or unset it"
    said = refusal(load, VENUE, VENUES__LANTREN__MODE="paper")
    assert "the file has no [venues.lantren]; did you mean FOXCAST_VENUES__LANTERN__MODE?" in said


def test_all_faults_are_told_at_once(load: Load) -> None:
    assert len(refusal(load, "sed = 1\nmode = 3\n[log]\nlevle = ''", LOG__FORMAT="jsn").splitlines()) == 4


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"seed = 1\nlog = [[3\n", "is not valid TOML"),
        (b"seed = 1\nseed = 2\n", "line 2"),
        (b"seed = 1\n\xff\n", "config.toml:2: is not UTF-8 text"),
        (b"a = " + b"[" * 10_000, "is nested too deeply"),
        (b"#" * (MAX_FILE_BYTES + 1), "is larger than"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path, raw: bytes, expected: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(raw)
    with pytest.raises(ConfigError, match=r"config\.toml") as caught:
        load_config(file, {})
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", ["absent.toml", "."])
def test_a_named_file_must_be_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / name, {})


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xef\xbb\xbfseed = 4\r\n[log]\r\nlevel = 'debug'\r\n")
    document = read_toml_file(file)
    assert document.table == {"seed": 4, "log": {"level": "debug"}}
    assert document.line_of(("log", "level")) == 3


def test_lines_are_found_in_every_form_of_toml() -> None:
    text = '''a = 1
[b]
c.d = """
[x]
e = 1
"""  # c.d ends here
list = [
  "]",  # ]
  [1, 2],
]
inline = { f = 1, g = { h = "}" } }
[[i.j]]
"quoted key" = 'k'
'''
    document = TomlDocument(text=text, table=tomllib.loads(text))
    assert dict(document.key_lines) == {
        ("a",): 1,
        ("b",): 2,
        ("b", "c"): 3,
        ("b", "c", "d"): 3,
        ("b", "list"): 7,
        ("b", "inline"): 11,
        ("b", "inline", "f"): 11,
        ("b", "inline", "g"): 11,
        ("b", "inline", "g", "h"): 11,
        ("i",): 12,
        ("i", "j"): 12,
        ("i", "j", 0): 12,
        ("i", "j", 0, "quoted key"): 13,
    }


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=5), st.integers(0, 3))
def test_each_key_has_the_line_on_which_it_was_written(values: Mapping[str, str], gap: int) -> None:
    # A JSON string in ASCII is a TOML string, but for the surrogate pairs of characters beyond the first plane.
    values = {key: value for key, value in values.items() if max(f"{key}{value}") < "\ud800"}
    lines = [f"{json.dumps(key)} = {json.dumps(value)}".replace("\x7f", "\\u007f") for key, value in values.items()]
    text = ("\n" * (gap + 1)).join(lines)
    document = TomlDocument(text=text, table=tomllib.loads(text))
    assert dict(document.key_lines) == {(key,): 1 + index * (gap + 1) for index, key in enumerate(values)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("forcastbnch", ("forecastbench",)), ("BASELINE", ("baseline",)), ("zzz", ()), ("", ())],
)
def test_the_nearest_name_is_found(name: str, expected: tuple[str, ...]) -> None:
    assert nearest_names(name, ["forecastbench", "baseline"]) == expected


def test_without_a_near_name_all_are_listed() -> None:
    assert suggest_names("zzz", ["b", "a"]) == "valid: a, b"
    assert suggest_names("zzz", []) == "there is none"


NAMES = st.sampled_from(
    ["mode", "log", "level", "daemon", "lease_s", "venues", "forecasters", "settings", "plugins", "x"]
)
SCALARS = st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.sampled_from(["", "paper", "1", "x y"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3))


def toml(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{name} = {toml(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case float() if not math.isfinite(value):
            return str(value)
    return json.dumps(value)


@given(
    table=st.dictionaries(NAMES, VALUES, max_size=4),
    variables=st.dictionaries(
        st.lists(NAMES, min_size=1, max_size=4).map("__".join), st.sampled_from(["", "1", "x", "[", "[1]", '{"x": 1}'])
    ),
)
def test_whatever_is_written_gives_a_configuration_or_says_where_to_mend_it(
    tmp_path_factory: pytest.TempPathFactory, table: Mapping[str, Any], variables: Mapping[str, str]
) -> None:
    file = tmp_path_factory.getbasetemp() / "config.toml"
    file.write_text("\n".join(f"{name} = {toml(value)}" for name, value in table.items()))
    environ = {f"FOXCAST_{name.upper()}": value for name, value in variables.items()}
    assert [place for place in places(file, environ) if not place.startswith((f"{file}:", "env ", "default"))] == []


def places(file: Path, environ: Mapping[str, str]) -> list[str]:
    """Where each value comes from, or where each fault is to be mended."""
    try:
        return [row.source for row in list_origins(load_config(file, environ))]
    except ConfigError as error:
        return str(error).splitlines()


def test_every_value_has_its_origin(load: Load, tmp_path: Path) -> None:
    config = load(f"seed = 3\n{VENUE}", LOG__LEVEL="debug")
    file = tmp_path / "config.toml"
    shown = {row.key: (row.value, row.source) for row in list_origins(config)}
    assert shown["mode"] == ("paper", "default")
    assert shown["seed"] == ("3", f"{file}:1")
    assert shown["log.level"] == ("debug", "env FOXCAST_LOG__LEVEL")
    assert shown["limits.tokens"] == ("null", "default")
    assert shown["venues.lantern.forecasters"] == ('["oracle"]', f"{file}:3")


def test_values_of_a_plugin_that_is_not_enabled_are_masked(load: Load) -> None:
    config = load(f"{VENUE}[venues.lantern.settings]\nword = 'hush'", VENUES__LANTERN__SETTINGS__SIGN="hush")
    rows = [row for row in list_origins(config) if ".settings." in row.key]
    assert [(row.key, row.value) for row in rows] == [
        ("venues.lantern.settings.sign", "**********"),
        ("venues.lantern.settings.word", "**********"),
    ]
    assert "hush" not in repr(config)


def test_a_login_in_an_address_is_masked(load: Load) -> None:
    config = load("", FORECASTERS__ORACLE__SETTINGS__SOURCE="https://me:hush@host/")

    class Source(BaseModel):
        source: str = "https://me:hush@host/"
        key: SecretStr = SecretStr("hush")

    rows = list_origins(config, {("forecasters", "oracle", "settings"): Source()})
    assert [row.value for row in rows if row.key.startswith("forecasters.")] == ["https://***@host/", "**********"]


def keys_of(table: Mapping[str, Any], prefix: str = "") -> set[str]:
    return {
        key
        for name, value in table.items()
        for key in (keys_of(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}"})
    }


def test_every_key_stands_in_config_toml() -> None:
    text = (ROOT / "config.toml").read_text()
    # A line such as "# tokens = 200_000" or "# [data.NAME.settings]" shows what is left out.
    shown = "\n".join(line.removeprefix("# ") if "=" in line or "# [" in line else line for line in text.splitlines())
    missing = [
        ".".join(map(str, key))
        for key in leaf_keys(Config, ("venues", "forecastbench"))
        if key[0] not in {"forecasters", "search", "data", "models", "notifiers"} and f"\n{key[-1]} = " not in shown
    ]
    assert missing == []
    assert [name for name in ForecasterTable.model_fields if f"\n{name} = " not in shown and name != "settings"] == []
    for table in ("forecasters.baseline", "search.NAME", "data.NAME", "models.NAME", "notifiers.NAME"):
        assert f"[{table}.settings]" in shown


def test_config_toml_says_the_defaults_as_far_as_it_says_nothing_of_plugins() -> None:
    table = tomllib.loads((ROOT / "config.toml").read_text())
    written = {key: value for key, value in table.items() if key not in {"plugins", "venues", "forecasters"}}
    defaults = Config().model_dump(mode="json")
    assert Config.model_validate(written).model_dump(mode="json") == defaults
    assert Config.model_validate(table).forecasters["baseline"] == ForecasterTable()
    assert Config.model_validate(table).mode is ExecutionMode.PAPER


def test_the_ways_to_aggregate_are_those_that_the_desk_knows() -> None:
    assert set(get_args(ForecasterTable.model_fields["aggregate"].annotation)) == set(PoolingMethod)


def test_reading_the_configuration_loads_nothing_heavy() -> None:
    code = "import sys, bot.config.loader, bot.plugin_system.registry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "httpx", "sqlite_utils", "apscheduler", "plugins"}
    assert heavy.isdisjoint(loaded.stdout.split())
