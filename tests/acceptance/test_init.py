"""`foxcast init`: a first configuration without knowing any setting, for every purpose and every provider."""

import json
import os
import pty
import select
import stat
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from bot.cli.first_config import list_choices, load_offered_plugins
from bot.config.loader import load_config
from bot.config.plugin_settings import load_plugin_settings
from bot.core.plugin_specs import PluginTableName
from bot.plugin_system.registry import load_registry
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from bot.testing.model_server import ReplyFunction, ScriptedModelServer
from tests.acceptance.command_server import COMMAND
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand
from tests.acceptance.scripted_installation import ScriptedInstallation, searching

VENUES = ["forecastbench", "kalshi", "manifold", "metaculus", "polymarket", "own"]
PROVIDERS = ["openrouter", "openai", "anthropic", "gemini", "local/small", "none"]
KEY_VARIABLES = ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def empty(tmp_path: Path) -> FoxcastInstallation:
    """An empty folder."""
    return FoxcastInstallation(tmp_path)


def leaves(table: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for key, value in table.items():
        found += leaves(value, (*path, key)) if isinstance(value, dict) else [((*path, key), value)]
    return found


def value_at(config: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        config = config[part] if isinstance(config, dict) else getattr(config, part)
    return config


def test_every_purpose_and_provider_is_offered() -> None:
    registry = load_offered_plugins()
    assert {*list_choices(registry, PluginTableName.VENUES), "own"} == {*VENUES}
    models = {name.partition("/")[0] for name in PROVIDERS}
    assert {*list_choices(registry, PluginTableName.MODELS), "none"} == models


@pytest.mark.parametrize(
    ("venue", "model"),
    [
        *((venue, "none") for venue in VENUES),
        *((venue, "openai") for venue in VENUES),
        *(("own", one) for one in PROVIDERS if one not in {"none", "openai"}),
    ],
)
def test_each_file_is_valid_and_has_only_what_differs(
    empty: FoxcastInstallation, run_command: InProcessCommand, venue: str, model: str
) -> None:
    done = run_command(empty, "init", "--venue", venue, "--model", model, "--yes", "--offline")
    keys = sorted(path.name for path in empty.folder.iterdir() if path.suffix in {".key", ".token"})
    assert done.code == (1 if keys else 0), done.err
    for name in keys:
        assert name in done.out
        assert stat.S_IMODE((empty.folder / name).stat().st_mode) == 0o600
        (empty.folder / name).write_text("0123456789abcdef0123456789abcdef01234567")
    config = load_config(empty.config)
    registry = load_registry(config)
    assert registry.broken == ()
    for spec in chain.from_iterable(map(registry.specs_of_table, PluginTableName)):
        fields = type(load_plugin_settings(spec, config)).model_fields
        written = config.plugin_table(spec.table, spec.name).settings
        for key in written.keys() & fields.keys():
            default = fields[key].default
            assert written[key] not in (default, [*default] if isinstance(default, tuple) else default)
    bare = type(config)()
    for path, value in leaves(tomllib.loads(empty.config.read_text())):
        if path[0] not in {"venues", "forecasters", "models"} and path[:2] not in {("llm", "roles"), ("llm", "models")}:
            assert value_at(bare, path) not in (value, tuple(value) if isinstance(value, list) else value)
    chosen = config.venues.get(venue)
    members = ["blend", "blf", "baseline"] if model != "none" else ["baseline"]
    assert chosen is None or [*chosen.forecasters] == members
    assert (venue == "own") == (chosen is None)


def test_nothing_is_overwritten_and_no_terminal_is_a_refusal(
    empty: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    refused = run_command(empty, "init")
    assert refused.is_refusal(2, "no terminal", "--yes")
    key = empty.folder / "openai.key"
    key.write_text("mine")
    assert run_command(empty, "init", "--venue", "own", "--model", "openai", "--yes", "--offline").code == 0
    text = empty.config.read_text()
    assert key.read_text() == "mine"
    again = run_command(empty, "init", "--venue", "own", "--model", "none", "--yes")
    assert again.is_refusal(2, "config.toml exists and is not overwritten")
    assert empty.config.read_text() == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--yes",), ("--yes needs --venue",)),
        (("--venue", "own", "--yes"), ("--yes needs --model",)),
        (("--venue", "manifould", "--model", "none", "--yes"), ("did you mean manifold",)),
        (("--venue", "own", "--model", "openroter/x", "--yes"), ("did you mean openrouter",)),
        (("--venue", "own", "--model", "local", "--yes"), ("local/NAME",)),
        (("--venue", "metaculus", "--model", "none", "--yes", "--set", "token=1"), ("no argument", "metaculus.token")),
        (("--venue", "manifold", "--model", "none", "--yes", "--set", "topic=1"), ("topics",)),
        (("--venue", "own", "--model", "local/a", "--yes", "--set", "address=x"), ("base_url", "http://")),
        (("--venue", "own", "--model", "local/a\x1b[2J", "--yes"), ("cannot be seen",)),
    ],
)
def test_a_wrong_answer_is_one_clear_line_and_writes_nothing(
    empty: FoxcastInstallation, run_command: InProcessCommand, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert run_command(empty, "init", *arguments).is_refusal(2, *words)
    assert [*empty.folder.iterdir()] == []


def test_a_key_in_the_environment_needs_no_file(empty: FoxcastInstallation, run_command: InProcessCommand) -> None:
    keyed = empty.with_environment(ANTHROPIC_API_KEY="sk-ant-0123456789")
    done = run_command(keyed, "init", "--venue", "own", "--model", "anthropic", "--yes", "--offline")
    assert (done.code, "ANTHROPIC_API_KEY" in done.out) == (0, True)
    assert "key" not in empty.config.read_text().partition("plugins = ")[2]


def test_two_commands_lead_to_the_first_scored_forecast(
    empty: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    done = run_command(empty, "init", "--venue", "forecastbench", "--model", "none", "--yes")
    assert done.code == 0, done.err
    assert "run --once" in done.out.partition("Next:")[2]
    passed = run_command(empty, "run", "--once")
    assert (passed.code, "Brier Index" in passed.out) == (0, True)
    assert "baseline" in run_command(empty, "score").out


def answer_list(name: str, play: ReplyFunction) -> Any:
    """Return a model server that also lists its one model."""
    model = ScriptedModelServer(play)

    def answer(asked: ReceivedRequest) -> ScriptedResponse:
        if asked.path == "/v1/models":
            return ScriptedResponse(body=json.dumps({"data": [{"id": name}]}).encode())
        return model._answer(asked)  # noqa: SLF001 - the same answers behind one more address

    return LoopbackServer(answer)


@pytest.mark.timeout(90)
async def test_a_local_model_is_checked_at_once_and_forecasts_a_question_of_your_own(tmp_path: Path) -> None:
    async with answer_list("small", searching(0, probability=0.7)) as server:
        foxcast = ScriptedInstallation(FoxcastInstallation(tmp_path), server)
        address = f"address={server.address}/v1"
        choices = ("--venue", "own", "--yes", "--set", address)
        done = await foxcast("init", *choices, "--model", "local/small", "--offline")
        assert done.code == 0, done.err
        checked = await foxcast("doctor", "--online", "--json")
        found = {one["check"]: one["verdict"] for one in checked.json}
        assert found["model openai_compatible:local/small"] == "ok"
        with foxcast.foxcast.config.open("a") as file:
            file.write("\n[forecasters.blf]\ntrials = 1\n")
        forecast = await foxcast("forecast", "question.toml", "--forecaster", "blf", "--json")
        assert forecast.code == 0, forecast.err
        await foxcast.end()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_person_answers_questions_and_the_key_is_not_shown(empty: FoxcastInstallation) -> None:
    answers = {
        b"Number or name [forecastbench]: ": "metaculus",
        b"Number or name [openrouter]: ": "anthropic",
        b"Name of the model [claude-opus-4-8]: ": "",
        b"minibench]: ": "minibench",
        # The last blank is printed once the terminal hides what is typed.
        b"bot account (site: Settings, My Forecasting Bots) (hidden; empty: later): ": "0123456789abcdef" * 2,
        b"API key of Anthropic (hidden; empty: later): ": "sk-ant-very-secret",
    }
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(empty.folder)
        os.execve(COMMAND, [str(COMMAND), "init", "--offline"], empty.environment)  # noqa: S606 - our own command
    shown = b""
    for prompt, answer in answers.items():
        shown += _read_until(terminal, prompt)
        os.write(terminal, f"{answer}\n".encode())
    shown += _read_until(terminal, b"run  ")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)
    assert b"very-secret" not in shown
    assert (empty.folder / "anthropic.key").read_text() == "sk-ant-very-secret\n"
    text = empty.config.read_text()
    assert "sk-ant" not in text
    assert 'tournaments = ["minibench"]' in text


def _read_until(terminal: int, text: bytes) -> bytes:
    shown = b""
    while text not in shown:
        readable, _, _ = select.select([terminal], [], [], 20)
        assert readable, shown
        shown += os.read(terminal, 4096)
    return shown
