"""A live state folder that was copied: two real processes, one venue, and only the original submits to it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.venues.manifold import FakeManifold
from tests.acceptance.live_installation import LiveInstallation
from tests.acceptance.test_live_manifold import ARM, KEY, bets, create_installation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def create_in(folder: Path, url: str) -> LiveInstallation:
    folder.mkdir(exist_ok=True)
    return create_installation(folder, url)


def copy_installation(foxcast: LiveInstallation, folder: Path, url: str) -> LiveInstallation:
    shutil.copytree(foxcast.foxcast.folder / "state", folder / "state")
    return create_in(folder, url)


async def test_a_copy_uses_paper_until_it_is_adopted_and_armed(tmp_path: Path) -> None:
    venue = FakeManifold(SystemClock())
    venue.world.add_user("foxbot", key=KEY, is_bot=True)
    add_market(venue, "Will the lamp be lit?")
    async with serve_service(venue) as served:
        original = create_in(tmp_path / "original", served.url)
        assert (await original(*ARM)).code == 0
        await original.once()
        assert len(bets(venue)) == 1

        copy = copy_installation(original, tmp_path / "copy", served.url)
        add_market(venue, "Will the fire be lit?")
        await asyncio.gather(original.once(), copy.once())
        # Both forecast the new market, and one of them traded.
        assert [bet["contractId"] for bet in bets(venue)] == ["market000001", "market000002"]
        assert next(order["mode"] for order in await copy.orders()) == "paper"

        await _adopt_copy(original, copy)
        add_market(venue, "Will the stove be lit?")
        assert "given for another state folder or on another machine" in (await copy.once())["submit"]
        assert len(bets(venue)) == 2
        assert (await copy(*ARM)).code == 0
        await copy.once()
        assert [bet["contractId"] for bet in bets(venue)][2:] == ["market000003"]
        await _stop_original(original, copy, venue)


def add_market(venue: FakeManifold, question: str) -> None:
    """Open a market that every list shows at once: nothing of before comes from the cache at the edge."""
    venue.world.add_market(question, prob=0.3)
    venue.forget_cached()


async def _adopt_copy(original: LiveInstallation, copy: LiveInstallation) -> None:
    words = (await copy("status")).out
    assert f"was copied or moved here from {original.foxcast.folder / 'state' / 'live'}" in words.replace("\n", "")
    assert "displaced" not in (await original("status")).out
    refused = await copy(*ARM)
    assert refused.is_refusal(9, "so it may not submit", "foxcast adopt")
    assert (await copy("adopt")).is_refusal(2, "All arm records end", "foxcast adopt --yes")
    assert (await original("adopt")).out.rstrip().endswith("there is nothing to adopt")

    assert (await copy("adopt", "--yes")).code == 0
    kinds = [row["kind"] for row in (await copy("audit", "show", "--json")).json]
    assert kinds[0] == "adopt"
    assert (await copy("audit", "verify")).code == 0


async def _stop_original(original: LiveInstallation, copy: LiveInstallation, venue: FakeManifold) -> None:
    """Both are armed: the venue lists a bet that the original did not make, and that stops the original alone."""
    before = len(bets(venue))
    add_market(venue, "Will the candle be lit?")
    await original.once()
    assert len(bets(venue)) == before
    words = " ".join((await original("status")).out.split())
    assert "the account has writes that this state folder did not make: a bet of" in words
    assert "on YES of market market000003" in words
    assert "If another copy of the folder runs, stop it" in words
    assert "foxcast resume manifold" in words
    assert (await original("status", "--check")).code != 0
    assert "writes that this state folder did not make" in (await original("doctor")).out.replace("\n", " ")
    # The copy knows all that happened since it was adopted.
    await copy.once()
    assert [bet["contractId"] for bet in bets(venue)][before:] == ["market000004"]
