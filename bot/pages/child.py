"""The process that reads pages: under limits of memory and time it turns one page after another into text.

It is started by ``bot.pages.reader``, speaks frames (four bytes of length, then JSON or the page) over its standard
input and output, and ends when the input ends. A page that breaks it takes nothing else down.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import BinaryIO

from bot.errors import ContractError
from bot.pages.extract import extract

_WARMING = (
    b"<html><head><title>x</title></head><body><article><p>" + b"warm words. " * 40 + b"</p></article></body></html>"
)


def main() -> None:
    """Serve until the input ends."""
    # Ctrl-C reaches the whole group of processes; ending this one is the parent's business.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not look like an answer.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    limits = json.loads(_frame(asked) or b"{}")
    extract(_WARMING, "text/html", longest=1000)
    _confine(int(limits["memory_bytes"]))
    _send(answers, {"ready": True})
    while (head := _frame(asked)) is not None and (content := _frame(asked)) is not None:
        _allow_cpu(int(limits["cpu_s"]))
        _send(answers, answer(content, json.loads(head)["media_type"], longest=int(limits["chars"])))


def answer(content: bytes, media_type: str, *, longest: int) -> dict[str, str | None]:
    """Return the answer to one page: its title, text and date, or why it could not be read."""
    try:
        found = extract(content, media_type, longest=longest)
    except ContractError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "it takes too much memory"}
    except Exception as error:  # noqa: BLE001 - whatever a hostile page makes a library raise, the next page is read
        return {"error": f"its form is beyond reading ({type(error).__name__})"}
    moment = found.published_at
    return {"title": found.title, "text": found.text, "published_at": moment.isoformat() if moment else None}


def _frame(source: BinaryIO) -> bytes | None:
    length = source.read(4)
    if len(length) < 4:
        return None
    body = source.read(int.from_bytes(length, "big"))
    return body if len(body) == int.from_bytes(length, "big") else None


def _send(answers: BinaryIO, said: object) -> None:
    body = json.dumps(said, ensure_ascii=False).encode("utf-8", "replace")
    answers.write(len(body).to_bytes(4, "big") + body)
    answers.flush()


def _confine(memory_bytes: int) -> None:
    """Bound memory, and forbid writing files and dumps; not every system knows each limit."""
    limits = {"RLIMIT_AS": memory_bytes, "RLIMIT_CORE": 0, "RLIMIT_FSIZE": 0}
    for name, most in limits.items():
        with suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))


def _allow_cpu(seconds: int) -> None:
    """Let the next page have that many seconds of computing; the system ends the process that takes more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    with suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1 + seconds, hard))
