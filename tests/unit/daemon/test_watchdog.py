"""The thread itself, in real time with short limits; the deadly end is in test_process.py."""

import threading
from itertools import count

from bot.daemon.watch import Watch
from bot.daemon.watchdog import Watchdog

WATCH = Watch(heartbeat_s=0.01, look_s=0.01, wake_after_s=0.03, abort_after_s=0.06)


class Witness:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.dead = threading.Event()

    def wakeup(self) -> None:
        self.calls.append("wakeup")

    def die(self) -> None:
        self.calls.append("die")
        self.dead.set()


def test_a_silent_loop_is_woken_and_then_ends_the_process() -> None:
    witness = Witness()
    with Watchdog(WATCH, signs=lambda: 1, wakeup=witness.wakeup, die=witness.die):
        assert witness.dead.wait(2.0)
    assert witness.calls[:4] == ["wakeup", "wakeup", "wakeup", "die"]


def test_a_loop_with_signs_of_life_is_left_alone() -> None:
    witness, signs, looked = Witness(), count(), threading.Event()

    def sign() -> int:
        number = next(signs)
        if number == 10:
            looked.set()
        return number

    with Watchdog(WATCH, signs=sign, wakeup=witness.wakeup, die=witness.die):
        assert looked.wait(2.0)
    assert witness.calls == []


def test_the_thread_ends_with_the_block() -> None:
    witness = Witness()
    with Watchdog(Watch(), signs=lambda: 1, wakeup=witness.wakeup, die=witness.die):
        assert "watchdog" in {thread.name for thread in threading.enumerate()}
    assert "watchdog" not in {thread.name for thread in threading.enumerate()}
