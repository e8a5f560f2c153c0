"""``foxcast team``: what is on record of teams, as text and as a table, through the real entry point."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from bot.cli.main import main
from bot.core.beliefs import Belief, ModelUsage, Step, StepAction, StepObservation
from bot.core.errors import ConfigError
from bot.core.language_models import ModelAnswer, ModelCompletion
from bot.core.predictions import BinaryPrediction
from bot.core.values import Json
from bot.evaluation.explanation import ForecastExplanation, RecordedCalls, RecordedModelCall
from plugins.team.commands import require_team_forecast, team_kind_table
from tests.recorded_explanations import recorded_explanation

TROUPE = """
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from bot.api import SearchResult, ModelSpec, TokenPrice, SearchSpec, PluginSettings, hookimpl
from tests.plugins.team.cases import ScriptedMember, fact, told

def facts(prompt):
    came = told(prompt).partition("The result:")[2]
    found = [name for name in ("search_1_result_1", "search_2_result_1") if name in came]
    return [fact("clouds\\x1b[2J gather", found[0], "status")] if found else []

class Troupe:
    def __init__(self):
        message = lambda _: "Clouds gather, look at it"
        self.player = ScriptedMember(facts=facts, message=message, picks=("send", "search"))
    async def price(self, model):
        return TokenPrice(tokens_in=1.0, tokens_cached=0.1, tokens_out=4.0)
    async def complete(self, model, prompt, sampling):
        return self.player(prompt)

class Shelf:
    async def search(self, query, *, before, limit):
        at = datetime(2026, 1, 2, tzinfo=UTC)
        return [SearchResult(url="https://almanac.example/rain", title="Rain", snippet=f"of {query}", published_at=at)]

@asynccontextmanager
async def open_troupe(settings, workplace):
    yield Troupe()

@asynccontextmanager
async def open_shelf(settings, workplace):
    yield Shelf()

@hookimpl
def foxcast_models():
    return [ModelSpec(name="troupe", summary="Plays all members", settings=PluginSettings, open=open_troupe)]

@hookimpl
def foxcast_search_engines():
    return [SearchSpec(name="shelf", summary="One page", bounds_dates=True, settings=PluginSettings, open=open_shelf)]
"""
CONFIG = """
plugins = ["team", "troupe", "society", "orchestra"]
plugin_files = ["troupe.py"]
[llm.roles.main]
model = "troupe:player"
[forecasters.team.settings]
members = 2
steps = 3
[forecasters.pair]
uses = "team"
[forecasters.pair.settings]
members = 2
steps = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("FOXCAST_")]:
        monkeypatch.delenv(name)
    # Named, so that its plugin files need no trust.
    monkeypatch.setenv("FOXCAST_CONFIG", "config.toml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text(CONFIG)
    (tmp_path / "troupe.py").write_text(TROUPE)
    (tmp_path / "q.toml").write_text('title = "Will it rain in Paris?"\nkey = "rain"\n')
    return tmp_path


def test_what_a_team_did_is_told_with_its_efficiency(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "q.toml", "--forecaster", "team", "--yes", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    number = made["forecast"]["id"]
    assert main(["transcript", number]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "Will it rain in Paris?"
    assert any(line.startswith("-- 1. Ada: web_search(query=") for line in lines)
    assert any("send_message" in line for line in lines)
    assert "! sub-goal status settled by Ada (1 of 6)" in shown
    assert ["sub-goals", "settled", "1", "of", "6"] in [line.split() for line in lines]
    assert "\x1b" not in shown
    assert main(["team", number, number]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split()[:3] == ["forecast", "efficiency", "settled"]
    assert rows[0].split()[-2:] == ["Brier", "question"]
    assert len(rows) == 6
    assert rows[1] == rows[2]
    # The same forecast twice is one trial of a team of two.
    assert rows[4].split() == ["members", "trials", "efficiency", "steps", "models"]
    assert rows[5].split() == ["2", "1", "0.17", "6.0", "troupe:player"]
    assert rows[1].split()[1:5] == ["0.17", "1/6", "6", "1"]
    assert main(["team", "abcdef012345"]) != 0
    assert "abcdef012345" in capsys.readouterr().err
    structlog.reset_defaults()


def test_a_forecast_of_another_kind_is_refused_and_a_variant_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["forecast", "q.toml", "--forecaster", "pair", "--yes", "--json"]) == 0
    pair = json.loads(capsys.readouterr().out)["forecast"]["id"]
    assert main(["team", pair]) == 0
    assert pair[:12] in capsys.readouterr().out
    assert main(["transcript", pair]) == 0
    assert "Ada" in capsys.readouterr().out
    assert main(["court", "score", pair]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert f"{pair[:12]} is by pair, not by a court" in told.err
    structlog.reset_defaults()


def test_the_share_of_sub_goals_is_a_mean_over_trials_by_size_and_mix() -> None:
    def step(agent: str, **arguments: Json) -> Step:
        action = StepAction(name="wait", arguments={"agent": agent, **arguments})
        belief = Belief(predictions={"outcome": BinaryPrediction(0.5)})
        return Step(action=action, observation=StepObservation(), belief=belief)

    def call(trial: int, role: str, model: str) -> RecordedModelCall:
        answer = ModelAnswer(completion=ModelCompletion(text="so"), usage=ModelUsage(), model=model, document="d")
        return RecordedModelCall(trial=trial, exchange_digest="d", answer=answer, role=role)

    alone = [step("Ada", settled=["a", "b"]), step("Ada", goals=4)]
    nothing = [step("Ada"), step("Ada", goals=4)]
    unfinished = [step("Ada", settled=["a"])]
    pair = [step("Ada", settled=["a"]), step("Boris", settled=["b", "c"]), step("Ada", goals=4)]
    first = recorded_explanation(alone, nothing, unfinished, identity="aa")
    first = replace(first, chain=RecordedCalls(calls=(call(1, "team_1", "x:a"), call(1, "filter", "x:f"))))
    second = recorded_explanation(pair, identity="bb")
    second = replace(second, chain=RecordedCalls(calls=(call(1, "team_1", "x:b"), call(1, "team_2", "x:a"))))
    _, *rows = [line.split() for line in team_kind_table([first, second])]
    assert rows == [["1", "2", "0.25", "2.0", "x:a"], ["2", "1", "0.75", "3.0", "x:a,", "x:b"]]


def test_of_a_forecast_without_settings_on_record_the_steps_tell_whose_it_is() -> None:
    def record(*arguments: dict[str, str]) -> ForecastExplanation:
        belief = Belief(predictions={"outcome": BinaryPrediction(0.5)})
        steps = [
            Step(
                action=StepAction(name="web_search", arguments=dict(one)), observation=StepObservation(), belief=belief
            )
            for one in arguments
        ]
        return recorded_explanation(steps, identity="5dc2aa00bb11cc22")

    team = record({"agent": "Ada", "query": "rain"}, {"agent": "Boris"})
    assert require_team_forecast(team) is team
    with pytest.raises(ConfigError, match=r"^5dc2aa00bb11 is by another forecaster, not by a team$"):
        require_team_forecast(record({"agent": "scout"}, {"query": "rain"}))
