"""Manifold, live: orders placed, filled, left to rest, cancelled, sold; approvals; the daemon and its end."""

from pathlib import Path

import pytest

from bot.cli.daemon_requests import terminal_user
from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.manifold_market_maker import WantedTrade
from bot.store.ledger import LEDGER_FILE
from tests.acceptance.biased_forecaster import DIFFERENT
from tests.acceptance.live_installation import LiveInstallation, writes
from tests.unit.store.test_audit_log import tamper

KEY = "key-of-a-fake-account-1"
ARM = ("arm", "manifold", "--for", "24h", "--per-order", "50", "--per-day", "60", "--total", "200")

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
async def venue() -> FakeManifold:
    venue = FakeManifold(SystemClock())
    venue.world.add_user("foxbot", key=KEY, is_bot=True)
    return venue


def create_installation(folder: Path, url: str, *more: str, tail: str = "") -> LiveInstallation:
    settings = [f'base_url = "{url}"', 'key_file = "secret"', 'username = "foxbot"', "min_bettors = 0", *more]
    return LiveInstallation(folder, "manifold", secret=KEY, settings=settings, more=tail)


def bets(venue: FakeManifold) -> list[dict[str, object]]:
    return [body for path, body in writes(venue) if path == "/v0/bet"]


async def test_what_an_unarmed_run_held_leaves_with_the_first_armed_one_and_never_again(
    venue: FakeManifold, tmp_path: Path
) -> None:
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url, "comments = true")
        assert "not armed for live submissions; arm it with: foxcast arm manifold" in (await foxcast.once())["submit"]
        shown = (await foxcast("preflight", "manifold", "--as-if-armed", "--json")).json
        [request] = [send["request"] for send in shown["sends"]]
        assert '"outcome":"YES"' in request["body"]
        assert writes(venue) == []
        assert (await foxcast(*ARM)).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 2 acknowledged"
        assert (await foxcast.once())["submit"] == "0 planned, 0 held, 0 acknowledged"
        [comment, order] = await foxcast.orders()
        assert (comment["state"], order["state"], order["filled"] > 0) == ("acked", "acked", True)
        [account] = (await foxcast("portfolio", "--json")).json
        assert account["cash"] == pytest.approx(1000 + order["cash"] - 1.0)
        assert [held["question"] for held in account["positions"]] == ["manifold:market000001"]
        assert foxcast.leaks() == []
    [bet] = bets(venue)
    assert (bet["contractId"], bet["outcome"]) == ("market000001", "YES")
    assert len(venue.ledger.effects("bet")) == len(venue.ledger.effects("comment")) == 1


@pytest.mark.slow
async def test_an_order_that_rests_is_cancelled_by_the_daemon_which_ends_when_asked(
    venue: FakeManifold, tmp_path: Path
) -> None:
    market = venue.world.add_market("Will the lamp be lit?", prob=0.3)
    moved = FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: venue.world.move_price(market, 0.6))
    venue.faults.schedule(moved, method="POST", path="/v0/bet")
    async with serve_service(venue) as served:
        foxcast = create_installation(
            tmp_path, served.url, "order_lifetime_s = 600", tail="[daemon]\nrequests_every_s = 1\n"
        )
        assert (await foxcast(*ARM)).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 1 acknowledged"
        [order] = [row for row in await foxcast.orders("--open") if row["rests"]]
        assert order["filled"] == 0.0
        output = await foxcast.daemon(lambda: len(venue.requests) > 20, then=["orders", "cancel", order["id"]])
        assert output.out.startswith(f"cancel of {order['id']} requested")
        kinds = [row["kind"] for row in (await foxcast("audit", "show", "--json")).json]
        assert kinds[:2] == ["cancelled", "cancel"]
        [again] = [row for row in await foxcast.orders() if row["id"] == order["id"]]
        assert again["filled"] == 0.0
    assert len(bets(venue)) == 1
    assert [path for path, _ in writes(venue)][-1].startswith("/v0/bet/cancel/")


@pytest.mark.slow
async def test_what_a_person_rejects_stays_and_what_they_approve_leaves(venue: FakeManifold, tmp_path: Path) -> None:
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    venue.world.add_market("Will the fire be lit?", prob=0.4)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        foxcast.foxcast.config.write_text(foxcast.foxcast.config.read_text().replace('"live"', '"approve"'))
        assert (await foxcast(*ARM)).code == 0
        assert "waits for approval" in (await foxcast.once())["submit"]
        asked = {one["shown"]["title"]: one["id"] for one in (await foxcast("approvals", "--json")).json}
        assert len(asked) == 2
        assert (await foxcast("approve", asked["Will the lamp be lit?"])).code == 0
        assert (await foxcast("reject", asked["Will the fire be lit?"])).code == 0
        assert bets(venue) == []
        assert (await foxcast.once())["submit"].startswith("1 planned, 1 held, 1 acknowledged")
        assert (await foxcast("approvals", "--json")).json == []
    assert [bet["contractId"] for bet in bets(venue)] == ["market000001"]


@pytest.mark.slow
async def test_a_change_of_mind_sells_first_and_buys_the_other_side_after_that(
    venue: FakeManifold, tmp_path: Path
) -> None:
    market = venue.world.add_market("Will the lamp be lit?", prob=0.3)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url, tail="[policy]\nmin_gap_h = 0.0\n")
        assert (await foxcast(*ARM)).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 1 acknowledged"
        venue.world.edit(market, question=f"Will the lamp be lit, as {DIFFERENT}?")
        assert (await foxcast.once())["submit"].startswith("1 planned, 0 held, 1 acknowledged")
        venue.world.edit(market, question=f"Will the lamp be lit now, as {DIFFERENT}?")
        assert (await foxcast.once())["submit"].startswith("1 planned, 0 held, 1 acknowledged")
        made = [row["order"] for row in await foxcast.orders() if row["action"] == "order"]
        assert [(one["side"], one["leg"]) for one in made] == [("buy", "no"), ("sell", "yes"), ("buy", "yes")]
    assert [bet["outcome"] for bet in bets(venue)] == ["YES", "NO"]
    assert [path for path, _ in writes(venue) if path.endswith("/sell")] == [f"/v0/market/{market.id}/sell"]


async def test_what_is_excluded_is_neither_forecast_nor_bet_on_also_where_it_was_known_before(
    venue: FakeManifold, tmp_path: Path
) -> None:
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    dora = venue.world.add_user("dora")
    venue.world.add_market("Will the fire be lit?", prob=0.3, creator=dora.id)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url, tail='[venues.manifold.exclude]\ncreators = ["dora"]\n')
        # Forecast, and not armed: it waits.
        assert (await foxcast.once())["submit"].startswith("0 planned, 1 held")
        shown = (await foxcast("show", "manifold:market000002", "--json")).json
        assert (shown["excluded"], shown["history"]) == ("excluded by creators = 'dora' in config", [])
        with foxcast.foxcast.config.open("a") as file:
            file.write('words = ["LAMP"]\n')
        assert (await foxcast(*ARM)).code == 0
        assert "excluded by words = 'LAMP' in config" in (await foxcast("show", "manifold:market000001")).out
        assert "excluded by words = 'LAMP' in config" in (await foxcast("preflight", "manifold")).out
        assert "0 acknowledged" in (await foxcast.once())["submit"]
    assert writes(venue) == []


async def test_a_halt_takes_back_the_orders_of_this_bot_and_all_of_the_account_when_asked(
    venue: FakeManifold, tmp_path: Path
) -> None:
    market = venue.world.add_market("Will the lamp be lit?", prob=0.3)
    other = venue.world.add_market("Will the fire be lit?", prob=0.5)
    moved = FaultDetails(fault=RequestFault.MEANWHILE, meanwhile=lambda: venue.world.move_price(market, 0.6))
    venue.faults.schedule(moved, method="POST", path="/v0/bet")
    async with serve_service(venue) as served:
        foxcast = create_installation(
            tmp_path, served.url, "order_lifetime_s = 600", f'markets = ["{market.id}"]', "scan = false"
        )
        assert (await foxcast(*ARM)).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 1 acknowledged"
        foxbot = venue.state.user_named("foxbot")
        assert foxbot is not None
        by_hand = venue.world.trade(foxbot, other, WantedTrade(outcome="YES", amount=5.0, limit=0.2))
        [own] = [bet for bet in venue.state.bets_by(foxbot.id) if bet.market == market.id]
        assert [bet.is_resting(venue.now_ms()) for bet in (own, by_hand)] == [True, True]
        assert (await foxcast("halt", "manifold", "--reason", "odd")).code == 0
        await foxcast.once()
        assert [bet.is_resting(venue.now_ms()) for bet in (own, by_hand)] == [False, True]
        assert (await foxcast("halt", "manifold", "--reason", "odder", "--all-orders")).code == 0
        await foxcast.once()
        assert [bet.is_resting(venue.now_ms()) for bet in (own, by_hand)] == [False, False]


async def test_while_halted_nothing_leaves_and_after_resuming_it_does(venue: FakeManifold, tmp_path: Path) -> None:
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast(*ARM)).code == 0
        assert (await foxcast("halt", "--reason", "prices look odd")).code == 0
        assert "prices look odd" in (await foxcast.once())["submit"]
        assert writes(venue) == []
        assert (await foxcast("resume")).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 1 acknowledged"
    assert len(bets(venue)) == 1


async def test_a_changed_audit_holds_the_very_pass_that_finds_it_and_cannot_be_resumed(
    venue: FakeManifold, tmp_path: Path
) -> None:
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast(*ARM)).code == 0
        tamper(tmp_path / "state" / "live" / LEDGER_FILE, "update audit set actor = 'x' || actor where seq = 1")
        for _ in range(2):
            assert (await foxcast("run", "--once")).code == 1
            runs = {run["job"]: run for run in (await foxcast("status", "--json")).json["runs"]}
            assert "audit: is broken: row 1 was changed" in runs["ready"]["detail"]
            assert runs["submit"]["detail"].startswith("0 planned, 1 held, 0 acknowledged")
            assert "everything is halted: the audit is broken" in runs["audit"]["detail"]
            assert (await foxcast("resume")).is_refusal(9, "nothing is resumed while the audit is broken")
        assert writes(venue) == []
        tamper(tmp_path / "state" / "live" / LEDGER_FILE, "update audit set actor = substr(actor, 2) where seq = 1")
        assert (await foxcast("resume")).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 1 acknowledged"


@pytest.mark.slow
async def test_a_venue_that_is_stopped_by_itself_shows_in_status_and_in_one_row_of_the_doctor(
    venue: FakeManifold, tmp_path: Path
) -> None:
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast("halt", "manifold", "--reason", "odd")).code == 0
        shown = (await foxcast("status")).out
        assert f"stopped: manifold, by {terminal_user()}, " in shown
        assert "UTC: odd; resume with: foxcast resume manifold\n" in shown
        [stop] = (await foxcast("status", "--json")).json["stops"]
        assert (stop["venue"], stop["by"], stop["why"]) == ("manifold", terminal_user(), "odd")
        rows = (await foxcast("doctor", "--json")).json
        [row] = [row for row in rows if row["check"] in {"halt", "stopped"}]
        assert row["verdict"] == "warn"
        assert "manifold was stopped by" in row["found"]
        assert (await foxcast("halt", "--reason", "odder")).code == 0
        shown = (await foxcast("status")).out
        assert [line.split(":")[0] for line in shown.splitlines() if "odd" in line] == ["halted", "stopped"]
        assert (await foxcast("resume")).out == "everything resumed, 2 halts ended and the file STOP is removed\n"
        assert (await foxcast("status", "--json")).json["stops"] == []
