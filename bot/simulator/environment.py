"""A simulated world with all its servers.

News, models, and fake venues with the world's questions; the one place that points real plugins at them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.core.light_dataclass import dataclass
from bot.simulator.fake_service import FakeService, ServedService, serve_service
from bot.simulator.models.model_service import DEFAULT_MODEL, STRICT, SimulatedModelServer
from bot.simulator.venues.forecastbench_bridge import ForecastBenchBridge
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_bridge import ManifoldBridge
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.metaculus_bridge import MetaculusBridge
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_bridge import PolymarketBridge
from bot.simulator.venues.world_bridge import VenueBridge, WorldRunner
from bot.simulator.world.news_server import NewsServer
from bot.simulator.world.question_generation import (
    BENCHMARK,
    FORECASTING_CONTEST,
    PLAY_MONEY_MARKET,
    REAL_MONEY_MARKET,
    ROUNDS,
    RoundSchedule,
)
from bot.simulator.world.simulated_world import SimulatedWorld

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from bot.core.interfaces import Clock
    from bot.simulator.faults import FaultSchedule
    from bot.simulator.models.behaviour import ModelBehaviour
    from bot.simulator.venues.metaculus_state import FakeMetaculusUser
    from bot.simulator.venues.polymarket_state import FakePolymarketUser as Signer

# The bridge of each venue; the last one is files, and has no server.
VENUE_KINDS: Mapping[str, str] = {
    "manifold": PLAY_MONEY_MARKET,
    "metaculus": FORECASTING_CONTEST,
    "polymarket": REAL_MONEY_MARKET,
    "forecastbench": BENCHMARK,
}
VENUES = tuple(VENUE_KINDS)
# The credentials of the accounts at the fakes; they are valid nowhere else.
SECRETS: Mapping[str, str] = {
    "manifold.key": "c3b9a2d4-0e51-4d52-9f0a-6f4f0b1c7d21",
    "metaculus.token": "5f1d0b7e" * 5,
}
# Signs orders at the one venue that requires it, with a library that may not be installed.
SIGNING = {"polymarket.key": "0x" + "6d3a91c2e47b05f8" * 4}
# Venues where Foxcast can write without a library, and those where it pays for comments.
WRITABLE = ("manifold", "metaculus", "forecastbench")
SIGNED = ("polymarket",)
TRADING = ("manifold", "polymarket")
USERNAME, BALANCE, TOURNAMENT = "foxbot", 5_000.0, "sample-aib"
ENDPOINT = "simulation"
MODEL_NAME = f"openai_compatible:{ENDPOINT}/{DEFAULT_MODEL}"
ROUNDS_FOLDER, BUCKET_FOLDER = "rounds", "bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentLayout:
    """The setup of an environment: the world of a seed from a moment on, and its venues.

    ``folder`` gets the rounds of the benchmark and the secrets of the accounts; paths in the configuration begin with
    ``place``, which leads there from the configuration's own folder. Rounds begin at midnight, so ``start`` should.
    ``habits`` are those of the simulated model, ``faults`` the faults of each server, by its name. Accounts that trade
    begin with ``balance``. With ``has_signer`` there is also an account for signed orders, with a key and no API key
    yet, which needs the library for signing. ``rounds`` are those of the benchmark.
    """

    seed: int
    start: datetime
    folder: Path
    place: str = "."
    size: int = 300
    venues: tuple[str, ...] = VENUES
    habits: ModelBehaviour | None = None
    faults: Callable[[str], FaultSchedule | None] = lambda _: None
    keep: bool = False
    has_signer: bool = False
    balance: float = BALANCE
    rounds: RoundSchedule = ROUNDS


@dataclass(frozen=True, slots=True, kw_only=True)
class RealVenueTables:
    """How the same plugins are configured for the real venues: their tables, which of them need a key, and a model."""

    venues: Mapping[str, Mapping[str, Any]]
    with_key: tuple[str, ...]
    model: str


REAL_VENUES = RealVenueTables(
    venues={
        "manifold": {"settings": {"min_bettors": 20, "max_markets": 20}},
        "polymarket": {"settings": {"tags": ["politics"], "ends_within_d": 60, "max_pages": 1}},
        "forecastbench": {
            "settings": {
                "source": "https://raw.githubusercontent.com/forecastingresearch/forecastbench-datasets/main/datasets"
            }
        },
        "metaculus": {"settings": {"token_file": "metaculus.token", "tournaments": ["minibench"]}},
    },
    with_key=("metaculus",),
    model="""\
[llm.roles.main]
model = "litellm:gemini/gemini-3.1-pro-preview"

[llm.budget]
day_usd = 5.0
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedEnvironment:
    """The world and its servers: ``venues`` are the fakes by name, ``served`` says where each server is.

    ``manifold_account``, ``metaculus_account`` and ``polymarket_account`` are the accounts of Foxcast, where these
    venues exist. ``stalls.advance()`` applies the events since the last call, and must be called every few hours of the
    clock.
    """

    layout: EnvironmentLayout
    world: SimulatedWorld
    news_server: NewsServer
    model_server: SimulatedModelServer
    venues: Mapping[str, FakeService]
    served: Mapping[str, ServedService]
    world_runner: WorldRunner
    manifold_account: str = ""
    metaculus_account: FakeMetaculusUser | None = None
    polymarket_account: Signer | None = None
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def writable(self) -> tuple[str, ...]:
        """The venues at which the accounts can be used without any further library."""
        return tuple(
            name for name in self.layout.venues if name in WRITABLE or (self.layout.has_signer and name in SIGNED)
        )

    @property
    def trading(self) -> tuple[str, ...]:
        """The venues where forecasts are orders."""
        return tuple(name for name in self.layout.venues if name in TRADING)

    @property
    def real(self) -> RealVenueTables:
        """The same at the real venues."""
        return REAL_VENUES

    @property
    def request_count(self) -> int:
        """How many requests have arrived so far."""
        return sum(len(server.requests) for server in self.servers.values())

    @property
    def servers(self) -> Mapping[str, FakeService]:
        """All servers, by name."""
        return {"press": self.news_server, "mind": self.model_server, **self.venues}

    async def run_world(self, clock: Clock, every_s: float) -> None:
        """Let the world continue for ever, in steps of so many seconds."""
        while True:
            self.world_runner.advance()
            await clock.sleep(every_s)


@asynccontextmanager
async def open_environment(clock: Clock, layout: EnvironmentLayout) -> AsyncIterator[SimulatedEnvironment]:
    """Serve a world on free ports of 127.0.0.1 until the end; nothing has happened in it yet."""
    world = SimulatedWorld(seed=layout.seed, start=layout.start, size=layout.size, rounds=layout.rounds)
    news_server = NewsServer(clock, world, faults=layout.faults("press"))
    habits = None if layout.habits is None else {DEFAULT_MODEL: layout.habits}
    model_server = SimulatedModelServer(clock, habits, faults=layout.faults("mind"), strict=STRICT)
    model_server.keep = layout.keep
    venues = {name: _FAKE_VENUES[name](clock, layout.faults(name)) for name in layout.venues if name in _FAKE_VENUES}
    accounts = _open_accounts(venues, signs=layout.has_signer, balance=layout.balance)
    _write_secrets(layout.folder, {**SECRETS, **(SIGNING if layout.has_signer else {})})
    async with AsyncExitStack() as stack:
        servers: dict[str, FakeService] = {"press": news_server, "mind": model_server, **venues}
        served = {name: await stack.enter_async_context(serve_service(server)) for name, server in servers.items()}
        yield SimulatedEnvironment(
            layout=layout,
            world=world,
            news_server=news_server,
            model_server=model_server,
            venues=venues,
            served=served,
            world_runner=_open_bridges(world, clock, layout, venues),
            config=_config_tables(layout, served, accounts.get("polymarket_account")),
            **accounts,
        )


def to_toml(table: Mapping[str, Any]) -> str:
    """Return nested tables as TOML; values are texts, numbers, truth values and lists of them."""
    return "\n".join(_toml_lines(table, ())) + "\n"


_FAKE_VENUES: Mapping[str, Callable[[Clock, FaultSchedule | None], FakeService]] = {
    "manifold": lambda clock, faults: FakeManifold(clock, faults=faults),
    "metaculus": lambda clock, faults: FakeMetaculus(clock, production=True, faults=faults),
    "polymarket": lambda clock, faults: FakePolymarket(clock, faults=faults),
}


def _open_accounts(venues: Mapping[str, FakeService], *, signs: bool, balance: float) -> dict[str, Any]:
    accounts: dict[str, Any] = {}
    fair, contest = venues.get("manifold"), venues.get("metaculus")
    if isinstance(fair, FakeManifold):
        key = SECRETS["manifold.key"]
        accounts["manifold_account"] = fair.world.add_user(USERNAME, balance=balance, key=key, is_bot=True).id
    if isinstance(contest, FakeMetaculus):
        accounts["metaculus_account"] = contest.world.add_user(USERNAME, token=SECRETS["metaculus.token"])
    exchange = venues.get("polymarket")
    if isinstance(exchange, FakePolymarket) and signs:
        accounts["polymarket_account"] = exchange.world.add_user(SIGNING["polymarket.key"], cash=Decimal(str(balance)))
    return accounts


def _write_secrets(folder: Path, secrets: Mapping[str, str]) -> None:
    for name, secret in secrets.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secret, encoding="utf-8")


def _open_bridges(
    world: SimulatedWorld, clock: Clock, layout: EnvironmentLayout, venues: Mapping[str, FakeService]
) -> WorldRunner:
    bridges: dict[str, VenueBridge] = {}
    daily: list[Callable[[float], object]] = []
    for venue in venues.values():
        match venue:
            case FakeManifold():
                bridges[PLAY_MONEY_MARKET] = ManifoldBridge(world=world, venue=venue)
            case FakeMetaculus():
                bridges[FORECASTING_CONTEST] = MetaculusBridge(world=world, venue=venue)
            case FakePolymarket():
                bridges[REAL_MONEY_MARKET] = PolymarketBridge(world=world, venue=venue)
                # Due events on a chain happen whether somebody looks or not.
                daily.append(partial(_settle_polymarket, venue))
            case _:
                continue
    if "forecastbench" in layout.venues:
        benchmark_bridge = ForecastBenchBridge(world=world, folder=layout.folder / ROUNDS_FOLDER)
        for part in ("question_sets", "resolution_sets"):
            (benchmark_bridge.folder / part).mkdir(parents=True, exist_ok=True)
        (layout.folder / BUCKET_FOLDER).mkdir(exist_ok=True)
        bridges[BENCHMARK] = benchmark_bridge
        daily.append(benchmark_bridge.settle)
    return WorldRunner(world=world, clock=clock, bridges=bridges, daily_actions=daily)


def _settle_polymarket(venue: FakePolymarket, _: float) -> None:
    venue.world.exchange.process_due()


def _config_tables(
    layout: EnvironmentLayout, served: Mapping[str, ServedService], signer: Signer | None
) -> dict[str, Any]:
    """Return the tables that point plugins at the servers, without anything else that people decide."""
    news_url, model_url = served["press"].url, served["mind"].url
    settings = {name: _SETTINGS[name](layout.place, served.get(name)) for name in layout.venues}
    if signer is not None:
        key = f"{layout.place}/polymarket.key"
        settings["polymarket"] |= {"key_file": key, "wallet": signer.wallet, "attested": True}
    return {
        "plugins": [*layout.venues, "sandbox", "openai_compatible"],
        "venues": {name: {"settings": settings[name]} for name in layout.venues},
        "search": {"sandbox_news": {"settings": {"base_url": news_url}}},
        "data": {"sandbox_series": {"settings": {"base_url": news_url}}},
        "models": {"openai_compatible": {"settings": {"endpoints": {ENDPOINT: {"base_url": f"{model_url}/v1"}}}}},
        "llm": {"roles": {"main": {"model": MODEL_NAME, "max_tokens": 4_000}}, "models": {MODEL_NAME: {"free": True}}},
        "research": {"search": ["sandbox_news"]},
    }


def _manifold_settings(place: str, served: ServedService | None) -> dict[str, Any]:
    assert served is not None  # noqa: S101 - it was served with the others
    key = f"{place}/manifold.key"
    return {"base_url": served.url, "key_file": key, "username": USERNAME, "min_bettors": 0}


def _metaculus_settings(place: str, served: ServedService | None) -> dict[str, Any]:
    assert served is not None  # noqa: S101 - it was served with the others
    return {"base_url": served.url, "token_file": f"{place}/metaculus.token", "tournaments": [TOURNAMENT]}


def _polymarket_settings(_: str, served: ServedService | None) -> dict[str, Any]:
    assert served is not None  # noqa: S101 - it was served with the others
    return {
        "gamma_url": f"{served.url}/gamma",
        "clob_url": served.url,
        "data_url": f"{served.url}/data-api",
        "site_url": f"{served.url}/site",
        "socket_url": served.ws_url,
    }


def _forecastbench_settings(place: str, _: ServedService | None) -> dict[str, Any]:
    return {
        "source": f"{place}/{ROUNDS_FOLDER}",
        "upload_folder": f"{place}/{BUCKET_FOLDER}",
        "organization": "simulation",
    }


_SETTINGS: Mapping[str, Callable[[str, ServedService | None], dict[str, Any]]] = {
    "manifold": _manifold_settings,
    "metaculus": _metaculus_settings,
    "polymarket": _polymarket_settings,
    "forecastbench": _forecastbench_settings,
}


def _toml_lines(table: Mapping[str, Any], name: tuple[str, ...]) -> list[str]:
    lines = [
        f"{_toml_key(key)} = {_toml_value(value)}" for key, value in table.items() if not isinstance(value, Mapping)
    ]
    if name and lines:
        lines = ["", f"[{'.'.join(map(_toml_key, name))}]", *lines]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _toml_lines(value, (*name, key))
    return lines


def _toml_key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _toml_value(value: object) -> str:
    # Texts, numbers, truth values and lists of them are written as in JSON.
    return json.dumps(value, ensure_ascii=True)
