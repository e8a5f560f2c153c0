"""``foxcast portfolio`` and ``foxcast orders``: an account with orders on paper, seen as a person sees it."""

import asyncio
import json
import os
import pty
from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.core.orders import ContractSide
from bot.core.outcomes import BinaryOutcome, Outcome, Resolution, VoidOutcome
from bot.core.questions import SINGLE_TARGET, QuestionRef
from bot.jobs.reconciliation import settle_accounts
from bot.jobs.withdrawals import cancel_requested_orders
from bot.store.ledger import open_ledger
from bot.testing.paper_market import FakePaperMarket
from tests.acceptance.command_server import run_foxcast
from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed
from tests.unit.execution.paper.paper_outbox_fixture import open_outbox_fixture

VENUE = "forecastbench"


@pytest.fixture(scope="module")
def trader(tmp_path_factory: pytest.TempPathFactory) -> FoxcastInstallation:
    """An installation with 10 shares of rain for 4, 5 of no snow for 2.5, and an order on hail that rests."""
    foxcast = installed(tmp_path_factory.mktemp("trader"))
    asyncio.run(trade(foxcast.folder / "state" / "paper"))
    return foxcast


async def trade(folder: Path) -> None:
    market = FakePaperMarket(prices={"rain": 0.4, "snow": 0.5, "hail": 0.9}, resting_time=timedelta(hours=9))
    # Behind the clock of the commands that look at it.
    start = SystemClock().now() - timedelta(hours=2)
    async with open_outbox_fixture(folder, market, venue=VENUE, start=start) as floor:
        await floor.plan("rain")
        await floor.plan("snow", shares=5.0, leg=ContractSide.NO)
        await floor.plan("hail")
        await floor.outbox.flush()
        market.prices["rain"] = 0.6
        await settle_accounts(floor.accounts)


def test_the_portfolio_shows_cash_positions_and_gains(
    trader: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    output = run_command(trader, "portfolio").out
    flat = " ".join(output.split())
    for part in (
        f"{VENUE}: paper, account default",
        "cash, free 88.50",
        "reserved for orders 5.00",
        "equity, COIN 102.00",
        "gain of positions +2.00",
        "realised +0.00",
        "with 100.00",
        "1 open orders",
        "Positions (2)",
        "By event",
        "weather 2 6.50 8.50 +2.00",
    ):
        assert part in flat
    rain, *_ = [line for line in output.splitlines() if line.startswith(f"{VENUE}:rain")]
    assert rain.split()[-9:-3] == ["yes", "10.00", "4.00", "0.600", "6.00", "+2.00"]


def test_the_portfolio_as_json(trader: FoxcastInstallation, run_command: InProcessCommand) -> None:
    (one,) = run_command(trader, "portfolio", "--venue", VENUE, "--json").json
    assert (one["cash"], one["reserved"], one["equity"], one["capital"]) == (88.5, 5.0, 102.0, 100.0)
    assert {held["question"]: held["gain"] for held in one["positions"]} == {
        f"{VENUE}:rain": pytest.approx(2.0),
        f"{VENUE}:snow": pytest.approx(0.0),
    }
    assert one["events"] == {"weather": {"gain": pytest.approx(2.0)}}
    assert one["faults"] == []


def test_orders_are_listed_the_newest_first_and_open_ones_alone(
    trader: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    listed = run_command(trader, "orders", "--json").json
    assert [(one["question"].partition(":")[2], one["rests"]) for one in listed] == [
        ("hail", True),
        ("snow", False),
        ("rain", False),
    ]
    assert [one["cash"] for one in listed] == [0, -2.5, -4.0]
    output = run_command(trader, "orders", "--open").out.splitlines()
    assert len(output) == 2
    assert "buy 10.00 yes" in output[1]
    assert "resting" in output[1]
    assert "the price is 0.9" in output[1]
    assert run_command(trader, "orders", "--venue", "nowhere").is_refusal(8, "--venue nowhere")


def test_a_list_of_orders_says_how_many_it_leaves_out_and_how_to_see_them(
    trader: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    cut = run_command(trader, "orders", "--limit", "2", "--json")
    assert [one["question"].partition(":")[2] for one in cut.json] == ["hail", "snow"]
    assert cut.err == "the oldest 1 of 3 orders are not shown; see: foxcast orders --all\n"
    whole = run_command(trader, "orders", "--limit", "2", "--all", "--json")
    assert (len(whole.json), whole.err) == (3, "")
    assert run_command(trader, "orders", "--open", "--limit", "1").err == ""
    venue = cut.json[0]["question"].partition(":")[0]
    some = run_command(trader, "orders", "--search", venue.upper(), "--limit", "2", "--json")
    assert (some.json, some.err) == (cut.json, "more orders fit; see: foxcast orders --all\n")
    every = run_command(trader, "orders", "--search", venue, "--sort", "question", "--limit", "3", "--json")
    assert ([one["question"].partition(":")[2] for one in every.json], every.err) == (["hail", "rain", "snow"], "")


def test_one_order_is_shown_with_its_attempts_and_fills(
    trader: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    name = run_command(trader, "orders", "--json").json[2]["id"]
    output = run_command(trader, "orders", "show", name[:10]).out
    for part in (
        "buy 10.00 yes of rain",
        "submitted because: the edge is wide",
        "1. 20",
        "acked, paper 1",
        "1.1",
        "-4.00",
    ):
        assert part in output
    one = run_command(trader, "orders", "show", name, "--json").json
    assert one["fills"][0]["shares"] == 10.0
    assert (one["paper"]["state"], one["paper"]["report"]) == ("filled", None)
    assert run_command(trader, "orders", "show", "zz").is_refusal(8, "no order has the id zz", "foxcast orders")
    assert run_command(trader, "orders", "show", "").is_refusal(8, "fits several orders")


def test_a_resting_order_is_cancelled_by_whoever_holds_the_ledger(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path)
    folder = foxcast.folder / "state" / "paper"
    asyncio.run(trade(folder))
    listed = run_command(foxcast, "orders", "--json").json
    resting, filled = listed[0]["id"], listed[1]["id"]
    assert run_command(foxcast, "orders", "cancel", filled).is_refusal(9, "is not resting", "filled")
    assert run_command(foxcast, "orders", "cancel", resting).out.startswith(f"cancel of {resting} requested")

    async def attend() -> str:
        market = FakePaperMarket(resting_time=timedelta(hours=9))
        async with open_outbox_fixture(folder, market, venue=VENUE, start=SystemClock().now()) as floor:
            return await cancel_requested_orders(floor.cancelling)

    assert asyncio.run(attend()) == "1 orders cancelled"
    (one,) = run_command(foxcast, "portfolio", "--json").json
    assert (one["cash"], one["orders"]) == (93.5, [])


def test_what_resolved_on_paper_stays_in_the_report_with_its_gain(
    tmp_path: Path, run_command: InProcessCommand
) -> None:
    foxcast = installed(tmp_path)
    folder = foxcast.folder / "state" / "paper"
    asyncio.run(trade(folder))

    async def resolve() -> None:
        market = FakePaperMarket(prices={"rain": 0.6, "snow": 0.5, "hail": 0.9}, resting_time=timedelta(hours=9))
        async with open_outbox_fixture(
            folder, market, venue=VENUE, start=SystemClock().now() - timedelta(hours=1)
        ) as floor:
            refs = [QuestionRef(VENUE, key) for key in ("rain", "snow")]
            outcomes: list[Outcome] = [BinaryOutcome(1.0), VoidOutcome("off")]
            found = [
                Resolution(ref=ref, target=SINGLE_TARGET, outcome=outcome, resolved_at=floor.clock.now())
                for ref, outcome in zip(refs, outcomes, strict=True)
            ]
            await floor.ledger.resolutions.record(found, seen_at=floor.clock.now())
            await settle_accounts(floor.accounts)

    asyncio.run(resolve())
    (one,) = run_command(foxcast, "portfolio", "--json").json
    # 10 shares of rain for 4 paid 10; the 2.50 of snow came back.
    markets = {found["contract"]: found for found in one["markets"]}
    assert (markets["rain"]["paid_out"], markets["rain"]["realised"]) == (10.0, 6.0)
    assert (markets["snow"]["paid_out"], markets["snow"]["realised"]) == (2.5, 0.0)
    assert (one["realised"], one["equity"], one["gain_of_orders"]) == (6.0, 106.0, 6.0)
    # The paper book comes to the same by its own postings.
    assert (one["positions"], one["faults"]) == ([], [])
    assert one["forecasters"] == [{"forecaster": "plain", "markets": 2, "realised": 6.0, "unrealised": 0.0}]
    (reported,) = run_command(foxcast, "portfolio", "--history", "--json").json
    assert (reported["history"][-1]["gain"], reported["history"][-1]["transfers"]) == (6.0, 0.0)
    assert "+6.00" in run_command(foxcast, "portfolio").out


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("command", [["portfolio"], ["portfolio", "--history"], ["orders"]])
def test_a_narrow_terminal_shows_every_figure_within_its_width(
    trader: FoxcastInstallation, command: list[str], width: int
) -> None:
    output = _in_terminal(trader, command, width)
    lines = output.splitlines()
    assert max(len(line) for line in lines) <= width
    flat = " ".join("".join(output.split("\n")).split())
    wanted = {
        "portfolio": ["102.00", "88.50", "+2.00", "0.600"],
        "--history": ["102.00", "88.50"],
        "orders": ["-4.00", "-2.50", "resting"],
    }[command[-1]]
    assert [one for one in wanted if one not in flat] == []


def _in_terminal(foxcast: FoxcastInstallation, command: list[str], width: int) -> str:
    main, child = pty.openpty()
    environment = {**foxcast.environment, "COLUMNS": str(width), "LINES": "40", "TERM": "dumb"}
    try:
        run_foxcast(
            command, folder=foxcast.folder, environment=environment, stdout=child, timeout=25
        ).check_returncode()
        os.close(child)
        output = b""
        while chunk := _read(main):
            output += chunk
    finally:
        os.close(main)
    return output.decode().replace("\r\n", "\n")


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65_536)
    except OSError:  # how a terminal says that nobody writes any more
        return b""


def test_an_installation_without_accounts_says_so(tmp_path: Path, run_command: InProcessCommand) -> None:
    foxcast = installed(tmp_path)
    assert run_command(foxcast, "portfolio").is_refusal(8, "no ledger", "foxcast run --once")

    async def begin() -> None:
        async with open_ledger(foxcast.folder / "state" / "paper" / "ledger.sqlite", now=SystemClock().now()):
            pass

    asyncio.run(begin())
    assert "no account holds anything yet" in run_command(foxcast, "portfolio").out
    assert json.loads(run_command(foxcast, "portfolio", "--json").out) == []
    assert run_command(foxcast, "orders").out == "no orders yet\n"
    assert run_command(foxcast, "orders", "--open").out == "no open orders\n"
    assert run_command(foxcast, "portfolio", "--venue", "nowhere").is_refusal(8, "nowhere", VENUE)


def test_it_works_beside_a_writer(trader: FoxcastInstallation, run_command: InProcessCommand) -> None:
    async def beside() -> tuple[str, str]:
        folder = trader.folder / "state" / "paper"
        async with open_outbox_fixture(folder, FakePaperMarket(), venue=VENUE, start=SystemClock().now()):
            return await asyncio.to_thread(_both, trader)

    held, listed = asyncio.run(beside())
    assert '"cash": 88.5' in held
    assert '"rests": true' in listed


def _both(foxcast: FoxcastInstallation) -> tuple[str, str]:
    return foxcast("portfolio", "--json").out, foxcast("orders", "--json").out


def test_standing_forecasts_are_counted_where_nothing_is_traded(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    (one,) = run_command(foxcast, "portfolio", "--json").json
    assert one["cash"] is None
    assert one["standing_forecasts"] > 0
    assert f"submitted forecasts on {one['standing_forecasts']} open questions" in run_command(foxcast, "portfolio").out
