"""How commands end that are stopped, that nobody lets in, or that a daemon does for them: codes, and what is said."""

import asyncio
import signal
from pathlib import Path

import pytest

from bot.testing.model_server import CompletionRequest, ScriptedReply, never_reply, reply_error
from tests.acceptance.scripted_installation import (
    CONFIG,
    PRICE,
    RAIN,
    ROLE,
    VENUE,
    daemon_of,
    searching,
    serving,
    wait_for_result,
)

ALL = CONFIG + VENUE + ROLE + PRICE
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.parametrize("number", CODES)
async def test_a_stopped_pass_says_so_at_once_and_what_it_left(tmp_path: Path, number: signal.Signals) -> None:
    begun = asyncio.Event()
    through = searching(4, probability=0.2)

    def play(asked: CompletionRequest) -> ScriptedReply:
        begun.set()
        return through(asked)

    async with serving(tmp_path, play, config=ALL) as context:
        process = await context.begin("run", "--once")
        async with asyncio.timeout(20):
            await begun.wait()
        process.send_signal(number)
        ended = await wait_for_result(process)
    first, *_, last = [line for line in ended.err.splitlines() if line.startswith("foxcast: ")]
    assert ended.code == CODES[number]
    assert first.startswith("foxcast: stopping; running jobs may finish within 30 s")
    assert last.startswith("foxcast: interrupted; not begun: reconcile, ready, close, submit, ")
    # What was under way is done, and reported.
    assert "2 forecasts made" in ended.out


async def test_a_second_signal_ends_a_pass_that_winds_down(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def play(_: CompletionRequest) -> ScriptedReply:
        begun.set()
        return never_reply()

    async with serving(tmp_path, play, config=ALL) as context:
        process = await context.begin("run", "--once")
        async with asyncio.timeout(20):
            await begun.wait()
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while b"foxcast: stopping" not in await process.stderr.readline():
            assert process.returncode is None
        process.send_signal(signal.SIGINT)
        assert (await wait_for_result(process)).code == -signal.SIGINT


async def test_sigterm_ends_a_forecast_as_the_keyboard_does(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def play(_: CompletionRequest) -> ScriptedReply:
        begun.set()
        return never_reply()

    async with serving(tmp_path, play) as context:
        process = await context.begin("forecast", context.write("q.toml", RAIN))
        async with asyncio.timeout(20):
            await begun.wait()
        process.send_signal(signal.SIGTERM)
        ended = await wait_for_result(process)
    assert ended.code == 143
    assert ended.err.splitlines()[-1].startswith("foxcast: ended by SIGTERM; answers so far are recorded")


async def test_a_pass_whose_key_is_refused_ends_with_the_variable_to_set(tmp_path: Path) -> None:
    async with serving(tmp_path, lambda _: reply_error(401), config=ALL) as context:
        ended = await context("run", "--once")
    assert ended.code == 4
    assert "FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS__HERE__API_KEY" in ended.err
    assert "forecast postponed" not in ended.err
    assert "keeper" in ended.out


async def test_a_forecast_that_is_asked_of_the_daemon_does_not_wait_for_its_next_pass(tmp_path: Path) -> None:
    config = ALL.replace("forecast_every_s = 0.5", "forecast_every_s = 86400")
    async with serving(tmp_path, searching(1, probability=0.2), config=config) as context:
        await daemon_of(context)
        async with asyncio.timeout(20):
            made = await context("forecast", context.write("q.toml", RAIN), "--forecaster", "blf")
    assert made.code == 0
