"""A simulated world with all its servers: press, mind, and doubles of the venues with its questions on them.

This is the one place that knows how the real plugins are pointed at the doubles. ``open_stand`` serves them on the
loop it runs in: on real sockets of this machine, or on those of ``bot.testing.network``. ``Stand.config`` is what a
configuration says of all this, to be added to and written with ``toml``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.testing.venues.kit import FakeVenue, Served, serve
from bot.testing.venues.manifold import FakeManifold
from bot.testing.venues.metaculus import FakeMetaculus
from bot.testing.venues.polymarket import FakePolymarket
from bot.testing.venues.stalls import Stall, Stalls
from bot.testing.venues.stalls_forecastbench import ForecastBenchStall
from bot.testing.venues.stalls_manifold import ManifoldStall
from bot.testing.venues.stalls_metaculus import MetaculusStall
from bot.testing.venues.stalls_polymarket import PolymarketStall
from bot.testing.world.asks import BENCH, CONTEST, EXCHANGE, FAIR
from bot.testing.world.mind_server import MODEL, STRICT, MindServer
from bot.testing.world.web import Press
from bot.testing.world.world import World

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from bot.ports import Clock
    from bot.testing.venues.faults import Faults
    from bot.testing.venues.metaculus_state import User
    from bot.testing.venues.polymarket_state import User as Signer
    from bot.testing.world.habits import Habits

# The stall of each venue; the last one is files, and has no server.
STALLS: Mapping[str, str] = {
    "manifold": FAIR,
    "metaculus": CONTEST,
    "polymarket": EXCHANGE,
    "forecastbench": BENCH,
}
VENUES = tuple(STALLS)
# What opens the accounts at the doubles, and nothing anywhere else.
SECRETS: Mapping[str, str] = {
    "manifold.key": "c3b9a2d4-0e51-4d52-9f0a-6f4f0b1c7d21",
    "metaculus.token": "5f1d0b7e" * 5,
}
# Signs orders at the one venue where they are signed, with a library that not everybody has.
SIGNING = {"polymarket.key": "0x" + "6d3a91c2e47b05f8" * 4}
# Where Foxcast writes with nothing but these, and where it pays for what it says.
WRITABLE = ("manifold", "metaculus", "forecastbench")
SIGNED = ("polymarket",)
TRADING = ("manifold", "polymarket")
USERNAME, BALANCE, TOURNAMENT = "foxbot", 5_000.0, "sample-aib"
ENDPOINT = "simulation"
NAMED = f"openai_compatible:{ENDPOINT}/{MODEL}"
ROUNDS, BUCKET = "rounds", "bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a stand is to be: the world of a seed from a moment on, and which venues are there.

    ``folder`` gets the rounds of the benchmark and the secrets of the accounts; paths of the configuration begin with
    ``place``, which leads there from the configuration's own folder. Rounds begin at midnight, so ``start`` should.
    ``habits`` are those of the mind, ``faults`` what requests meet at each server, by its name. ``signs``, there is an
    account for orders that are signed too, with a key and no API key yet, which takes the library for signing.
    """

    seed: int
    start: datetime
    folder: Path
    place: str = "."
    size: int = 300
    venues: tuple[str, ...] = VENUES
    habits: Habits | None = None
    faults: Callable[[str], Faults | None] = lambda _: None
    keep: bool = False
    signs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """How the same plugins are pointed at the real venues: their tables, which of them need a key, and a model."""

    venues: Mapping[str, Mapping[str, Any]]
    with_key: tuple[str, ...]
    model: str


REAL = Real(
    venues={
        "manifold": {"settings": {"min_bettors": 20, "most": 20}},
        "polymarket": {"settings": {"tags": ["politics"], "ends_within_d": 60, "most_pages": 1}},
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
class Stand:
    """The world and its servers: ``venues`` are the doubles by name, ``served`` says where each server is.

    ``trader``, ``pundit`` and ``signer`` are the accounts of Foxcast, where these venues are. ``stalls.advance()`` does
    what has happened since, and is to be called every few hours of the clock.
    """

    layout: Layout
    world: World
    press: Press
    mind: MindServer
    venues: Mapping[str, FakeVenue]
    served: Mapping[str, Served]
    stalls: Stalls
    trader: str = ""
    pundit: User | None = None
    signer: Signer | None = None
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def writable(self) -> tuple[str, ...]:
        """The venues at which the accounts can be used without any further library."""
        return tuple(name for name in self.layout.venues if name in WRITABLE or (self.layout.signs and name in SIGNED))

    @property
    def trading(self) -> tuple[str, ...]:
        """The venues where forecasts are orders."""
        return tuple(name for name in self.layout.venues if name in TRADING)

    @property
    def real(self) -> Real:
        """The same at the real venues."""
        return REAL

    @property
    def heard(self) -> int:
        """How many requests came in so far."""
        return sum(len(server.requests) for server in self.servers.values())

    @property
    def servers(self) -> Mapping[str, FakeVenue]:
        """All that answers requests, by name."""
        return {"press": self.press, "mind": self.mind, **self.venues}

    async def live(self, clock: Clock, every_s: float) -> None:
        """Let the world go on for ever, in steps of so many seconds."""
        while True:
            self.stalls.advance()
            await clock.sleep(every_s)


@asynccontextmanager
async def open_stand(clock: Clock, layout: Layout) -> AsyncIterator[Stand]:
    """Serve a world on free ports of 127.0.0.1 until the end; nothing has happened in it yet."""
    world = World(seed=layout.seed, start=layout.start, size=layout.size)
    press = Press(clock, world, faults=layout.faults("press"))
    habits = None if layout.habits is None else {MODEL: layout.habits}
    mind = MindServer(clock, habits, faults=layout.faults("mind"), strict=STRICT)
    mind.keep = layout.keep
    venues = {name: _VENUES[name](clock, layout.faults(name)) for name in layout.venues if name in _VENUES}
    accounts = _accounts(venues, signs=layout.signs)
    _keep_secrets(layout.folder, {**SECRETS, **(SIGNING if layout.signs else {})})
    async with AsyncExitStack() as stack:
        servers: dict[str, FakeVenue] = {"press": press, "mind": mind, **venues}
        served = {name: await stack.enter_async_context(serve(server)) for name, server in servers.items()}
        yield Stand(
            layout=layout,
            world=world,
            press=press,
            mind=mind,
            venues=venues,
            served=served,
            stalls=_stalls(world, clock, layout, venues),
            config=_config(layout, served, accounts.get("signer")),
            **accounts,
        )


def toml(table: Mapping[str, Any]) -> str:
    """Return nested tables as TOML; values are texts, numbers, truth values and lists of them."""
    return "\n".join(_lines(table, ())) + "\n"


_VENUES: Mapping[str, Callable[[Clock, Faults | None], FakeVenue]] = {
    "manifold": lambda clock, faults: FakeManifold(clock, faults=faults),
    "metaculus": lambda clock, faults: FakeMetaculus(clock, production=True, faults=faults),
    "polymarket": lambda clock, faults: FakePolymarket(clock, faults=faults),
}


def _accounts(venues: Mapping[str, FakeVenue], *, signs: bool) -> dict[str, Any]:
    accounts: dict[str, Any] = {}
    fair, contest = venues.get("manifold"), venues.get("metaculus")
    if isinstance(fair, FakeManifold):
        key = SECRETS["manifold.key"]
        accounts["trader"] = fair.world.add_user(USERNAME, balance=BALANCE, key=key, is_bot=True).id
    if isinstance(contest, FakeMetaculus):
        accounts["pundit"] = contest.world.add_user(USERNAME, token=SECRETS["metaculus.token"])
    exchange = venues.get("polymarket")
    if isinstance(exchange, FakePolymarket) and signs:
        accounts["signer"] = exchange.world.add_user(SIGNING["polymarket.key"], cash=Decimal(BALANCE))
    return accounts


def _keep_secrets(folder: Path, secrets: Mapping[str, str]) -> None:
    for name, secret in secrets.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(secret, encoding="utf-8")


def _stalls(world: World, clock: Clock, layout: Layout, venues: Mapping[str, FakeVenue]) -> Stalls:
    stalls: dict[str, Stall] = {}
    daily: list[Callable[[float], object]] = []
    for venue in venues.values():
        match venue:
            case FakeManifold():
                stalls[FAIR] = ManifoldStall(world=world, venue=venue)
            case FakeMetaculus():
                stalls[CONTEST] = MetaculusStall(world=world, venue=venue)
            case FakePolymarket():
                stalls[EXCHANGE] = PolymarketStall(world=world, venue=venue)
                # What is due on a chain happens whether somebody looks or not.
                daily.append(partial(_settle, venue))
            case _:
                continue
    if "forecastbench" in layout.venues:
        bench = ForecastBenchStall(world=world, folder=layout.folder / ROUNDS)
        for part in ("question_sets", "resolution_sets"):
            (bench.folder / part).mkdir(parents=True, exist_ok=True)
        (layout.folder / BUCKET).mkdir(exist_ok=True)
        stalls[BENCH] = bench
        daily.append(bench.settle)
    return Stalls(world=world, clock=clock, stalls=stalls, daily=daily)


def _settle(venue: FakePolymarket, _: float) -> None:
    venue.world.exchange.advance()


def _config(layout: Layout, served: Mapping[str, Served], signer: Signer | None) -> dict[str, Any]:
    """Return the tables that point plugins at the servers, without anything else that people decide."""
    press, mind = served["press"].url, served["mind"].url
    settings = {name: _SETTINGS[name](layout.place, served.get(name)) for name in layout.venues}
    if signer is not None:
        key = f"{layout.place}/polymarket.key"
        settings["polymarket"] |= {"key_file": key, "wallet": signer.wallet, "attested": True}
    return {
        "plugins": [*layout.venues, "sandbox", "openai_compatible"],
        "venues": {name: {"settings": settings[name]} for name in layout.venues},
        "search": {"sandbox_news": {"settings": {"base_url": press}}},
        "data": {"sandbox_series": {"settings": {"base_url": press}}},
        "models": {"openai_compatible": {"settings": {"endpoints": {ENDPOINT: {"base_url": f"{mind}/v1"}}}}},
        "llm": {"roles": {"main": {"model": NAMED, "max_tokens": 4_000}}, "models": {NAMED: {"free": True}}},
        "desk": {"search": ["sandbox_news"]},
    }


def _manifold(place: str, served: Served | None) -> dict[str, Any]:
    assert served is not None  # noqa: S101 - it was served with the others
    key = f"{place}/manifold.key"
    return {"base_url": served.url, "key_file": key, "username": USERNAME, "min_bettors": 0}


def _metaculus(place: str, served: Served | None) -> dict[str, Any]:
    assert served is not None  # noqa: S101 - it was served with the others
    return {"base_url": served.url, "token_file": f"{place}/metaculus.token", "tournaments": [TOURNAMENT]}


def _polymarket(_: str, served: Served | None) -> dict[str, Any]:
    assert served is not None  # noqa: S101 - it was served with the others
    return {
        "gamma_url": f"{served.url}/gamma",
        "clob_url": served.url,
        "data_url": f"{served.url}/data-api",
        "site_url": f"{served.url}/site",
        "socket_url": served.ws_url,
    }


def _forecastbench(place: str, _: Served | None) -> dict[str, Any]:
    return {"source": f"{place}/{ROUNDS}", "upload_folder": f"{place}/{BUCKET}", "organization": "simulation"}


_SETTINGS: Mapping[str, Callable[[str, Served | None], dict[str, Any]]] = {
    "manifold": _manifold,
    "metaculus": _metaculus,
    "polymarket": _polymarket,
    "forecastbench": _forecastbench,
}


def _lines(table: Mapping[str, Any], name: tuple[str, ...]) -> list[str]:
    lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items() if not isinstance(value, Mapping)]
    if name and lines:
        lines = ["", f"[{'.'.join(map(_key, name))}]", *lines]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _lines(value, (*name, key))
    return lines


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: object) -> str:
    # Texts, numbers, truth values and lists of them are written as in JSON.
    return json.dumps(value, ensure_ascii=True)
