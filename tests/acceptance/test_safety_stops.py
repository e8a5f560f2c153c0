"""Safety stops of a live venue, with real commands and real HTTP: credentials that are refused, answers lost in bursts.

The double takes a request every 3.6 seconds, as the real site asks for.
"""

import asyncio
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.faults import RequestFault
from bot.simulator.venues.metaculus import FakeMetaculus
from tests.acceptance.live_installation import LiveInstallation, writes

TOKEN = "0123456789abcdef0123456789abcdef01234567"  # noqa: S105 - of a fake account
FORECASTS = "/api/questions/forecast/"

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]


@pytest.fixture
async def venue() -> FakeMetaculus:
    return FakeMetaculus(SystemClock(), production=True)


def create_installation(folder: Path, url: str, more: str = "") -> LiveInstallation:
    settings = [f'base_url = "{url}"', 'tournaments = ["sample-aib"]', 'token_file = "secret"']
    made = LiveInstallation(folder, "metaculus", secret=TOKEN, settings=settings, more=more)
    made.foxcast.config.write_text(made.foxcast.config.read_text().replace("comment = true", "comment = false"))
    return made


async def test_after_a_revoked_token_one_request_is_refused_and_no_other_is_made(
    venue: FakeMetaculus, tmp_path: Path
) -> None:
    bot = venue.world.add_user("foxbot", token=TOKEN)
    for number in range(3):
        venue.world.add_question(f"Will lamp {number} be lit?")
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        bot.token = "f" * 40
        refused = await foxcast("run", "--once")
        assert (refused.code, len(venue.requests)) == (4, 1)
        assert "the credentials were refused (status 403: Invalid token.)" in refused.err
        again = await foxcast("run", "--once")
        assert (again.code, len(venue.requests)) == (4, 1)
        status, doctor = await foxcast("status"), (await foxcast("doctor", "--json")).json
        assert "stopped: metaculus, by foxcast" in status.out
        assert "the credentials were refused" in status.out
        [credentials] = [found for found in doctor if found["check"] == "credentials"]
        assert (credentials["verdict"], "good" in credentials["found"]) == ("warn", False)
        assert "foxcast resume metaculus" in credentials["remedy"]
        # Somebody gave the old token back, and says so.
        bot.token = TOKEN
        assert (await foxcast("resume", "metaculus")).code == 0
        assert (await foxcast("run", "--once")).code == 0
    assert len([path for path, _ in writes(venue) if path == FORECASTS]) == 3


async def test_a_renewed_token_is_tried_at_the_next_start(venue: FakeMetaculus, tmp_path: Path) -> None:
    bot, other = venue.world.add_user("foxbot", token=TOKEN), "f" * 40
    venue.world.add_question("Will the lamp be lit?")
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        bot.token = other
        assert (await foxcast("run", "--once")).code == 4
        (tmp_path / "secret").write_text(f"{other}\n")
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        assert (await foxcast("run", "--once")).code == 0
        assert "stopped" not in (await foxcast("status")).out
    assert len([path for path, _ in writes(venue) if path == FORECASTS]) == 1


async def _wait_until(process: asyncio.subprocess.Process, is_so: Callable[[], bool]) -> None:
    while not is_so():
        assert process.returncode is None
        await asyncio.sleep(0.2)


async def test_a_running_daemon_asks_again_once_a_person_resumes(venue: FakeMetaculus, tmp_path: Path) -> None:
    bot = venue.world.add_user("foxbot", token="f" * 40)
    venue.world.add_question("Will the lamp be lit?")
    every_second = "\n[daemon]\ndiscover_every_s = 1\nforecast_every_s = 1\nsubmit_every_s = 1\nrequests_every_s = 1\n"
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url, every_second)
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        process = await foxcast.start_command("run")
        try:
            async with asyncio.timeout(60):
                await _wait_until(process, lambda: bool(venue.requests))
            await asyncio.sleep(2)
            assert "the credentials were refused" in (await foxcast("status")).out
            asked = len(venue.requests)
            await asyncio.sleep(3)
            assert len(venue.requests) == asked
            bot.token = TOKEN
            assert (await foxcast("resume", "metaculus")).code == 0
            async with asyncio.timeout(60):
                await _wait_until(process, lambda: bool(writes(venue)))
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = await process.communicate()
        assert process.returncode == 0, err
    assert [path for path, _ in writes(venue)] == [FORECASTS]


async def test_a_burst_of_lost_answers_stops_the_venue_until_they_are_read_back(
    venue: FakeMetaculus, tmp_path: Path
) -> None:
    venue.world.add_user("foxbot", token=TOKEN)
    for number in range(6):
        venue.world.add_question(f"Will lamp {number} be lit?")
    venue.faults.schedule(RequestFault.DROPPED_AFTER, method="POST", path=FORECASTS, times=4)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        first = await foxcast("run", "--once")
        assert first.code == 3
        assert "4 submissions to metaculus have no answer" in first.err
        assert re.search(r"foxcast: \d+ s, submit: 6 of 6 forecasts, \d of 6 submissions", first.err)
        assert "it resumes by itself" in (await foxcast("status")).out
        second = await foxcast("run", "--once")
        assert second.code == 0, second
        assert "stopped" not in (await foxcast("status")).out
        assert [row["state"] for row in await foxcast.orders()] == ["acked"] * 6
    assert len([path for path, _ in writes(venue) if path == FORECASTS]) == 6
    assert venue.rate_limit_checker.violations == []


@pytest.mark.parametrize("once", [True, False])
async def test_sigterm_during_a_long_submission_ends_within_seconds(
    venue: FakeMetaculus, tmp_path: Path, *, once: bool
) -> None:
    venue.world.add_user("foxbot", token=TOKEN)
    for number in range(20):
        venue.world.add_question(f"Will lamp {number} be lit?")
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        process = await foxcast.start_command(*(["run", "--once"] if once else ["run"]))
        async with asyncio.timeout(120):
            while len(writes(venue)) < 2:
                assert process.returncode is None
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        async with asyncio.timeout(60):
            _, err = await process.communicate()
        took_s = time.monotonic() - began
        assert process.returncode == (143 if once else 0)
        assert b"Traceback" not in err
        assert took_s < 15.0
        sent = len(writes(venue))
        assert sent <= 4
        states = [row["state"] for row in await foxcast.orders()]
        assert len(states) == 20
        # What was on the wire is known, or unknown; nothing is lost.
        assert sum(state in {"acked", "unknown", "sending"} for state in states) == sent
