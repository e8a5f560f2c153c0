"""The signer as a process: nobody else holds the key, and one that dies or is silent has signed nothing."""

import json
import os
import signal
import subprocess
import sys
import venv
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from bot.api import AuthenticationError, ConfigError, MalformedDataError, RequestRejectedError, ServiceUnavailableError
from plugins.polymarket import signer, signer_client
from plugins.polymarket.signer_client import SignerClient, SignerProcess, UnsignedOrder
from tests.plugins.polymarket.test_signer import BUY, T1, opening
from tests.plugins.polymarket.writer_fixture import KEY, InProcessSigner


@pytest.fixture
async def child() -> AsyncIterator[SignerProcess]:
    line = SignerProcess(sys.executable)
    yield line
    await line.aclose()


UNSIGNED = UnsignedOrder(
    token=T1,
    side="BUY",
    type="GTD",
    neg_risk=False,
    maker_amount=7_033_800,
    taker_amount=12_340_000,
    timestamp_ms=1_763_700_000_000,
    expiration=1_763_800_000,
    salt=12_345,
)


async def test_a_killed_signer_signs_nothing_and_is_started_anew_with_the_day_as_it_was(
    child: SignerProcess, tmp_path: Path
) -> None:
    given = SignerClient(opening(tmp_path), child)
    first = await given.sign_order(UNSIGNED)
    assert first.order["makerAmount"] == "7033800"
    pid = child.pid
    assert pid is not None
    about = psutil.Process(pid)
    # A signal for all that runs in the terminal is not for it.
    assert os.getpgid(pid) == pid
    shown = about.cmdline()
    # Of a process without memory dumps only root may read the environment.
    with suppress(psutil.AccessDenied):
        shown += about.environ().values()
    assert not any(KEY[2:] in text or str(tmp_path / "key") in text for text in shown)
    about.kill()
    with pytest.raises(ServiceUnavailableError, match="nothing was signed, nothing was sent; it will be restarted"):
        await given.sign_order(UNSIGNED)
    assert (await given.sign_order(UNSIGNED)).hash == first.hash
    with pytest.raises(ServiceUnavailableError, match=r"signer_per_day = 20: 14\.0676.* were signed"):
        await given.sign_order(UNSIGNED)
    await given.aclose()
    assert child.pid is None
    assert not psutil.pid_exists(pid)


async def test_a_silent_signer_is_ended(child: SignerProcess, tmp_path: Path) -> None:
    assert '"ok"' in await child.ask(opening(tmp_path), within_s=25)
    pid = child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ServiceUnavailableError, match="did not answer"):
        await child.ask(BUY, within_s=0.2)
    assert not psutil.pid_exists(pid)


async def test_where_the_extra_is_missing_it_is_named(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare")
    line = SignerProcess(str(tmp_path / "bare" / "bin" / "python"))
    given = SignerClient(opening(tmp_path), line)
    with pytest.raises(ConfigError, match=r"pip install foxcast\[polymarket\]"):
        await given.open()
    await given.aclose()


async def test_a_python_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="signer_python"):
        await SignerClient(opening(tmp_path), SignerProcess(str(tmp_path / "python"))).open()


def test_the_signer_imports_neither_models_nor_foxcast(tmp_path: Path) -> None:
    requests = "\n".join(json.dumps(request) for request in (opening(tmp_path), {"do": "login", "timestamp": 1}, BUY))
    ended = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", "-c", signer_client.START_CODE, signer.__file__],
        input=requests,
        capture_output=True,
        text=True,
        check=True,
        env={},
    )
    assert ended.stdout.count('"ok"') == 3
    names = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}
    assert "polymarket" in names
    roots = {name.partition(".")[0] for name in names}
    assert roots.isdisjoint({"litellm", "openai", "bot", "plugins"})


async def test_an_answer_that_makes_no_sense_is_none(tmp_path: Path) -> None:
    class Odd(InProcessSigner):
        def __init__(self, *answers: str) -> None:
            super().__init__()
            self.answers = list(answers)

        async def ask(self, request: Any, *, within_s: float) -> str:
            return self.answers.pop(0)

    with pytest.raises(ServiceUnavailableError, match="not JSON"):
        await SignerClient(opening(tmp_path), Odd("<html>")).open()
    for answer in ('{"ok": {}}', '{"ok": {"order": [], "hash": "0x1"}}'):
        with pytest.raises(MalformedDataError, match="incomplete"):
            await SignerClient(opening(tmp_path), Odd('{"ok": {"address": "0x"}}', answer)).sign_order(UNSIGNED)
    with pytest.raises(MalformedDataError, match="incomplete"):
        await SignerClient(opening(tmp_path), Odd('{"ok": {}}', '{"ok": {}}')).sign_login(1)
    with pytest.raises(RequestRejectedError, match="no reason given"):
        await SignerClient(opening(tmp_path), Odd("{}")).open()


async def test_without_key_and_wallet_nothing_is_started() -> None:
    with pytest.raises(AuthenticationError, match=r"key_file and wallet are not set in \[venues.polymarket.settings\]"):
        await SignerClient(None, InProcessSigner()).open()
