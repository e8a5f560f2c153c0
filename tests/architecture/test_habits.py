"""What code of this house does not do: reach for clock, chance, sleep or sockets, name a venue, act on import."""

import ast

import pytest

from tests.architecture.rules import busy_on_import, loose_use, mentions, undocumented, unowned_tasks
from tests.architecture.source import ROOT, Module, load

NOBODY: tuple[str, ...] = ()
ANYBODY = ("bot", "plugins")

# Dotted name -> the modules that may use it; everyone else takes it as an argument.
OWNERS = {
    # Simulated weeks pass in seconds because time and waiting come from one place.
    **dict.fromkeys(
        (
            "asyncio.sleep",
            "datetime.date.today",
            "datetime.datetime.now",
            "datetime.datetime.today",
            "datetime.datetime.utcnow",
            "time.monotonic",
            "time.monotonic_ns",
            "time.perf_counter",
            "time.perf_counter_ns",
            "time.sleep",
            "time.time",
            "time.time_ns",
        ),
        ("bot.core.clock",),
    ),
    # The same seed gives the same trace: generators are made in one place, the global ones are used nowhere.
    "numpy.random": NOBODY,
    "numpy.random.Generator": ANYBODY,
    "numpy.random.default_rng": ("bot.core.clock",),
    "os.urandom": NOBODY,
    "random": NOBODY,
    # Tokens are made where they are checked.
    "secrets": ("bot.execution.gate.access_control", "bot.store.folder_identity"),
    # An id is derived from content, so that a repeated step finds its own earlier work.
    # Client ids of Kalshi have the form of a UUID; they are derived, not drawn.
    "uuid": ("bot.core.ids", "plugins.kalshi.writer"),
    # Few places speak HTTP: each bounds sizes and times and asks the rates, or guards against addresses inside.
    **dict.fromkeys(
        (
            "aiohttp",
            "asyncio.open_connection",
            "http.client",
            "requests",
            "urllib.request",
        ),
        ("bot.net",),
    ),
    "httpcore": ("bot.net",),
    "httpx": ("bot.net",),
    "websockets": ("bot.net.websocket", "bot.testing", "bot.simulator"),
    # The supervisor is told about life and readiness over a local socket.
    "socket": ("bot.net.web", "bot.net.pooled_session", "bot.daemon", "bot.simulator.network"),
    # Environment variables are read and checked once.
    # One provider's library takes two switches from the environment, which must be set before it is imported.
    "os.environ": ("bot.config", "plugins.models"),
    "os.getenv": ("bot.config",),
    # A child of ours must run the code of this installation. One call of the program names its interpreter for a shell,
    # and the signer is one file that imports nothing of ours.
    "sys.executable": ("bot.core.child_process", "bot.cli.options", "plugins.polymarket.signer_client"),
    # Replaceable libraries stay behind one door.
    "apscheduler": ("bot.daemon",),
    "litellm": ("plugins.models",),
    "pluggy": ("bot.plugin_system.hook_specs", "bot.plugin_system.registry"),
    "sqlite3": ("bot.store", "bot.testing", "bot.simulator"),
    "sqlite_utils": ("bot.store", "bot.execution.paper", "bot.testing", "bot.simulator"),
    # Output goes through rich or the log.
    "builtins.print": NOBODY,
}

# Rules about a service live in its plugin only.
VENUES = ("manifold", "metaculus", "polymarket", "forecastbench", "kalshi")
ENGINES = ("tavily", "perplexity", "serper", "duckduckgo", "brave", "exa.ai")
MODELS = ("openai", "anthropic", "claude", "gpt-", "gemini", "llama", "mistral", "deepseek", "qwen")

MODULES = [*load(ROOT, "bot"), *load(ROOT, "plugins")]
LAUNCHER = load(ROOT, "foxcast")
# The simulator has doubles of real venues and model providers; the engine cannot import it.
DOUBLES = {ROOT / "bot" / "simulator"}
TEXTS = [
    path
    for path in sorted((ROOT / "bot").rglob("*"))
    if path.is_file() and "__pycache__" not in path.parts and DOUBLES.isdisjoint(path.parents)
]


def test_clock_chance_network_and_other_owned_things_are_used_by_their_owners_only() -> None:
    assert loose_use([*LAUNCHER, *MODULES], OWNERS) == []


def test_no_client_is_opened_without_the_proxy_that_config_names() -> None:
    clients = {"RetryingHttpClient", "HttpWriteClient", "GuardedFetcher", "WebSocketConnector"}
    engine = [module for module in MODULES if not module.name.startswith(("bot.testing.", "bot.simulator."))]
    calls = [node for module in engine for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    # By its name, or as the first argument of partial.
    opened = [call for call in calls if clients & {ast.unparse(part) for part in (call.func, *call.args[:1])}]
    assert {ast.unparse(part) for call in opened for part in (call.func, *call.args[:1])} >= clients
    assert [ast.unparse(call) for call in opened if "proxies" not in {one.arg for one in call.keywords}] == []


def test_bot_names_no_venue_search_engine_or_model() -> None:
    found = {path: mentions(path.read_text(errors="replace"), (*VENUES, *ENGINES, *MODELS)) for path in TEXTS}
    assert {str(path): lines for path, lines in found.items() if lines} == {}


def test_importing_a_module_only_defines_things() -> None:
    assert busy_on_import(MODULES) == []


def test_every_public_module_says_why_it_exists() -> None:
    assert undocumented([*LAUNCHER, *MODULES]) == []


def test_every_task_note_has_an_owner() -> None:
    assert {module.name: notes for module in MODULES if (notes := unowned_tasks(module.text))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import datetime as dt\nstarted = dt.datetime.now()",
        "from datetime import datetime\ndef f(now=datetime.now): ...",
        "from time import monotonic",
        "import asyncio\nasync def f(): await asyncio.sleep(1)",
        "import random",
        "from uuid import uuid4",
        "import numpy as np\nx = np.random.normal()",
        "from numpy.random import default_rng",
        "def f():\n    import socket",
        "import httpx",
        "import os\nhome = os.environ['HOME']",
        "print('hello')",
    ],
)
def test_use_of_an_owned_thing_is_found(source: str) -> None:
    assert loose_use([Module(name="bot.execution.gate.caps", text=source)], OWNERS) != []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\ndef f(rng: np.random.Generator): ...",
        "def f(random, time): return random.stream(time.time())",
        "from datetime import datetime\ndef f(now: datetime): ...",
        "from rich import print\nprint('hello')",
    ],
)
def test_use_of_an_argument_or_of_a_type_is_free(source: str) -> None:
    assert loose_use([Module(name="bot.execution.gate.caps", text=source)], OWNERS) == []


def test_an_owner_may_use_what_it_owns() -> None:
    source = "import time\ntime.monotonic()"
    assert loose_use([Module(name="bot.core.clock", text=source)], OWNERS) == []
    assert loose_use([Module(name="bot.clockwork", text=source)], OWNERS) == ["bot.clockwork:2 uses time.monotonic"]


@pytest.mark.parametrize("text", ["As Metaculus does.", "limits = {'MANIFOLD_API': 500}", "model = 'gpt-9'"])
def test_a_name_of_a_service_is_found(text: str) -> None:
    assert len(mentions(text, (*VENUES, *ENGINES, *MODELS))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "configure()",
        "for x in range(3): ...",
        "with open('x') as f: ...",
        "if TYPE_CHECKING:\n    run()",
        "if not TYPE_CHECKING:\n    run()",
        "if x:\n    import b",
        "del x",
    ],
)
def test_work_on_import_is_found(source: str) -> None:
    assert busy_on_import([Module(name="bot.x", text=f"from typing import TYPE_CHECKING\n{source}")]) == ["bot.x:2"]


def test_only_a_program_may_start_and_only_when_it_is_run() -> None:
    start = 'if __name__ == "__main__":\n    run()'
    assert busy_on_import([Module(name="bot.x.__main__", text=start)]) == []
    assert busy_on_import([Module(name="bot.x", text=start)]) == ["bot.x:1"]
    assert busy_on_import([Module(name="bot.x.__main__", text="if __name__:\n    run()")]) == ["bot.x.__main__:1"]


def test_definitions_on_import_are_allowed() -> None:
    source = '"""Why."""\nimport a\nX: int = 1\nif TYPE_CHECKING:\n    import b\ndef f(): ...\nclass C: ...'
    source += "\nif not TYPE_CHECKING:\n    def g(): ..."
    assert busy_on_import([Module(name="bot.x", text=source)]) == []


def test_a_module_without_a_docstring_is_found() -> None:
    bare, private = (Module(name=name, text="x = 1") for name in ("bot.x", "bot._x"))
    assert undocumented([bare, private]) == ["bot.x"]


def test_a_task_note_without_an_owner_is_found() -> None:
    assert unowned_tasks("x = 1  # TODO: later\ny = 2  # TODO(ada): split") == ["line 1: x = 1  # TODO: later"]
