"""The watchdog that still runs when the event loop does not: an operating-system thread.

It cannot run while native code holds the interpreter's lock; against that, only the supervisor's own watchdog helps.
"""

import faulthandler
import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog

from bot.daemon.silence import Silence
from bot.daemon.watch import Watch

log = structlog.get_logger(__name__)

# EX_SOFTWARE of sysexits.h; a supervisor starts the process again.
HUNG = 70
# A hang may come from a full pipe behind stderr, where the last words would hang as well.
LAST_WORDS_S = 5.0
STDERR = 2


def dump_stacks() -> None:
    """Write the stack of every thread to the process's own stderr, even if something replaced ``sys.stderr``."""
    faulthandler.dump_traceback(file=STDERR, all_threads=True)


def _die() -> None:
    threading.Timer(LAST_WORDS_S, os._exit, [HUNG]).start()
    dump_stacks()
    log.critical("event loop hangs, process ends", exit_code=HUNG)
    # Nothing that would need the loop, a lock or the interpreter's goodwill: the ledger survives a kill at any moment.
    os._exit(HUNG)


class Watchdog:
    """While entered, ends the process when the event loop gave no sign of life for ``abort_after_s``.

    ``signs`` returns how many signs of life there were so far; ``wakeup`` is called from the thread after
    ``wake_after_s``; ``die`` does not return.
    """

    def __init__(
        self, watch: Watch, *, signs: Callable[[], int], wakeup: Callable[[], None], die: Callable[[], None] = _die
    ) -> None:
        self._watch = watch
        self._signs = signs
        self._wakeup = wakeup
        self._die = die
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        silence = Silence(self._watch.look_s)
        while not self._over.wait(self._watch.look_s):
            silent_s = silence.look(self._signs())
            if silent_s >= self._watch.abort_after_s:
                self._die()
            elif silent_s >= self._watch.wake_after_s:
                self._wakeup()
