"""``foxcast transcript`` of an orchestra: what is on record of one, through the real entry point."""

import json
import os
from pathlib import Path

import pytest
import structlog

from bot.cli.main import main
from plugins.orchestra.transcript import orchestra_transcript
from tests.plugins.orchestra.cases import make, move, question, report, run, scripted_context, steps_of, submit

PIT = """
from contextlib import asynccontextmanager
from bot.api import ModelSpec, TokenPrice, PluginSettings, hookimpl
from tests.plugins.orchestra.test_plugin import played

class Pit:
    async def price(self, model):
        return TokenPrice(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)
    async def complete(self, model, prompt, sampling):
        return played(prompt)

@asynccontextmanager
async def open_pit(settings, workplace):
    yield Pit()

@hookimpl
def foxcast_models():
    return [ModelSpec(name="pit", summary="Plays everybody", settings=PluginSettings, open=open_pit)]
"""
CONFIG = """
plugins = ["orchestra", "pit", "team"]
plugin_files = ["pit.py"]
[limits]
steps = 100
[llm.roles.main]
model = "pit:player"
[llm.roles.researcher]
model = "pit:other"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("FOXCAST_")]:
        monkeypatch.delenv(name)
    # Named, so that its plugin files need no trust.
    monkeypatch.setenv("FOXCAST_CONFIG", "config.toml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "pit.py").write_text(PIT)
    (tmp_path / "q.toml").write_text('title = "Will it rain\\u001b[2J in Paris?"\nkey = "rain"\n')
    return tmp_path


def test_what_an_orchestra_did_is_shown_move_by_move_with_its_report(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", "q.toml", "--forecaster", "orchestra", "--yes", "--json"]) == 0
    told = capsys.readouterr()
    assert "nobody asks" not in told.err
    number = json.loads(told.out)["forecast"]["id"]
    assert main(["transcript", number]) == 0
    shown = capsys.readouterr().out
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[0].startswith("Will it rain")
    assert any(line.startswith("-- 3. ann: web_search(query=") for line in lines)
    assert any(line.startswith("! ann reported after 3 of 8 steps") for line in lines)
    assert "Run report" in lines
    assert any(
        line.startswith("subagents made 2, 6 at one time; at once 2 of 3; their steps 6 of 40") for line in lines
    )
    assert "\x1b" not in shown
    assert main(["transcript", number, "--full"]) == 0
    assert "submitted 0.8" in capsys.readouterr().out.splitlines()
    assert main(["team", number]) == 2
    assert f"{number[:12]} is by orchestra, not by a team" in capsys.readouterr().err
    assert main(["orchestra", number]) == 2
    assert "foxcast orchestra is now foxcast transcript" in capsys.readouterr().err
    structlog.reset_defaults()


async def test_an_action_is_attributed_to_who_made_it_and_not_to_an_agent_that_it_names() -> None:
    by_agent = move("shared_memory", {"operation": "by_agent", "agent": "bob"})
    others = {"ann": [by_agent, report()]}
    steps, _ = await steps_of(question(), scripted_context(make("ann"), by_agent, run("ann"), submit(), others=others))
    entries = orchestra_transcript(steps).entries
    assert [entry.speaker for entry in entries] == ["orchestrator"] * 2 + ["ann"] * 2 + ["orchestrator"] * 2
    assert [entry.title for entry in entries[1:3]] == [
        '2. orchestrator: shared_memory(operation="by_agent", agent="bob")',
        '3. ann: shared_memory(operation="by_agent", agent="bob")',
    ]
