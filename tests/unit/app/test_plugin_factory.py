"""What config names is opened, and what it forgets is said before anything is asked."""

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.app.app import open_app, open_backtest_forecaster
from bot.app.forecaster_requirements import missing_roles, search_unavailable_reason, unknown_tools
from bot.app.plugin_factory import PluginFactory, blocked_hosts
from bot.config.loader import load_config
from bot.config.schema import ResearchSection
from bot.core.clock import SeededRandom
from bot.core.errors import ConfigError
from bot.core.plugin_specs import SearchSpec
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.tool_factory import ConfiguredSearchEngine
from bot.forecasting.tool_factory import list_tool_names as names_of_tools
from bot.plugin_system.registry import SpecCollection, load_registry
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.research import ScriptedSearchEngine
from tests.blank_ledger import open_blank_ledger

MODELS = """
plugins = [
  "fake_reader_venue", "blf", "openai_compatible", "searxng", "google_news", "wikipedia", "dbnomics", "forecastbench",
]
plugin_files = ["{harbour}"]

[venues.harbour]
forecasters = ["blf"]
[venues.forecastbench]
mode = "off"
forecasters = ["blf"]
[models.openai_compatible.settings.endpoints.local]
base_url = "http://127.0.0.1:1/v1"
[llm.roles.main]
model = "openai_compatible:local/small"
[llm.models."openai_compatible:local/small"]
free = true
[search.searxng.settings]
base_url = "http://127.0.0.1:1"
"""


def outfitter(folder: Path, stack: AsyncExitStack, text: str = "", models: str = MODELS) -> PluginFactory:
    file = folder / "config.toml"
    file.write_text(models.format(harbour=Path(__file__).parents[1] / "fake_reader_venue.py") + text)
    config = load_config(file, {})
    return PluginFactory(
        config=config,
        registry=load_registry(config),
        clock=FakeClock(),
        random=SeededRandom(1),
        http=FakeHttpClient({}),
        folder=folder,
        stack=stack,
    )


async def silent(subject: str, text: str) -> None:
    raise AssertionError(subject)


async def test_the_workshop_holds_what_is_enabled(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack)
        ledger = await stack.enter_async_context(open_blank_ledger(tmp_path / "l.sqlite", now=outfit.clock.now()))
        gateway = await outfit.open_model_gateway(ledger, silent)
        factory = await outfit.open_tool_factory(ledger, gateway)
        assert [engine.name for engine in factory.search_engines] == ["searxng", "google_news"]
        assert (list(factory.data_sources), list(factory.page_sources)) == (["dbnomics"], ["wikipedia"])
        assert factory.models is gateway


async def test_config_orders_the_search_engines_and_may_leave_some_out(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack, '[research]\nsearch = ["google_news"]\n')
        ledger = await stack.enter_async_context(open_blank_ledger(tmp_path / "l.sqlite", now=outfit.clock.now()))
        factory = await outfit.open_tool_factory(ledger, await outfit.open_model_gateway(ledger, silent))
        assert [engine.name for engine in factory.search_engines] == ["google_news"]


async def test_a_search_engine_that_is_not_there_is_named_before_anything_is_opened(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(
            ConfigError, match=r"research\.search\[0\]: no enabled .* engine; did you mean google_news\?"
        ):
            outfitter(tmp_path, stack, '[research]\nsearch = ["gogle_news"]\n')
        with pytest.raises(
            ConfigError, match=r"research\.search\[0\]: the plugin brave is not enabled; add it to plugins"
        ):
            outfitter(tmp_path, stack, '[research]\nsearch = ["brave"]\n')


async def test_a_search_engine_that_is_not_there_is_named_while_a_plugin_is_broken(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack)
        context = outfit.config.research.model_copy(update={"search": ("gogle_news",)})
        outfit = replace(outfit, config=outfit.config.model_copy(update={"research": context}))
        ledger = await stack.enter_async_context(open_blank_ledger(tmp_path / "l.sqlite", now=outfit.clock.now()))
        gateway = await outfit.open_model_gateway(ledger, silent)
        with pytest.raises(
            ConfigError, match=r"research\.search: no enabled plugin offers gogle_news; enabled: searxng"
        ):
            await outfit.open_tool_factory(ledger, gateway)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            'tools = ["lookup_url", "web_serch"]',
            r"research\.sources\.fred\.tools\[1\]: there is no tool web_serch; did you",
        ),
        ('first = "series_histroy"', r"research\.sources\.fred\.first: .* did you mean series_history"),
        ('first = "fetch_wikipeda_toc"', "did you mean fetch_wikipedia_toc"),
    ],
)
async def test_a_tool_that_no_trial_could_be_offered_is_refused_at_the_start(
    tmp_path: Path, line: str, told: str
) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack, f"[research.sources.fred]\n{line}\n")
    with pytest.raises(ConfigError, match=told):
        async with open_app(outfit.config, outfit.registry, clock=FakeClock()):
            pass


async def test_every_tool_that_there_is_may_be_named(tmp_path: Path) -> None:
    names = sorted(names_of_tools(["wikipedia"]))
    assert {"web_search", "fetch_wikipedia_section", "market_history"} < {*names}
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack, f"[research.sources.fred]\ntools = {json.dumps(names)}\n")
    assert [*unknown_tools(outfit.config, outfit.registry)] == []


@pytest.mark.parametrize("bare", [True, False])
async def test_that_nothing_can_be_searched_is_said_once_at_the_start(tmp_path: Path, *, bare: bool) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack)
    registry = replace(outfit.registry, search_engines=SpecCollection(SearchSpec, ())) if bare else outfit.registry
    with capture_logs() as logs:
        async with open_backtest_forecaster(outfit.config, registry, "blf", clock=FakeClock()):
            pass
    said = [entry["why"] for entry in logs if entry["event"] == "forecasters cannot search the web"]
    assert [why.partition(";")[0] for why in said] == [
        "no search engine is enabled, so web_search is not offered"
    ] * bare


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        # A prompt of 20,000 tokens at 1 dollar a million, and an answer of 8,000 at 10: 0.10 dollars, five times over.
        ("question_usd = 0.50", ()),
        ("question_usd = 0.25", ("up to 0.100 US dollars", "lets 2 of 5 trials ask", "raise it to 0.50")),
        ("question_usd = 0.09", ("lets 0 of 5 trials ask", "raise it to 0.50")),
    ],
)
async def test_a_budget_without_room_for_all_trials_at_once_is_said_at_the_start(
    tmp_path: Path, budget: str, said: tuple[str, ...]
) -> None:
    priced = MODELS.replace("free = true", "price_in = 1.0\nprice_out = 10.0")
    priced = priced.replace("[llm.roles.main]", "[llm.roles.main]\nmax_tokens = 8000")
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack, f"[llm.budget]\n{budget}\n", priced)
    with capture_logs() as logs:
        async with open_backtest_forecaster(outfit.config, outfit.registry, "blf", clock=FakeClock()):
            pass
    told = [entry["why"] for entry in logs if entry["event"] == "trials wait for each other's budget"]
    assert len(told) == bool(said)
    assert all(part in told[0] for part in said)


async def test_the_daemon_asks_for_no_price_before_something_is_due(tmp_path: Path) -> None:
    priced = MODELS.replace("free = true", "price_in = 1.0\nprice_out = 10.0")
    outfit = outfitter(tmp_path, AsyncExitStack(), "[llm.budget]\nquestion_usd = 0.01\n", priced)
    with capture_logs() as logs:
        async with open_app(outfit.config, outfit.registry, clock=FakeClock()) as opened:
            assert not [entry for entry in logs if entry["event"] == "trials wait for each other's budget"]
            await opened.cost_check.forecasters_on_hold(opened.forecasters, {"blf": 1}, now=opened.clock.now())
    [told] = [entry["why"] for entry in logs if entry["event"] == "trials wait for each other's budget"]
    assert "lets 0 of 5 trials ask at once" in told


async def test_a_role_that_nobody_asks_is_said_at_the_start(tmp_path: Path) -> None:
    odd = '[llm.roles.mayn]\nmodel = "openai_compatible:local/small"\n'
    outfit = outfitter(tmp_path, AsyncExitStack(), odd)
    with capture_logs() as logs:
        async with open_app(outfit.config, outfit.registry, clock=FakeClock()):
            pass
    [told] = [entry["why"] for entry in logs if entry["event"] == "a role that no forecaster uses"]
    assert "[llm.roles.mayn]" in told
    assert "did you mean main?" in told


async def test_what_costs_nothing_or_has_no_limit_needs_no_room(tmp_path: Path) -> None:
    free = outfitter(tmp_path, AsyncExitStack(), "[llm.budget]\nquestion_usd = 0.01\n")
    with capture_logs() as logs:
        async with open_app(free.config, free.registry, clock=FakeClock()):
            pass
    assert not [entry for entry in logs if entry["event"] == "trials wait for each other's budget"]


def test_questions_of_earlier_days_need_an_engine_that_bounds_dates(tmp_path: Path) -> None:
    class House:
        section = ResearchSection()
        search_engines = (ConfiguredSearchEngine(name="nosy", engine=ScriptedSearchEngine()),)

    house: Any = House()
    assert search_unavailable_reason(house, backdated=False) is None
    assert search_unavailable_reason(house, backdated=True) == (
        "none of the enabled search engines (nosy) can restrict results to pages from before a date, so web_search is "
        "not "
        "offered; enable one that can (foxcast plugins lists them)"
    )


async def test_a_seat_is_as_the_forecaster_says_unless_config_says_otherwise(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(
            tmp_path, stack, '[forecasters.seer]\nuses = "blf"\ntrials = 2\nclairvoyant = true\naggregate = "shrink"\n'
        )
        blf, seer = [await outfit.open_forecaster(name) for name in ("blf", "seer")]
    assert (blf.trials, blf.uses_models, blf.clairvoyant) == (5, True, False)
    assert (seer.trials, seer.uses_models, seer.clairvoyant, seer.pool) == (2, True, True, "shrink")


async def test_a_forecaster_without_a_model_for_its_role_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    harbour = Path(__file__).parents[1] / "fake_reader_venue.py"
    file.write_text(
        f'plugins = ["fake_reader_venue", "blf"]\nplugin_files = ["{harbour}"]\n[venues.harbour]\nforecasters = ["blf"]'
    )
    config = load_config(file, {})
    registry = load_registry(config)
    assert missing_roles(config, registry.forecasters["blf"]) is not None
    with pytest.raises(
        ConfigError, match=r"blf needs a model in the role main; add to config\.toml: \[llm\.roles\.main\]"
    ):
        async with open_app(config, registry, clock=FakeClock()):
            pass


async def test_the_forecasts_of_a_clairvoyant_one_cannot_be_those_that_leave(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack, "[forecasters.blf]\nclairvoyant = true\n")
    with pytest.raises(ConfigError, match=r"venues\.harbour\.forecasters\[0\]: blf is clairvoyant"):
        async with open_app(outfit.config, outfit.registry, clock=FakeClock()):
            pass


async def test_a_backtest_with_models_has_a_ledger_of_its_own(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack)
    async with open_backtest_forecaster(outfit.config, outfit.registry, "blf", clock=FakeClock()) as backtest:
        assert isinstance(backtest.forecaster, ConfiguredForecaster)
        assert backtest.gateway is not None
    assert (tmp_path / "state" / "lab" / "ledger.sqlite").is_file()
    async with open_backtest_forecaster(outfit.config, outfit.registry, "keeper", clock=FakeClock()) as backtest:
        assert (backtest.tool_factory, backtest.gateway) == (None, None)


async def test_hosts_that_give_answers_away_are_known_also_of_venues_that_are_off(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        hosts = blocked_hosts(outfitter(tmp_path, stack).registry)
    assert {"polymarket.com", "manifold.markets", "metaculus.com", "kalshi.com"} <= hosts
    assert not any(host.startswith("#") or host != host.strip() or not host for host in hosts)


async def test_a_forecaster_with_fewer_steps_than_it_needs_is_warned_of_once_at_start(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        outfit = outfitter(tmp_path, stack, "[forecasters.blf]\nsteps = 3\n")
        with capture_logs() as logs:
            configured_forecasters = await outfit.open_forecasters(["blf", "blf"])
    [told] = [entry for entry in logs if entry["event"] == "config gives a forecaster less than it needs"]
    assert told["why"].startswith("[forecasters.blf] steps = 3 is less than the 10 that a trial of blf takes at most")
    assert configured_forecasters["blf"].limits.steps == 3
