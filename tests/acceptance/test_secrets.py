"""Secrets in every place where one may stand, others that repeat them, and a look at all that Foxcast left behind."""

import asyncio
import base64
import json
import sqlite3
import stat
import urllib.parse
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.core.redaction import REDACTION_MARK
from bot.simulator.fake_service import serve_service
from bot.store.compression import FAST_LEVEL, compress_bytes, decompress_bytes
from bot.testing.model_server import ScriptedModelServer
from tests.acceptance.conftest import CommandResult, FoxcastInstallation, installed
from tests.acceptance.echoing_servers import ENGINE, SecretEchoingManifold, echoes, secret_echoing_replies

VENUE_KEY = "canary-venue+0a1b/2c3d=4e5f6071"
MODEL_KEY = "sk-canary-model-Q8f2LmZx71TgYb54Wd90"
ENGINE_KEY = "0x" + "c0ffee77" * 8
HEADER_KEY = "canary-header-5512-7741-aa"
CONFIG = """
plugins = ["manifold", "blf", "openai_compatible", "shelf"]
plugin_files = ["shelf.py"]

[venues.manifold]
mode = "live"
comment = true
forecasters = ["blf"]
[venues.manifold.settings]
base_url = "VENUE"
key_file = "venue.key"
username = "foxbot"
min_bettors = 0

[search.shelf.settings]
key_file = "engine.key"

[models.openai_compatible.settings.endpoints.here]
base_url = "SERVER"
headers = { "X-Api-Key" = "HEADER" }

[llm.roles.main]
model = "openai_compatible:here/scripted"
[llm.models."openai_compatible:here/scripted"]
price_in = 1.0
price_out = 2.0

[forecasters.blf]
trials = 1
"""
MODEL_VARIABLE = "FOXCAST_MODELS__OPENAI_COMPATIBLE__SETTINGS__ENDPOINTS__HERE__API_KEY"

ARM = ("arm", "manifold", "--for", "24h", "--per-order", "50", "--per-day", "60", "--total", "200")
# How each of these ends.
AFTERWARDS = {
    ("--debug", "doctor"): 0,
    ("preflight", "manifold", "--as-if-armed", "--json"): 0,
    ("orders", "--json"): 0,
    ("questions", "--json"): 0,
    ("audit", "show", "--json"): 0,
    ("--debug", "db", "restore", "nowhere"): 8,
    ("db", "backup"): 0,
    ("db", "export", "exported"): 0,
}

pytestmark = pytest.mark.timeout(400)


def forms(secret: str) -> Iterator[bytes]:
    """Yield the middle of the secret in each encoding: what is left of it nowhere."""
    bare = secret.removeprefix("0x")
    for text in {bare, urllib.parse.quote(bare, safe=""), json.dumps(bare)[1:-1], bare.encode().hex()}:
        for cased in {text, text.lower(), text.upper()}:
            yield cased[2:-2].encode()
    for before in range(3):
        digits = base64.b64encode(b"x" * before + secret.encode())
        yield digits[4:-4]
        yield digits[4:-4].replace(b"+", b"-").replace(b"/", b"_")
    if secret.startswith("0x"):
        yield base64.b64encode(bytes.fromhex(bare))[:-4]


def contents(path: Path) -> Iterator[bytes]:
    """Yield what is in a file: its bytes and, of a ledger, each value of each table, documents unpacked."""
    yield path.read_bytes()
    if path.suffix not in {".sqlite", ".db"}:
        return
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            rows = database.execute(f'select * from "{table}"')  # noqa: S608 - names of the file itself
            yield from chain.from_iterable(_cell_bytes(value) for row in rows for value in row)


def _cell_bytes(value: object) -> tuple[bytes, ...]:
    return (value, _unpacked(value)) if isinstance(value, bytes) else (str(value).encode(),)


def _unpacked(value: bytes) -> bytes:
    try:
        return decompress_bytes(value)
    except ValueError:
        return b""


def leaks(what: bytes, secrets: dict[str, str]) -> set[str]:
    return {name for name, secret in secrets.items() if any(form in what for form in forms(secret))}


def leaks_in(folder: Path, secrets: dict[str, str]) -> set[tuple[str, str]]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "ballast"]
    assert any(path.name == "ledger.sqlite" for path in files)
    return {(str(path), name) for path in files for what in contents(path) for name in leaks(what, secrets)}


class SecretInstallation:
    """An installation with the secrets, and all that its commands said."""

    def __init__(self, folder: Path, venue: str, server: str) -> None:
        self.foxcast: FoxcastInstallation = installed(folder, "")
        text = CONFIG.replace("VENUE", venue).replace("SERVER", server).replace("HEADER", HEADER_KEY)
        self.foxcast.config.write_text(text)
        (folder / "shelf.py").write_text(ENGINE)
        for name, secret in {"venue.key": VENUE_KEY, "engine.key": ENGINE_KEY}.items():
            (folder / name).write_text(f"{secret}\n")
            (folder / name).chmod(0o600)
        self.extra = {MODEL_VARIABLE: MODEL_KEY, "COLUMNS": "300"}
        self.secrets = {"venue": VENUE_KEY, "model": MODEL_KEY, "engine": ENGINE_KEY, "header": HEADER_KEY}
        self.state = folder / "state"
        self.outputs: list[str] = []

    async def __call__(self, *arguments: str) -> CommandResult:
        foxcast = self.foxcast.with_environment(**self.extra)
        # In a thread, while the loop of this one serves what the command asks.
        answer = await asyncio.to_thread(foxcast, *arguments)
        self.outputs += [answer.out, answer.err]
        return answer

    async def become_keeper(self) -> None:
        """Be the one who has a token, which is said this once."""
        made = await self("principal", "add", "keeper", "--role", "approver")
        assert made.code == 0, made
        self.outputs.clear()
        self.secrets["token"] = self.extra["FOXCAST_TOKEN"] = made.out.strip()

    async def live(self) -> CommandResult:
        """Make one pass, while somebody reads the ledger, so that the write-ahead log stays."""
        [path] = self.state.rglob("ledger.sqlite")
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from event").fetchone()
            answer = await self("--debug", "run", "--once")
            assert path.with_name("ledger.sqlite-wal").stat().st_size
            assert leaks_in(self.state, self.secrets) == set()
        return answer


async def test_no_secret_is_left_anywhere_when_everybody_repeats_them(tmp_path: Path) -> None:
    venue = SecretEchoingManifold(SystemClock())
    venue.world.add_user("foxbot", key=VENUE_KEY, is_bot=True)
    # The one is never traded: what is on record is not its text.
    venue.world.add_market(f"Will the lamp be lit? {VENUE_KEY}", prob=0.3)
    venue.world.add_market("Will the fire be lit?", prob=0.3)
    async with (
        serve_service(venue) as served,
        ScriptedModelServer(secret_echoing_replies(VENUE_KEY, MODEL_KEY, ENGINE_KEY)) as server,
    ):
        run = SecretInstallation(tmp_path, served.url, server.base_url)
        await run.become_keeper()
        assert (await run(*ARM)).code == 0
        output = await run.live()
        assert venue.refusals == 0, output.err
        assert (await run("halt", "--reason", f"it said {echoes(run.secrets['token'])}")).code == 0
        venue.redirects = 1
        codes = {command: (await run(*command)).code for command in AFTERWARDS}
    assert codes == AFTERWARDS
    assert venue.redirects == 0
    heard = json.dumps([dict(asked.body) for asked in server.requests])
    assert "Will the lamp be lit?" in heard
    assert "https://almanac.example/rain" in heard
    assert leaks(heard.encode(), run.secrets) == set()
    assert {name for text in run.outputs for name in leaks(text.encode(), run.secrets)} == set()
    assert [text for text in run.outputs if REDACTION_MARK in text]
    assert REDACTION_MARK in heard
    assert leaks_in(run.state, run.secrets) == set()
    assert leaks_in_export(tmp_path / "exported", run.secrets) == set()
    # Everybody was heard: each of these would hold a secret.
    marked = {path.stem for path in (tmp_path / "exported").iterdir() if REDACTION_MARK in path.read_text()}
    assert marked >= {"attempt", "audit", "intent", "question", "evidence_document"}
    copies = [path for path in run.state.rglob("backups/*") if path.is_file()]
    assert copies
    assert {stat.S_IMODE(path.stat().st_mode) for path in copies} == {0o600}


def leaks_in_export(folder: Path, secrets: dict[str, str]) -> set[str]:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    return leaks(b"\n".join(path.read_bytes() for path in folder.iterdir()), secrets)


def test_the_look_finds_what_it_is_to_find(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database:
        database.execute("create table document (packed blob)")
        database.execute(
            "insert into document values (?)", [compress_bytes(echoes(ENGINE_KEY).encode(), level=FAST_LEVEL)]
        )
        database.commit()
    assert {name for _, name in leaks_in(tmp_path, {"engine": ENGINE_KEY, "venue": VENUE_KEY})} == {"engine"}
    for secret in (VENUE_KEY, MODEL_KEY, ENGINE_KEY, HEADER_KEY):
        for form in (secret, secret.encode().hex(), base64.b64encode(f"u:{secret}".encode()).decode()):
            assert leaks(f"a {form} b".encode(), {"it": secret}) == {"it"}
