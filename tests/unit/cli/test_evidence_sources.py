"""What a forecast could rest on: told out of the record alone, in words and as JSON."""

import io
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from bot.cli.explain import explanation_to_json, print_explanation
from bot.cli.output.console import SafeConsole
from bot.config.schema import Config
from bot.core.language_models import ModelCompletion, Prompt
from bot.core.research import SourcePolicy
from bot.evaluation.explanation import (
    EvidenceSources,
    ForecastExplanation,
    RecordedCalls,
    TrialSources,
    load_explanation,
    no_search_reasons,
)
from bot.forecasting.tool_factory import ToolFactory
from bot.forecasting.trial_memory import TrialOpening
from bot.store.ledger import ReadOnlyState
from bot.testing.clock import FakeClock
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import ForecastRunFixture, model_with_beliefs, move, open_forecast_runs, question

NOW = FakeClock().now()
REASONS = {
    "none enabled": (TrialOpening(bound=NOW), "no search engine was enabled"),
    "an earlier day": (TrialOpening(bound=NOW, backdated=True), "no search engine that can bound dates was enabled"),
    "the source": (TrialOpening(bound=NOW, policy=SourcePolicy(tools=("lookup_url",))), "worked on without it"),
    "no searches": (TrialOpening(bound=NOW, policy=SourcePolicy(searches=0)), "worked on without it"),
}


class Blind(ForecastRunFixture):
    """Has no search engine."""

    def make_tool_factory(self, *, sealed: bool = False) -> ToolFactory:
        return replace(ForecastRunFixture.make_tool_factory(self, sealed=sealed), search_engines=[])


def citing(source: str) -> Callable[[Prompt], ModelCompletion]:
    """Return a model that searches once and then submits for a reason of that source."""

    def answer(prompt: Prompt) -> ModelCompletion:
        belief: dict[str, Any] = {"probability": 0.3, "confidence": "low", "update_reasoning": "so it is"}
        if not any(message.speaker == "assistant" for message in prompt.messages):
            return move("web_search", {"query": "weather"}, belief)
        belief["evidence_for"] = [{"text": "clouds", "source": source}]
        return move("submit", {"probability": 0.3, "reasoning": "all in all"}, belief)

    return answer


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(
        tmp_path, ScriptedModelProvider(turns=[model_with_beliefs(0.3, 0.7)])
    ) as forecast_runs:
        yield forecast_runs


async def explained(forecast_runs: ForecastRunFixture, source: str) -> ForecastExplanation:
    forecast_runs.llm.turns = [citing(source)]
    forecast = await forecast_runs.forecast(question(), trials=1)
    records = ReadOnlyState(config=Config(), folder=forecast_runs.path.parent, ledger=forecast_runs.ledger)
    return await load_explanation(records, forecast.id)


def printed(found: ForecastExplanation) -> str:
    console = SafeConsole(file=io.StringIO(), width=1000, markup=False, highlight=False)
    print_explanation(console, found, full=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("source", "remark"),
    [
        ("search_1_result_9", "[search_1_result_9] (no such source)"),
        ("search_1_result_2, search_7_result_1", "(no such source: search_7_result_1)"),
        ("page_0123abcd", "[page_0123abcd] (no such source)"),
    ],
)
async def test_a_source_that_the_trial_was_never_told_of_is_marked(
    forecast_runs: ForecastRunFixture, source: str, remark: str
) -> None:
    found = await explained(forecast_runs, source)
    assert remark in printed(found)
    assert explanation_to_json(found)["trials"][0]["steps"][-1]["no_such_sources"] == [source]


@pytest.mark.parametrize("source", ["search_1_result_2", "the text of the question", "https://news.example/2"])
async def test_a_source_that_is_on_record_or_has_no_name_of_the_desk_is_not_marked(
    forecast_runs: ForecastRunFixture, source: str
) -> None:
    found = await explained(forecast_runs, source)
    assert "no such source" not in printed(found)
    assert explanation_to_json(found)["trials"][0]["steps"][-1]["no_such_sources"] == []


def test_a_page_that_was_read_is_a_source_of_its_trial_alone() -> None:
    sources = EvidenceSources(
        chain=RecordedCalls(), trial_sources={1: TrialSources(pages=frozenset({"page_0123abcd"}))}
    )
    assert sources.unknown_sources(1, "page_0123abcd") == ()
    assert sources.unknown_sources(2, "page_0123abcd") == ("page_0123abcd",)


async def test_a_forecast_that_could_search_says_nothing_of_it(forecast_runs: ForecastRunFixture) -> None:
    found = await explained(forecast_runs, "search_1_result_2")
    assert "not offered" not in printed(found)
    assert [trial["no_search"] for trial in explanation_to_json(found)["trials"]] == [None]


async def test_a_forecast_without_an_engine_says_so(forecast_runs: ForecastRunFixture) -> None:
    forecast_runs.llm.turns = [model_with_beliefs(0.3)]
    blind = Blind(**{one.name: getattr(forecast_runs, one.name) for one in fields(ForecastRunFixture)})
    forecast = await blind.forecast(question(), trials=2)
    records = ReadOnlyState(config=Config(), folder=forecast_runs.path.parent, ledger=forecast_runs.ledger)
    found = await load_explanation(records, forecast.id)
    assert printed(found).count("web_search: not offered, no search engine was enabled") == 1
    assert {trial["no_search"] for trial in explanation_to_json(found)["trials"]} == {
        "web_search: not offered, no search engine was enabled"
    }


@pytest.mark.parametrize("name", [*REASONS])
def test_why_there_was_no_search_is_told(name: str) -> None:
    opening, words = REASONS[name]
    (line,) = no_search_reasons({1: TrialSources(opening=opening), 2: TrialSources(opening=opening)})
    assert line.startswith("web_search: not offered")
    assert words in line
    assert "trial" not in line


def test_the_trials_are_named_where_others_could_search() -> None:
    opening, _ = REASONS["none enabled"]
    (line,) = no_search_reasons({1: TrialSources(), 2: TrialSources(opening=opening)})
    assert line.endswith("(trial 2)")


def test_where_a_tool_alone_answers_nothing_is_said_of_searches() -> None:
    bypass = TrialOpening(bound=NOW, policy=SourcePolicy(tools=("series_combo",), first="series_combo", bypass=True))
    assert no_search_reasons({1: TrialSources(opening=bypass), 2: TrialSources()}) == []
