"""`foxcast plugins check`: what it opens, what it leaves alone, and what it says about kits."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bot.cli.command_exit import ExitCode
from bot.cli.main import main
from bot.cli.plugin_check import FindingKind, PluginFinding, open_plugin_parts
from bot.config.loader import load_config
from bot.plugin_system.discovery import choose_plugin
from bot.plugin_system.registry import load_registry
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse

SECRET = "issued-to-nobody-4711"  # noqa: S105 - looked for in what is printed
KEY_VARIABLE = "FOXCAST_SEARCH__EMBER__SETTINGS__KEY"
PLUGIN = """
import contextlib
import socket

from bot.api import AuthenticationError, NotifierSpec, PluginSettings, SearchSpec, VenueSpec, hookimpl
from pydantic import SecretStr


class EmberSettings(PluginSettings):
    url: str = "http://127.0.0.1:9"
    key: SecretStr = SecretStr("")


class LockedSettings(PluginSettings):
    key: SecretStr


@contextlib.asynccontextmanager
async def open_ember(settings, context):
    {body}
    yield context


@hookimpl
def foxcast_{hook}():
    return [{spec}]
"""
SEARCH = 'SearchSpec(name="ember", summary="Glows", settings=EmberSettings, open=open_ember)'


def write_plugin(
    folder: Path, body: str = "pass", *, hook: str = "search_engines", spec: str = SEARCH, settings: str = ""
) -> Path:
    """Write a plugin and its configuration, and return the path of the latter."""
    (folder / "ember.py").write_text(PLUGIN.format(body=body, hook=hook, spec=spec))
    path = folder / "config.toml"
    path.write_text(f'plugins = ["ember"]\nplugin_files = ["ember.py"]\nstate = "{folder}/state"\n{settings}')
    return path


async def open_parts(
    path: Path, environ: Mapping[str, str] | None = None, *, online: bool = False
) -> list[PluginFinding]:
    config = load_config(path, environ or {})
    registry = load_registry(config)
    plugin = choose_plugin("ember", registry.found)
    return await open_plugin_parts(config, registry, plugin, online=online, folder=path.parent / "scratch")


async def test_a_part_is_opened_in_a_folder_of_the_check(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    path = write_plugin(tmp_path, 'context.folder.joinpath("mark").touch()')
    (finding,) = await open_parts(path)
    assert (finding.kind, finding.part, finding.failures) == (FindingKind.OPENED, "search ember", ())
    assert [one.name for one in (tmp_path / "scratch").rglob("*") if one.is_file()] == ["mark"]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('raise RuntimeError("the sun is out")', r"RuntimeError: the sun is out \(.*ember\.py:\d+\)"),
        ('raise SystemExit("quit")', "quit"),
        ('socket.create_connection(("127.0.0.1", 9))', "no connection to 127.0.0.1: this check makes none without"),
        ("await context.http.get(settings.url, max_bytes=9)", "no connection to 127.0.0.1: this check makes none"),
    ],
    ids=["raises", "exits", "own socket", "request"],
)
async def test_a_factory_that_fails_is_named_with_its_reason(tmp_path: Path, body: str, reason: str) -> None:
    (finding,) = await open_parts(write_plugin(tmp_path, body))
    assert finding.kind is FindingKind.FAILED
    (line,) = finding.failures
    assert re.search(f"the search ember cannot be opened: .*{reason}", line), line


async def test_requests_are_made_only_if_the_user_asks(tmp_path: Path) -> None:
    seen = []

    def answer(request: ReceivedRequest) -> ScriptedResponse:
        seen.append(request.path)
        return ScriptedResponse(body=b"{}")

    async with LoopbackServer(answer) as server:
        settings = f'[search.ember.settings]\nurl = "{server.address}/asked"'
        path = write_plugin(tmp_path, "await context.http.get(settings.url, max_bytes=9)", settings=settings)
        assert [one.kind for one in await open_parts(path)] == [FindingKind.FAILED]
        assert seen == []
        assert [one.kind for one in await open_parts(path, online=True)] == [FindingKind.OPENED]
    assert seen == ["/asked"]


async def test_a_setting_that_is_missing_is_named_once(tmp_path: Path) -> None:
    path = write_plugin(tmp_path, spec=SEARCH.replace("EmberSettings", "LockedSettings"))
    (finding,) = await open_parts(path)
    assert (finding.kind, finding.check) == (FindingKind.FAILED, "settings")
    assert KEY_VARIABLE in finding.failures[0]
    assert [one.kind for one in await open_parts(path, {KEY_VARIABLE: SECRET})] == [FindingKind.OPENED]


async def test_a_secret_in_an_error_is_not_shown(tmp_path: Path) -> None:
    path = write_plugin(tmp_path, 'raise ValueError(f"bad key {settings.key.get_secret_value()}")')
    (finding,) = await open_parts(path, {KEY_VARIABLE: SECRET})
    assert "bad key" in finding.failures[0]
    assert SECRET not in finding.failures[0]


VENUE = 'VenueSpec(name="ember", summary="Glows", settings=EmberSettings, reader=open_ember, writer=open_writer)'
WRITER = """yield context


@contextlib.asynccontextmanager
async def open_writer(settings, context):
    raise AuthenticationError("set the key of ember", sent=False)
"""


@pytest.mark.parametrize(("mode", "kind"), [("paper", FindingKind.NOT_NEEDED), ("live", FindingKind.FAILED)])
async def test_a_writer_without_credentials_fails_only_where_it_would_be_used(
    tmp_path: Path, mode: str, kind: FindingKind
) -> None:
    settings = f'mode = "{mode}"\n[venues.ember]\nforecasters = ["baseline"]'
    path = write_plugin(tmp_path, WRITER, hook="venues", spec=VENUE, settings=settings)
    path.write_text(path.read_text().replace('["ember"]', '["ember", "baseline"]'))
    found = await open_parts(path)
    assert [(one.check, one.kind) for one in found] == [("reader", FindingKind.OPENED), ("writer", kind)]
    assert "set the key of ember" in f"{found[1].detail} {found[1].failures}"


def test_an_unknown_name_is_refused_with_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_plugin(tmp_path))
    assert main(["--config", path, "plugins", "check", "embre"]) == ExitCode.USAGE
    assert "there is no plugin embre; did you mean ember" in capsys.readouterr().err
    assert main(["--config", path, "plugins", "check", "quux"]) == ExitCode.USAGE
    assert re.search("valid: .*baseline, .*ember", capsys.readouterr().err)


def test_a_plugin_that_cannot_be_loaded_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_plugin(tmp_path, spec="1 / 0")
    assert main(["--config", str(path), "plugins", "check", "ember"]) == ExitCode.FAILED
    *_, why, last = capsys.readouterr().out.splitlines()
    assert "foxcast_search_engines failed: ZeroDivisionError" in why
    assert last == "ember: 1 FAILED"


def test_a_check_without_the_libraries_of_the_kits_does_not_look_like_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pytest_asyncio", None)
    assert main(["--config", str(write_plugin(tmp_path)), "plugins", "check", "ember"]) == ExitCode.FAILED
    *_, why, last = capsys.readouterr().out.splitlines()
    assert "pytest_asyncio is missing, so no kit was run: pip install foxcast[test]" in why
    assert last == "ember: 1 opened, 1 FAILED"


NOTIFIER = """yield QuietChannel(settings, context.http)


class QuietChannel:
    def __init__(self, settings, http):
        self.settings, self.http = settings, http

    async def notify(self, message):
        with contextlib.suppress(Exception):
            await self.http.post(self.settings.url, {"s": message.subject, "t": message.text}, max_bytes=9)


def run(times):
    pass


@hookimpl
def foxcast_commands():
    from bot.api import CommandSpec

    return [CommandSpec(name="glow", summary="Glows", run=run)]


class BinaryForecaster:
    async def steps(self, question, context):
        from bot.api import Belief, BinaryPrediction, Step, StepAction, StepObservation

        belief = Belief(predictions={target.key: BinaryPrediction(0.5) for target in question.targets})
        yield Step(action=StepAction(name="guess"), observation=StepObservation(), belief=belief)


@contextlib.asynccontextmanager
async def open_forecaster(settings, context):
    yield BinaryForecaster()


@hookimpl
def foxcast_forecasters():
    from bot.api import ForecasterSpec

    return [ForecasterSpec(name="glow", summary="Glows", settings=EmberSettings, open=open_forecaster)]


async def forget():"""
AUTHOR_TESTS = """
import socket

import pytest
from bot.testing.notifier_contract import NotifierContract
from bot.testing.venue_contracts import ClosingPlannerContract
from ember import EmberSettings, foxcast_notifiers


class TestNotifier(NotifierContract):
    spec = foxcast_notifiers()[0]
    settings = EmberSettings()

    def test_a_connection(self):
        socket.create_connection(("192.0.2.1", 80))


class TestSomebodyElse(NotifierContract):
    class spec:
        name = "other"


@pytest.mark.skip
class TestSkipped(ClosingPlannerContract):
    pass


def test_that_is_of_no_kit():
    raise AssertionError("not run")
"""


@pytest.mark.timeout(120)
def test_kits_of_the_author_are_run_and_the_others_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = 'NotifierSpec(name="ember", summary="Glows", settings=EmberSettings, open=open_ember)'
    path = write_plugin(tmp_path, NOTIFIER, hook="notifiers", spec=spec)
    (tmp_path / "test_ember.py").write_text(AUTHOR_TESTS)
    before = {one for one in tmp_path.rglob("*") if "__pycache__" not in one.parts}
    assert main(["--config", str(path), "plugins", "check", "ember"]) == ExitCode.FAILED
    shown = capfd.readouterr()
    assert shown.err == ""
    rows = {tuple(re.split(r"\s{2,}", line.strip())[:3]) for line in shown.out.splitlines()}
    assert {
        ("opened", "notifier ember", "notifier"),
        ("FAILED", "notifier ember", "NotifierContract"),
        # Nobody inherits the kit of commands, which needs nothing but the command.
        ("FAILED", "command glow", "CommandContract"),
        ("passed", "forecaster glow", "ForecasterContract"),
        ("not run", "plugin", "ClosingPlannerContract"),
    } <= rows
    # The other kits include that of the spec.
    assert "PluginSpecContract" not in shown.out
    assert "context.http raised ServiceUnavailableError and notify swallowed it" in shown.out
    assert "the parameter times has no annotation" in shown.out
    assert "test_ember.py::TestNotifier::test_a_connection: " in shown.out
    assert "on yes-or-no questions" in shown.out
    assert "all its tests were skipped" in shown.out
    assert "no connection to 192.0.2.1: kits run without the network" in shown.out
    assert "is_of_no_kit" not in shown.out
    assert "TestSomebodyElse" not in shown.out
    assert shown.out.splitlines()[-1] == "ember: 2 opened, 1 passed, 1 not run, 2 FAILED"
    assert {one for one in tmp_path.rglob("*") if "__pycache__" not in one.parts} == before
