"""What a person learns of live venues from the doctor, the list of orders, and the portfolio."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import RequestFault
from bot.simulator.venues.manifold import FakeManifold
from bot.simulator.venues.polymarket import FakePolymarket
from tests.acceptance.live_installation import LiveInstallation

KEY = "key-of-a-fake-account-1"
WALLET_KEY = "0x" + "7b" * 32
ARM = ("--for", "24h", "--per-order", "8", "--per-day", "20", "--total", "50")

pytestmark = [pytest.mark.timeout(120), pytest.mark.slow]


def manifold(folder: Path, url: str, *more: str) -> LiveInstallation:
    settings = [f'base_url = "{url}"', 'username = "foxbot"', "min_bettors = 0", *more]
    return LiveInstallation(folder, "manifold", secret=KEY, settings=settings)


async def checked(foxcast: LiveInstallation) -> Mapping[str, Mapping[str, str]]:
    """Return what the doctor found, by check."""
    answer = await foxcast("doctor", "--json")
    assert answer.code == 0, answer
    return {one["check"]: one for one in json.loads(answer.out)}


async def test_the_doctor_names_credentials_that_were_never_proved_are_missing_or_are_refused(tmp_path: Path) -> None:
    venue = FakeManifold(SystemClock())
    async with serve_service(venue) as served:
        foxcast = manifold(tmp_path, served.url)
        found = (await checked(foxcast))["credentials"]
        assert (found["verdict"], found["found"]) == (
            "warn",
            "manifold: not verified yet; nothing is submitted before that",
        )
        missing = await foxcast("run", "--once")
        assert missing.code == 4
        assert missing.err.splitlines()[-1].endswith(
            "; renew the credentials, then check them: foxcast preflight manifold"
        )
        found = (await checked(foxcast))["credentials"]
        assert found["verdict"] == "warn"
        assert found["found"].startswith("manifold: ")
        assert "set its file as key_file in [venues.manifold.settings]" in found["found"]
        assert "foxcast preflight manifold" in found["remedy"]
        # A key that nobody at the venue has, and then one that somebody has.
        foxcast = manifold(tmp_path, served.url, 'key_file = "secret"')
        # Although no question waits.
        done = await foxcast("run", "--once")
        assert done.code == 4
        assert "foxcast: manifold: nothing is submitted, " in done.err
        refused = (await checked(foxcast))["credentials"]
        assert refused["verdict"] == "warn"
        assert refused["found"] != found["found"]
        assert KEY not in refused["found"]
        venue.world.add_user("foxbot", key=KEY, is_bot=True)
        assert (await foxcast("resume", "manifold")).code == 0
        await foxcast.once()
        assert (await checked(foxcast))["credentials"]["verdict"] == "ok"


async def test_the_doctor_says_of_the_clock_what_the_venue_showed(tmp_path: Path) -> None:
    venue = FakeManifold(SystemClock())
    venue.world.add_user("foxbot", key=KEY, is_bot=True)
    async with serve_service(venue) as served:
        foxcast = manifold(tmp_path, served.url, 'key_file = "secret"')
        await foxcast.once()
        assert (await checked(foxcast))["clock"]["verdict"] == "ok"
        venue.faults.skew_s = 600.0
        await foxcast.once()
        clock = (await checked(foxcast))["clock"]
    assert clock["verdict"] == "warn"
    assert "is off by -" in clock["found"]
    assert "chronyd" in clock["found"]


async def test_the_doctor_names_an_order_without_an_answer_until_it_is_read_back(tmp_path: Path) -> None:
    venue = FakeManifold(SystemClock())
    venue.world.add_user("foxbot", key=KEY, is_bot=True)
    venue.world.add_market("Will the lamp be lit?", prob=0.3)
    venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path="/v0/bet")
    async with serve_service(venue) as served:
        foxcast = manifold(tmp_path, served.url, 'key_file = "secret"')
        assert (await foxcast("arm", "manifold", *ARM)).code == 0
        await foxcast.once(code=3)
        found = (await checked(foxcast))["unsettled"]
        assert found["found"].startswith("manifold: 1 without an answer")
        await foxcast.once()
        assert "unsettled" not in await checked(foxcast)
    assert len(venue.ledger.effects("bet")) == 1


async def test_an_option_of_an_event_is_named_and_a_filled_order_needs_no_explanation(tmp_path: Path) -> None:
    venue = FakePolymarket(SystemClock())
    venue.world.give_key(venue.world.add_user(WALLET_KEY))
    event, _ = venue.world.add_choice("Who will win?", {"Ann": "0.5", "Bob": "0.3", "Cat": "0.2"})
    (user,) = venue.state.users.values()
    async with serve_service(venue) as served:
        settings = [f'{name} = "{url}"' for name, url in venue.addresses(served).items()]
        settings += ['key_file = "secret"', f'wallet = "{user.wallet}"', "attested = true"]
        foxcast = LiveInstallation(tmp_path, "polymarket", secret=WALLET_KEY, settings=settings)
        assert (await foxcast("arm", "polymarket", *ARM)).code == 0
        assert (await foxcast.once())["submit"] == "1 planned, 0 held, 1 acknowledged"
        [order] = await foxcast.orders()
        assert "no shares yet" in order["why"]
        # Confirmed on chain seconds after the match.
        await asyncio.sleep(5.0)
        await foxcast.once()
        [order] = await foxcast.orders()
        assert order["filled"] == order["order"]["shares"]
        assert order["why"] == ""
        # What was answered at first stays with its attempt.
        assert "no shares yet" in order["attempts"][0]["detail"]
        [account] = (await foxcast("portfolio", "--json")).json
        reported = (await foxcast("portfolio")).out
    [held] = account["positions"]
    assert (held["question"], held["option"]) == (f"polymarket:event:{event.id}", "Ann")
    assert held["title"] == "Who will win?"
    assert "yes (Ann)" in reported
