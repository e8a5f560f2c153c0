"""Plugins, configuration and the doctor; and what goes wrong with files, dates and folders that people name."""

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.conftest import CONFIG, FoxcastInstallation, InProcessCommand, installed


def test_plugins_are_listed_with_what_they_offer(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    listed = {plugin["name"]: plugin for plugin in run_command(foxcast, "plugins", "--json").json}
    assert listed["fake_crowd_forecaster"]["state"] == "enabled"
    assert [(one["kind"], one["name"]) for one in listed["fake_crowd_forecaster"]["offers"]] == [
        ("forecaster", "steady"),
        ("command", "greet"),
    ]
    assert listed["baseline"]["state"] == "not enabled"
    assert "forecaster steady (learn)" in run_command(foxcast, "plugins").out


def test_a_broken_plugin_is_listed_with_its_reason_and_stops_nothing(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    (tmp_path / "shaky.py").write_text("import a_library_that_nobody_has\n")
    config = CONFIG.replace('"fake_crowd_forecaster"]\n', '"fake_crowd_forecaster", "shaky"]\n').replace(
        '["{plugin}"]', '["{plugin}", "shaky.py"]'
    )
    foxcast = installed(tmp_path, config)
    assert "shaky is broken: it cannot be imported: ModuleNotFoundError" in run_command(foxcast, "plugins").out
    assert run_command(foxcast, "run", "--once").code == 0
    doctor = run_command(foxcast, "doctor")
    assert doctor.code == 1
    assert "a_library_that_nobody_has" in doctor.out


def test_config_show_tells_every_origin_and_no_secret(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    secret = "correct-horse"  # noqa: S105 - it must not appear
    foxcast = new_installation.with_environment(FOXCAST_FORECASTERS__STEADY__SETTINGS__KEY=secret, FOXCAST_SEED="7")
    shown = run_command(foxcast, "config", "show", "--json")
    values = shown.json
    assert secret not in shown.out + run_command(foxcast, "config", "show").out
    assert values["forecasters.steady.settings.key"]["origin"] == "env FOXCAST_FORECASTERS__STEADY__SETTINGS__KEY"
    assert values["seed"] == {"value": "7", "origin": "env FOXCAST_SEED"}
    assert values["venues.forecastbench.settings.rounds"]["origin"].endswith("config.toml:9")
    assert values["mode"] == {"value": "paper", "origin": "default"}
    assert values["forecasters.steady.settings.key"]["set"] is True


def test_config_show_tells_how_a_forecaster_without_a_table_works(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path, CONFIG.replace('"fake_crowd_forecaster"]\n', '"fake_crowd_forecaster", "blf"]\n', 1))
    values = run_command(foxcast, "config", "show", "--json").json
    switches = {
        name: values[f"forecasters.blf.{name}"] for name in ("trials", "aggregate", "calibration", "clairvoyant")
    }
    assert {name: reported["value"] for name, reported in switches.items()} == {
        "trials": "5",
        "aggregate": "logit-mean",
        "calibration": "null",
        "clairvoyant": "false",
    }
    assert {reported["origin"] for reported in switches.values()} == {"default"}
    assert values["forecasters.blf.settings.early_stop"]["value"] == "told"


def test_config_show_names_the_variable_of_each_secret_and_says_whether_it_is_set(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    variable = "FOXCAST_FORECASTERS__STEADY__SETTINGS__KEY"
    unset = run_command(new_installation, "config", "show", "--json").json["forecasters.steady.settings.key"]
    assert (unset["variable"], unset["set"]) == (variable, False)
    (line,) = [line for line in run_command(new_installation, "config", "show").out.splitlines() if variable in line]
    assert line.rstrip().endswith("not set")
    given = new_installation.with_environment(**{variable: "correct-horse"})
    (line,) = [
        line
        for line in run_command(given, "config", "show").out.splitlines()
        if f" {variable} " in line and "env" not in line
    ]
    assert line.rstrip().endswith(" set")


def test_config_show_tells_all_there_is_before_it_complains_of_a_secret_that_is_missing(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(
        tmp_path, CONFIG.replace('"fake_crowd_forecaster"]\n', '"fake_crowd_forecaster", "tavily"]\n', 1)
    )
    variable = "FOXCAST_SEARCH__TAVILY__SETTINGS__KEY"
    shown = run_command(foxcast, "config", "show", "--json")
    assert shown.is_refusal(2, variable, "is missing")
    assert shown.json["search.tavily.settings.key"] == {
        "value": None,
        "origin": "default",
        "variable": variable,
        "set": False,
    }
    assert shown.json["seed"]["value"] == "1"
    assert "not set, and needed" in run_command(foxcast, "config", "show").out


def test_config_show_explains_a_setting_with_its_value_and_origin(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    output = run_command(new_installation, "config", "show", "--explain", "venues.forecastbench.settings.rounds").out
    assert "Rounds to forecast" in output
    assert 'type: "latest" or "all" or list of dates' in output
    assert 'default: "latest"' in output
    assert re.search(r"venues\.forecastbench\.settings\.rounds = .* \(.*config\.toml:9\)", output)
    explained = run_command(
        new_installation.with_environment(FOXCAST_DAEMON__LEASE_S="7"),
        "config",
        "show",
        "--explain",
        "daemon.lease_s",
        "--json",
    ).json
    assert explained["default"] == "900.0"
    assert explained["values"] == {"daemon.lease_s": {"value": "7.0", "origin": "env FOXCAST_DAEMON__LEASE_S"}}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("daemon", ["How often each job runs", "keys: concurrency, lease_s"]),
        ("venues.*.mode", ["venues.NAME.mode", "venues.forecastbench.mode = unset (default)"]),
        ("venues.manifold.settings.topics", ["Only markets of these topics", "default: empty"]),
        ("search.tavily.settings.key", ["type: secret text", "default: none, it must be set"]),
        ("search.tavily.settings", ["Web or news search", "keys: key, base_url"]),
        ("models.litellm.settings.keys.gemini", ["API keys by vendor", "any name, also gemini"]),
    ],
)
def test_config_show_explains_tables_wildcards_and_plugins_that_are_not_enabled(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, key: str, words: list[str]
) -> None:
    output = run_command(new_installation, "config", "show", "--explain", key).out
    assert [word for word in words if word not in output] == []


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("lease_s", ["there is no setting lease_s", "did you mean daemon.lease_s?"]),
        ("daemon.leas_s", ["did you mean daemon.lease_s"]),
        ("venues.manifold.settings.topic", ["did you mean venues.manifold.settings.topics"]),
        ("qqqqqqqq", ["foxcast config show lists all of them"]),
        ("desk.results", ["desk.results is now research.results"]),
        ("venues.manifold.settings.most", ["is now venues.manifold.settings.max_markets"]),
    ],
)
def test_config_show_names_what_an_unknown_key_may_mean(
    new_installation: FoxcastInstallation, run_command: InProcessCommand, key: str, words: list[str]
) -> None:
    assert run_command(new_installation, "config", "show", "--explain", key).is_refusal(2, *words)


OLD_CONFIG = """\
# mine
plugins = ["forecastbench", "shaky"]
plugin_files = ["shaky.py"]
daemon = {{ attend_every_s = 5 }}  # seconds

[venues.forecastbench]
forecasters = ["twin"]

[venues.forecastbench.settings]
number = 2   # of three

[forecasters.twin]
uses = "shaky"
settings.depth = 3

[forecasters.shaky]
trials = 1
"""
SHAKY = """\
from collections.abc import Mapping
from typing import ClassVar
from bot.api import ForecasterSpec, PluginSettings, hookimpl

class ShakySettings(PluginSettings):
    renamed_keys: ClassVar[Mapping[str, str]] = {"depth": "max_depth"}
    max_depth: int = 1

@hookimpl
def foxcast_forecasters():
    return [ForecasterSpec(name="shaky", summary="Shaky", settings=ShakySettings, open=None)]
"""


def test_config_upgrade_rewrites_an_old_file_once_and_keeps_it(tmp_path: Path, run_command: InProcessCommand) -> None:
    foxcast = installed(tmp_path, OLD_CONFIG)
    (foxcast.folder / "shaky.py").write_text(SHAKY)
    file = Path(foxcast.config)
    file.chmod(0o600)
    old = file.read_bytes()
    remedy = "`foxcast config upgrade config.toml` rewrites the file"
    assert run_command(foxcast, "plugins").is_refusal(2, "config.toml:4: daemon.attend_every_s: is now", remedy)

    upgraded = run_command(foxcast, "config", "upgrade", str(file))
    assert upgraded.code == 0
    assert upgraded.out.splitlines() == [
        f"{file}:4: daemon.attend_every_s is now daemon.requests_every_s",
        f"{file}:10: venues.forecastbench.settings.number is now venues.forecastbench.settings.set_number",
        f"{file}:14: forecasters.twin.settings.depth is now forecasters.twin.settings.max_depth",
        f"rewrote {file}; the old file is {file}.bak",
    ]
    assert file.with_name("config.toml.bak").read_bytes() == old
    renamed = old.replace(b"attend_every_s", b"requests_every_s").replace(b"number = 2", b"set_number = 2")
    assert file.read_bytes() == renamed.replace(b"depth", b"max_depth")
    assert file.stat().st_mode & 0o777 == 0o600
    shown = run_command(foxcast, "config", "show", "--json")
    assert shown.err == ""
    assert shown.json["forecasters.twin.settings.max_depth"]["value"] == "3"

    again = run_command(foxcast, "config", "upgrade", str(file))
    assert (again.code, again.out) == (0, f"{file}: nothing to upgrade, all names are current\n")
    assert file.with_name("config.toml.bak").read_bytes() == old


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[daemon\nattend_every_s = 5", ["is not valid TOML", "line 1"]),
        ("daemon.attend_every_s = 5\ndaemon.requests_every_s = 6", ["set too", "nothing was changed"]),
        ('plugin_files = ["nowhere.py"]\ndaemon.attend_every_s = 5', ["there is no Python file"]),
    ],
)
def test_config_upgrade_changes_nothing_that_it_cannot_read(
    new_installation: FoxcastInstallation, tmp_path: Path, run_command: InProcessCommand, text: str, words: list[str]
) -> None:
    file = tmp_path / "old.toml"
    file.write_text(text)
    assert run_command(new_installation, "config", "upgrade", str(file)).is_refusal(2, "old.toml", *words)
    assert (file.read_text(), [*tmp_path.glob("*.bak")]) == (text, [])


def test_config_upgrade_keeps_marks_links_and_ends_of_lines(
    new_installation: FoxcastInstallation, tmp_path: Path, run_command: InProcessCommand
) -> None:
    file, link = tmp_path / "real.toml", tmp_path / "link.toml"
    file.write_bytes("\ufeffseed = 1\r\n[desk]\r\n".encode())
    link.symlink_to(file)
    assert run_command(new_installation, "config", "upgrade", str(link)).code == 0
    assert file.read_bytes() == "\ufeffseed = 1\r\n[research]\r\n".encode()
    assert link.is_symlink()


def test_config_upgrade_of_a_file_that_is_not_there_is_refused(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(new_installation, "config", "upgrade", "nowhere.toml").is_refusal(
        2, "nowhere.toml", "cannot be read"
    )


def test_a_venue_that_nobody_knows_is_a_mistake_that_names_those_there_are(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    for command in (
        ["score", "--venue", "forecastbnch"],
        ["questions", "--venue", "forecastbnch"],
        ["backtest", "--forecaster", "steady", "--rounds", "sample", "--venue", "forecastbnch"],
        ["score", "--rounds", "sample", "--forecasts", "any.json", "--venue", "forecastbnch"],
    ):
        assert run_command(foxcast, *command).is_refusal(8, "--venue forecastbnch", "forecastbench")
    assert run_command(foxcast, "score", "--venue", "forecastbench").code == 0


def test_the_configuration_may_be_anywhere(
    new_installation: FoxcastInstallation, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = FoxcastInstallation(tmp_path_factory.mktemp("elsewhere"))
    named = elsewhere("--config", new_installation.config, "config", "show", "--json")
    pointed = elsewhere.with_environment(FOXCAST_CONFIG=str(new_installation.config))("config", "show", "--json")
    assert named.json == pointed.json
    assert named.json["state"]["value"] == str(new_installation.folder / "state")


def test_the_doctor_is_content_with_a_fresh_and_with_a_used_installation(
    new_installation: FoxcastInstallation, foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    for one in (new_installation, foxcast):
        answer = run_command(one, "doctor", "--json")
        assert answer.code == 0
        assert "fail" not in {finding["verdict"] for finding in answer.json}
    checks = {finding["check"] for finding in run_command(foxcast, "doctor", "--json").json}
    assert checks >= {
        "python",
        "sqlite",
        "configuration",
        "plugins",
        "state folder",
        "disk",
        "clock",
        "ledger",
        "backup",
    }


def test_the_doctor_names_a_wrong_setting_and_a_halt(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    answer = run_command(new_installation.with_environment(FOXCAST_SEEED="7"), "doctor")
    assert answer.code == 1
    assert "FOXCAST_SEED" in answer.out
    stop = new_installation.folder / "state" / "STOP"
    stop.parent.mkdir()
    stop.touch()
    assert f"rm {stop}" in run_command(new_installation, "doctor").out


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("colour = 1\n", ["config.toml:1", "colour", "there is no such key"]),
        ("seed = \n", ["config.toml", "not valid TOML"]),
        ('mode = "papre"\n', ["config.toml:1", "mode", "paper"]),
        ('plugins = ["steddy"]\n', ["config.toml:1", "steddy"]),
    ],
    ids=["unknown key", "no TOML", "misspelt value", "unknown plugin"],
)
def test_a_faulty_configuration_is_refused_by_name_and_line(
    tmp_path: Path, run_command: InProcessCommand, config: str, words: list[str]
) -> None:
    assert run_command(installed(tmp_path, config), "plugins").is_refusal(2, *words)


def test_a_configuration_that_is_not_there_is_refused(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    assert run_command(new_installation, "--config", "nowhere.toml", "status").is_refusal(
        2, "nowhere.toml", "cannot be read"
    )


def test_a_state_folder_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    foxcast = installed(tmp_path, CONFIG.replace("\nplugins", '\nstate = "file/state"\nplugins'))
    assert foxcast("run", "--once").is_refusal(5, "file/state")
    assert foxcast("doctor").code == 1


BACKTEST = ("backtest", "--rounds", "sample", "--forecaster")
FIT = ("fit", "steady", "--rounds", "sample", "--before")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ((*BACKTEST, "stedy"), 8, ["stedy", "steady"]),
        (("backtest", "--rounds", "nowhere", "--forecaster", "steady"), 8, ["nowhere", "question_sets"]),
        ((*BACKTEST, "steady", "--from", "2026-13-01"), 2, ["--from", "2026-13-01", "2026-04-26"]),
        ((*BACKTEST, "steady", "--from", "2030-01-01"), 8, ["no round with outcomes"]),
        ((*BACKTEST, "steady", "--venue", "elsewhere"), 8, ["--venue"]),
        ((*BACKTEST, "steady", "--json", "no/such/folder/report.json"), 2, ["report.json", "cannot be written"]),
        ((*FIT, "2020-01-01"), 8, ["no outcome", "2020-01-01"]),
        ((*FIT, "2999-01-01"), 2, ["is in the future"]),
        # Found out before the work, which would find nothing.
        ((*FIT, "2020-01-01", "--out", "nowhere/x.json"), 2, ["--out nowhere/x.json", "cannot be written"]),
        (("forecast", "none:x", "--plot", "nowhere/x.svg"), 2, ["--plot nowhere/x.svg", "cannot be written"]),
        ((*FIT, "soon"), 2, ["--before", "soon"]),
        (("score", "--forecasts", "x.json"), 2, ["--rounds"]),
        (("score", "--rounds", "sample"), 2, ["--forecasts"]),
        (("score", "--rounds", "sample", "--forecasts", "nowhere.json"), 8, ["nowhere.json"]),
        (("score", "--rounds", "sample", "--forecasts", "broken.json"), 9, ["broken.json", "JSON"]),
        (("score", "--rounds", "sample", "--forecasts", "other.json"), 9, ["published file"]),
        (("score", "--rounds", "sample", "--forecasts", "x", "--since", "2026-01-01"), 2, ["--since"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_input_is_one_line_with_its_own_code(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, command: tuple[str, ...], code: int, words: list[str]
) -> None:
    (foxcast.folder / "broken.json").write_text("{")
    (foxcast.folder / "other.json").write_text(json.dumps({"forecasts": "none"}))
    assert run_command(foxcast, *command).is_refusal(code, *words)


def test_debug_adds_the_traceback_to_the_line(new_installation: FoxcastInstallation) -> None:
    answer = new_installation("--debug", "show", "x")
    assert answer.code == 8
    assert "Traceback" in answer.err
    assert answer.err.splitlines()[-1].startswith("foxcast: there is no ledger")
