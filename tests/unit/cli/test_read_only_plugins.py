"""A command beside a daemon keeps the rates that the daemon has used."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from bot.cli.read_only_plugins import open_shared_rates
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.clock import SeededRandom
from bot.core.venue_http import RateLimit
from bot.net.rate_limit import RateLimiter
from bot.store.ledger import LEDGER_FILE, state_folder
from bot.store.rate_usage import LOCK_HOLDER_NAME, RATE_USAGE_FOLDER, SharedRateUsageFiles
from bot.testing.clock import FakeClock
from tests.blank_ledger import open_blank_ledger

RATE = RateLimit(name="quay", prefixes=("https://quay.example/",), count=1, per_s=60.0)


def configured(folder: Path) -> Config:
    (folder / "config.toml").write_text("")
    return load_config(folder / "config.toml", {})


async def ask(rates: RateLimiter) -> None:
    async with rates.acquire("GET", "https://quay.example/1", patience_s=900.0) as turn:
        turn.record_response(200, {})


async def test_what_the_daemon_used_is_used(tmp_path: Path) -> None:
    config, clock, random = configured(tmp_path), FakeClock(), SeededRandom(1)
    async with open_blank_ledger(state_folder(config) / LEDGER_FILE, now=clock.now()) as ledger:
        await ask(RateLimiter([RATE], clock=clock, random=random, store=ledger.rates))
        async with AsyncExitStack() as stack:
            asking = asyncio.ensure_future(
                ask(await open_shared_rates(config, [RATE], clock=clock, random=random, stack=stack))
            )
            await clock.advance(59.0)
            assert not asking.done()
            await clock.advance(600.0)
            await asking


async def test_what_a_command_used_the_daemon_counts(tmp_path: Path) -> None:
    config, clock, random = configured(tmp_path), FakeClock(), SeededRandom(1)
    folder = state_folder(config)
    async with open_blank_ledger(folder / LEDGER_FILE, now=clock.now()) as ledger, AsyncExitStack() as stack:
        shared = SharedRateUsageFiles(folder=folder / RATE_USAGE_FOLDER, name=LOCK_HOLDER_NAME)
        daemon = RateLimiter([RATE], clock=clock, random=random, store=ledger.rates, shared=shared)
        await ask(await open_shared_rates(config, [RATE], clock=clock, random=random, stack=stack))
        asking = asyncio.ensure_future(ask(daemon))
        await clock.advance(59.0)
        assert not asking.done()
        await clock.advance(600.0)
        await asking


async def test_without_a_ledger_nothing_was_used(tmp_path: Path) -> None:
    clock, random = FakeClock(), SeededRandom(1)
    async with AsyncExitStack() as stack:
        await ask(await open_shared_rates(configured(tmp_path), [RATE], clock=clock, random=random, stack=stack))
