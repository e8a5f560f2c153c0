"""What the data plugins offer together, as the registry finds it."""

from dataclasses import replace

import pytest

from bot.api import DataSpec, PluginSettings, SourcePolicy
from bot.forecasting.tools.time_series import SeriesReading
from bot.plugin_system.discovery import choose_plugin, discover_plugins

# Plugin -> the source of questions that it is for.
SERVED = {
    "acled": "acled",
    "dbnomics": "dbnomics",
    "fred": "fred",
    "manifold_prices": "manifold",
    "polymarket_prices": "polymarket",
    "wikipedia": "wikipedia",
    "yahoo": "yfinance",
}


def offered(name: str) -> DataSpec[PluginSettings]:
    module = choose_plugin(name, discover_plugins()).load()
    (spec,) = module.foxcast_data_sources()  # type: ignore[attr-defined] # found by name, as the registry does
    assert isinstance(spec, DataSpec)
    return spec


@pytest.mark.parametrize("name", ["acled", "dbnomics", "fred", "wikipedia", "yahoo"])
def test_a_source_of_templated_questions_says_how_to_judge_them(name: str) -> None:
    advice = offered(name).policy.advice
    assert 100 < len(advice) < 800
    assert advice.isascii()


@pytest.mark.parametrize("name", SERVED)
def test_a_plugin_offers_one_source_of_its_own_name_for_one_kind_of_question(name: str) -> None:
    assert offered(name).name == name
    assert offered(name).question_sources == {SERVED[name]}


def test_questions_are_worked_on_as_the_paper_says() -> None:
    """BLF, tables 5 and 6; market histories are there and never forced (they did not help there)."""
    policies = {name: replace(offered(name).policy, advice="") for name in SERVED}
    combined = SourcePolicy(first=SeriesReading.COMBO, searches=1)
    assert policies == {
        "acled": SourcePolicy(),
        "dbnomics": SourcePolicy(first=SeriesReading.MODEL, bypass=True, searches=0),
        "fred": combined,
        "manifold_prices": SourcePolicy(),
        "polymarket_prices": SourcePolicy(),
        "wikipedia": SourcePolicy(first="fetch_wikipedia_toc"),
        "yahoo": combined,
    }
