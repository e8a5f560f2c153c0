"""The process that runs one piece of Python and ends: limits first, then an interpreter that has no way out.

It is started by ``bot.desk.calculator``, reads one JSON object from its standard input and writes one to its output.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

_SEED = 1
_DEPTH = 200
# Of the Linux call unshare: a user of one's own, and with it a network with nothing in it.
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def main() -> None:
    """Answer once."""
    asked = json.loads(sys.stdin.buffer.read())
    _leave_network()
    _confine(asked)
    said = json.dumps(answer(asked), ensure_ascii=True).encode()
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()
    # Threads of the library may outlive the interpreter's end by a moment, which would end in an abort.
    os._exit(0)


def answer(asked: Mapping[str, Any]) -> dict[str, str]:
    """Return what the program printed, the value of its last line, and what went wrong, each if any."""
    printed = _Printed(int(asked["chars"]))
    try:
        value = _run(asked, printed)
        shown = "" if value is None else repr(value)[: printed.limit]
    except Exception as error:  # noqa: BLE001 - whatever the program, the library or a lack of memory brings is told
        return {"printed": printed.text, "error": _why(error)[: printed.limit]}
    return {"printed": printed.text, "value": shown}


class _Printed:
    """Takes what is printed, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.text = ""

    def take(self, _stream: str, text: str) -> None:
        self.text += text[: self.limit - len(self.text)]


def _run(asked: Mapping[str, Any], printed: _Printed) -> object:
    from pydantic_monty import Monty  # noqa: PLC0415 - in the child alone, and after its limits

    limits: Any = {
        "max_feed_duration_secs": float(asked["seconds"]),
        "max_memory": int(asked["memory_bytes"]),
        "max_recursion_depth": _DEPTH,
        "max_suspensions": 100,
    }
    policy: Any = {
        "datetime": datetime.fromisoformat(asked["now"]),
        "timezone": "utc",
        "sleep": "zero",
        "random_start": {"seed": _SEED},
    }
    with Monty(max_processes=1) as pool, pool.checkout(limits=limits, os_policy=policy) as session:
        return session.feed_run(str(asked["code"]), print_callback=printed.take)


def _why(error: Exception) -> str:
    show = getattr(error, "display", None)
    return str(show()) if callable(show) else f"{type(error).__name__}: {error}"


def _leave_network() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)


def _confine(asked: Mapping[str, Any]) -> None:
    """Bound memory and computing, and forbid writing files and dumps; not every system knows each limit."""
    seconds = int(asked["seconds"]) + 3
    limits = {"RLIMIT_AS": int(asked["space_bytes"]), "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    for name, most in limits.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))
