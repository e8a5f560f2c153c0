"""What a replay says of itself, and that it loads no more than the forecaster."""

import io
from dataclasses import replace
from typing import Any

import pytest

from bot.cli.output.console import SafeConsole
from bot.cli.replay import explain_difference, load_forecaster_registry, print_replay, replay_to_json
from bot.config.schema import Config
from bot.core.predictions import BinaryPrediction
from bot.evaluation.replay import ReplayDiscrepancy, ReplayedTrial, ReplayResult
from bot.store.forecasts import ForecastTrace
from tests.unit.forecast_run_fixture import question

TRACE = ForecastTrace(id="f" * 24, state="done", detail="", forecast=None, question=question(), trials=())


def replayed(discrepancy: ReplayDiscrepancy | None = None, aggregate: ReplayDiscrepancy | None = None) -> ReplayResult:
    trial = ReplayedTrial(number=1, recorded=3, replayed=3, discrepancy=discrepancy)
    return ReplayResult(trials=(trial,), raw={"outcome": BinaryPrediction(0.7)}, aggregate=aggregate)


def found(part: str, **more: Any) -> ReplayDiscrepancy:
    given: dict[str, Any] = {"step": 2, "recorded": "before", "replayed": "after", **more}
    return ReplayDiscrepancy(part=part, **given)


def printed(again: ReplayResult) -> str:
    console = SafeConsole(file=io.StringIO(), width=400, markup=False, highlight=False)
    print_replay(console, TRACE, again)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_is_identical_says_so() -> None:
    said = printed(replayed())
    assert "identical (1 trial, 3 steps replayed)" in said
    assert "not identical" not in said
    assert "aggregate: 70.0%, as recorded" in said
    assert (explain_difference(replayed()), replay_to_json(TRACE, replayed())["identical"]) == (None, True)


@pytest.mark.parametrize(
    ("again", "says"),
    [
        (
            replayed(found("steps", missing="this call to a model is not on record")),
            "a request of now is not in the record",
        ),
        (replayed(found("observation.documents.1")), "prompts"),
        (replayed(found("belief.reason")), "acts differently on the same record"),
        (replayed(aggregate=found("outcome.probability", step=None)), "aggregate in"),
    ],
)
def test_a_difference_says_what_changed(again: ReplayResult, says: str) -> None:
    assert not again.is_identical
    assert says in printed(again)
    assert says in replay_to_json(TRACE, again)["meaning"]


@pytest.mark.parametrize("part", ["steps", "observation.documents.1", "belief.reason"])
def test_another_version_is_named_as_a_cause(part: str) -> None:
    assert "another version of Foxcast" in printed(replayed(found(part)))
    assert "another version of Foxcast" in printed(replayed(found(part, missing="not on record")))


def test_where_no_step_could_be_made_again_there_is_no_aggregate_to_compare() -> None:
    nothing = found("", step=None, recorded={"outcome": 0.7}, replayed=None)
    again = replace(replayed(found("seed", missing="not on record"), nothing), raw=None)
    said = printed(again)
    assert "aggregate: none, because no step could be replayed" in said
    assert "now:       nothing" not in said


def test_long_texts_are_shown_where_they_begin_to_differ() -> None:
    shared = "word " * 200
    said = printed(replayed(found("observation.text", recorded=f"{shared} old", replayed=f"{shared} new")))
    assert "recorded: ... " in said
    assert all(word in said for word in ("old", "new"))
    assert len(said) < 800


def test_only_the_plugin_of_the_forecaster_is_loaded() -> None:
    config = Config.model_validate(
        {
            "plugins": ["forecastbench", "blf", "baseline"],
            "forecasters": {"brief": {"uses": "blf"}},
            "venues": {"forecastbench": {"forecasters": ["blf"]}},
        }
    )
    for name in ("blf", "brief"):
        registry = load_forecaster_registry(config, name)
        assert [plugin.name for plugin in registry.enabled] == ["blf"]
        assert name in registry.forecasters


def test_a_forecaster_of_a_plugin_of_another_name_is_found_among_all() -> None:
    config = Config.model_validate({"plugins": ["forecastbench", "blf"], "forecasters": {"brief": {"uses": "blf"}}})
    registry = load_forecaster_registry(config, "somebody")
    assert "somebody" not in registry.forecasters
    assert len(registry.enabled) == 2
