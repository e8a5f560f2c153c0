"""Polymarket, live: a key that only the signer opens, orders signed, posted once and read back; and what holds them."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import ServedService, serve_service
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.polymarket import FakePolymarket
from bot.simulator.venues.polymarket_state import FakeFeeSchedule
from tests.acceptance.live_installation import LiveInstallation

KEY = "0x" + "7b" * 32
ARM = ("arm", "polymarket", "--for", "24h", "--per-order", "8", "--per-day", "20", "--total", "50")

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def venue() -> AsyncIterator[FakePolymarket]:
    venue = FakePolymarket(SystemClock())
    venue.world.give_key(venue.world.add_user(KEY))
    venue.world.add_market(
        "Will the lamp be lit?",
        fees=FakeFeeSchedule(rate=Decimal("0.04")),
        bids=(("0.49", "400"),),
        asks=(("0.51", "400"),),
    )
    yield venue
    assert venue.crashes == []
    assert venue.rate_limit_checker.violations == []


def create_installation(folder: Path, venue: FakePolymarket, served: ServedService, *more: str) -> LiveInstallation:
    (user,) = venue.state.users.values()
    settings = [f'{name} = "{url}"' for name, url in venue.addresses(served).items()]
    settings += ['key_file = "secret"', f'wallet = "{user.wallet}"']
    return LiveInstallation(folder, "polymarket", secret=KEY, settings=[*settings, *(more or ("attested = true",))])


def posts(venue: FakePolymarket) -> list[dict[str, object]]:
    return [json.loads(one.body) for one in venue.requests if (one.method, one.path) == ("POST", "/order")]


def on_disk(folder: Path) -> tuple[str, str, str]:
    """Return hash and state of the one order on record, and what the signer has noted."""
    state = folder / "state" / "live"
    with closing(sqlite3.connect(state / "ledger.sqlite")) as ledger:
        [row] = ledger.execute("select tag, intent.state from attempt join intent on intent.id = attempt.intent")
    return (*row, (state / "polymarket" / "signer.json").read_text())


def holding(folder: Path, *secrets: str) -> list[Path]:
    """Return the files of the state that hold a secret."""
    files = [path for path in (folder / "state").rglob("*") if path.is_file()]
    return [path for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]


@pytest.mark.slow
async def test_pm_s8_an_armed_run_signs_stores_posts_once_and_reads_back(venue: FakePolymarket, tmp_path: Path) -> None:
    (user,) = venue.state.users.values()
    durable: list[tuple[str, str, str]] = []
    look = FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: durable.append(on_disk(tmp_path)))
    venue.faults.schedule(look, method="POST", path="/order")
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, venue, served)
        assert "not armed for live submissions; arm it with: foxcast arm polymarket" in (await foxcast.once())["submit"]
        assert posts(venue) == []
        assert (await foxcast(*ARM)).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 1 acknowledged"
        # Confirmed on chain seconds after the match, and only then a fill.
        await asyncio.sleep(5.0)
        assert (await foxcast.once())["submit"] == "0 planned, 0 held, 0 acknowledged"
        [order] = await foxcast.orders()
        assert (order["state"], order["filled"]) == ("acked", order["order"]["shares"])
        [account] = (await foxcast("portfolio", "--json")).json
        assert account["cash"] == pytest.approx(1000 + order["cash"])
        assert account["cash"] == pytest.approx(float(user.cash))
    assert len(posts(venue)) == 1
    assert {one.path for one in venue.requests if one.method != "GET"} == {"/books", "/order"}
    # Its hash, that it was on its way, and its dollars were on disk before it was posted.
    [effect] = venue.ledger.effects("order")
    [(tag, state, spent)] = durable
    assert (tag, state) == (effect.subject, "sending")
    dollars = Decimal(str(order["order"]["limit"])) * Decimal(str(order["order"]["shares"]))
    assert Decimal(json.loads(spent)["dollars"]) == dollars
    # See docs/facts/polymarket.md#paper-fills: keys and secrets reach no log.
    assert holding(tmp_path, KEY[2:], user.key, user.secret, user.passphrase) == []


@pytest.mark.slow
async def test_pm_c3_a_lost_answer_is_settled_from_trades_before_anything_new_is_sent(
    venue: FakePolymarket, tmp_path: Path
) -> None:
    venue.world.exchange.confirmed_s = 0.0
    venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/order")
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, venue, served)
        assert (await foxcast(*ARM)).code == 0
        assert (await foxcast.once(code=3))["submit"] == "1 planned, 0 held, 0 acknowledged"
        [order] = await foxcast.orders()
        assert order["state"] in {"unknown", "acked"}
        await foxcast.once()
        [order] = await foxcast.orders()
        assert (order["state"], order["filled"] > 0) == ("acked", True)
    assert len(posts(venue)) == len(venue.ledger.effects("order")) == 1


@pytest.mark.parametrize("is_blocked", [True, False])
@pytest.mark.slow
async def test_what_does_not_permit_trading_is_named_and_nothing_is_signed(
    venue: FakePolymarket, tmp_path: Path, *, is_blocked: bool
) -> None:
    venue.is_blocked = is_blocked
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, venue, served, f"attested = {str(is_blocked).lower()}")
        assert (await foxcast(*ARM)).code == 0
        reported = (await foxcast.once())["submit"]
        assert ("accepts no orders from this region" if is_blocked else "set attested = true") in reported
    assert posts(venue) == []
    assert list((tmp_path / "state").rglob("signer.json")) == []
