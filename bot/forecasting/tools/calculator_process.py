"""The child process that runs one Python program for the calculator.

It sets resource limits first, then starts an interpreter without files or network.
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
# Of the Linux call unshare: a new user namespace, and with it an empty network namespace.
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def run_request() -> None:
    """Answer one request."""
    request = json.loads(sys.stdin.buffer.read())
    _leave_network()
    _set_resource_limits(request)
    answer = json.dumps(evaluate_program(request), ensure_ascii=True).encode()
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
    # Threads of the library may outlive the interpreter by a moment, which would abort the process.
    os._exit(0)


def evaluate_program(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the output of the program, the value of its last line, and its error; each may be missing."""
    printed = _PrintedOutput(int(request["chars"]))
    try:
        value = _run_program(request, printed)
        shown = "" if value is None else repr(value)[: printed.limit]
    except Exception as error:  # noqa: BLE001 - every failure of the program, the library or memory is reported
        return {"printed": printed.text, "error": _describe_error(error)[: printed.limit]}
    return {"printed": printed.text, "value": shown}


class _PrintedOutput:
    """Collects the output, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.text = ""

    def take(self, _stream: str, text: str) -> None:
        self.text += text[: self.limit - len(self.text)]


def _run_program(request: Mapping[str, Any], printed: _PrintedOutput) -> object:
    from pydantic_monty import Monty  # noqa: PLC0415 - in the child alone, and after its limits

    limits: Any = {
        "max_feed_duration_secs": float(request["seconds"]),
        "max_memory": int(request["memory_bytes"]),
        "max_recursion_depth": _DEPTH,
        "max_suspensions": 100,
    }
    policy: Any = {
        "datetime": datetime.fromisoformat(request["now"]),
        "timezone": "utc",
        "sleep": "zero",
        "random_start": {"seed": _SEED},
    }
    with Monty(max_processes=1) as pool, pool.checkout(limits=limits, os_policy=policy) as session:
        return session.feed_run(str(request["code"]), print_callback=printed.take)


def _describe_error(error: Exception) -> str:
    show = getattr(error, "display", None)
    return str(show()) if callable(show) else f"{type(error).__name__}: {error}"


def _leave_network() -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)


def _set_resource_limits(request: Mapping[str, Any]) -> None:
    """Limit memory and CPU time, and forbid writing files and core dumps; not every system has each limit."""
    seconds = int(request["seconds"]) + 3
    limits = {"RLIMIT_AS": int(request["space_bytes"]), "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    for name, limit in limits.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (limit, limit))
