"""Closing positions with the command: live and on paper, asked first, through the gate, and not bought back."""

from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.manifold import FakeManifold
from tests.acceptance.live_installation import LiveInstallation, writes
from tests.acceptance.test_live_manifold import ARM, KEY, create_installation

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def venue() -> FakeManifold:
    venue = FakeManifold(SystemClock())
    venue.world.add_user("foxbot", key=KEY, is_bot=True)
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    venue.world.add_market("Will the fire be lit?", prob=0.4)
    return venue


def sales(venue: FakeManifold) -> list[str]:
    return [path for path, _ in writes(venue) if path.endswith("/sell")]


async def bought(foxcast: LiveInstallation) -> None:
    assert (await foxcast(*ARM)).code == 0
    assert (await foxcast.once())["submit"] == "2 planned, 0 held, 2 acknowledged"


async def test_a_position_is_shown_asked_for_sold_and_not_bought_back(venue: FakeManifold, tmp_path: Path) -> None:
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url, tail="[policy]\nmin_gap_h = 0.0\nstale_after_h = 0.001\n")
        await bought(foxcast)
        shown = await foxcast("close", "market000001", "--dry-run")
        assert (shown.code, shown.out.splitlines()[-1]) == (
            0,
            "1 of 1 positions would be sold; nothing was (--dry-run)",
        )
        unasked = await foxcast("close", "market000001")
        assert unasked.code == 2
        assert "confirm with --yes" in unasked.err
        assert sales(venue) == []
        done = await foxcast("close", "market000001", "--yes")
        assert done.code == 0, done.err
        assert done.out.splitlines()[-1].startswith("1 of 1 positions closed for ")
        assert "not bought again for 168 h" in done.out
        assert sales(venue) == ["/v0/market/market000001/sell"]
        [account] = (await foxcast("portfolio", "--json")).json
        assert [held["question"] for held in account["positions"]] == ["manifold:market000002"]
        kinds = [row["kind"] for row in (await foxcast("audit", "show", "--json")).json]
        assert kinds[:3] == ["answer", "write", "close"]
        again = (await foxcast.once())["submit"]
        assert "1 wait: a position in it was closed at" in again
        gone = await foxcast("close", "market000001", "--yes")
        assert gone.code == 8


async def test_while_halted_or_disarmed_nothing_is_sold_and_it_says_so(venue: FakeManifold, tmp_path: Path) -> None:
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        await bought(foxcast)
        assert (await foxcast("halt", "--reason", "prices look odd")).code == 0
        halted = await foxcast("close", "--all", "--yes")
        assert halted.code == 9
        assert "prices look odd" in halted.err
        assert (await foxcast("resume")).code == 0
        assert (await foxcast("disarm", "manifold")).code == 0
        disarmed = await foxcast("close", "--all", "--yes")
        assert disarmed.code == 9
        assert "arm it with" in disarmed.err
        assert sales(venue) == []


async def test_a_lost_answer_is_no_success_and_only_approvers_close(venue: FakeManifold, tmp_path: Path) -> None:
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        await bought(foxcast)
        venue.faults.schedule(
            FaultDetails(fault=RequestFault.DROPPED_AFTER), method="POST", path="/v0/market/market000001/sell"
        )
        lost = await foxcast("close", "market000001", "--yes")
        assert lost.code == 3
        assert "1 not known yet" in lost.out
        assert (await foxcast("principal", "add", "ann", "--role", "approver")).code == 0
        refused = await foxcast("close", "market000002", "--yes")
        assert refused.code == 4
        assert "close needs a token" in refused.err
    assert sales(venue) == ["/v0/market/market000001/sell"]


@pytest.mark.slow
async def test_the_daemon_that_runs_does_it(venue: FakeManifold, tmp_path: Path) -> None:
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url, tail="[daemon]\nrequests_every_s = 1\n")
        await bought(foxcast)
        done = await foxcast.daemon(lambda: len(venue.requests) > 20, then=["close", "--all", "--yes"])
        assert done.code == 0, done.err
        assert done.out.splitlines()[-1].startswith("2 of 2 positions closed for ")
    assert len(sales(venue)) == 2


async def test_on_paper_nothing_is_sent_and_the_book_sells(venue: FakeManifold, tmp_path: Path) -> None:
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        foxcast.foxcast.config.write_text(
            foxcast.foxcast.config.read_text().replace('"live"', '"paper"')
            + "\n[venues.manifold.paper]\ndelay_s = 0.0\n"
        )
        assert (await foxcast.once())["submit"] == "2 planned, 0 held, 2 acknowledged"
        done = await foxcast("close", "--all", "--yes")
        assert done.code == 0, done.out + done.err
        assert done.out.splitlines()[-1].startswith("2 of 2 positions closed for ")
        [account] = (await foxcast("portfolio", "--json")).json
        assert account["positions"] == []
        assert account["cash"] == pytest.approx(1000.0, abs=1e-3)
    assert writes(venue) == []
