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
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    async with serve_service(venue) as served:
        original = create_in(tmp_path / "original", served.url)
        assert (await original(*ARM)).code == 0
        await original.once()
        assert len(bets(venue)) == 1

        copy = copy_installation(original, tmp_path / "copy", served.url)
        venue.world.add_market("Will the fire be lit?", prob=0.3)
        await asyncio.gather(original.once(), copy.once())
        # Both forecast the new market, and one of them traded.
        assert [bet["contractId"] for bet in bets(venue)] == ["market000001", "market000002"]
        assert next(order["mode"] for order in await copy.orders()) == "paper"

        words = (await copy("status")).out
        assert f"was copied or moved here from {tmp_path / 'original' / 'state' / 'live'}" in words.replace("\n", "")
        assert "displaced" not in (await original("status")).out
        refused = await copy(*ARM)
        assert refused.is_refusal(9, "so it may not submit", "foxcast adopt")
        assert (await copy("adopt")).is_refusal(2, "All arm records end", "foxcast adopt --yes")
        assert (await original("adopt")).out.rstrip().endswith("there is nothing to adopt")

        assert (await copy("adopt", "--yes")).code == 0
        kinds = [row["kind"] for row in (await copy("audit", "show", "--json")).json]
        assert kinds[0] == "adopt"
        assert (await copy("audit", "verify")).code == 0
        venue.world.add_market("Will the stove be lit?", prob=0.3)
        assert "given for another state folder or on another machine" in (await copy.once())["submit"]
        assert len(bets(venue)) == 2
        assert (await copy(*ARM)).code == 0
        await copy.once()
        assert len(bets(venue)) > 2
