"""The thread itself, in real time with short limits; the deadly end is in test_process.py."""

import threading
from itertools import count

from bot.daemon.health import LoopWatchdog
from bot.daemon.runner import DaemonLimits

WATCH = DaemonLimits(heartbeat_s=0.01, check_every_s=0.01, wake_after_s=0.03, abort_after_s=0.06)


class FakeProcessControl:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.dead = threading.Event()

    def wakeup(self) -> None:
        self.calls.append("wakeup")

    def die(self) -> None:
        self.calls.append("die")
        self.dead.set()


def test_a_silent_loop_is_woken_and_then_ends_the_process() -> None:
    witness = FakeProcessControl()
    with LoopWatchdog(WATCH, signs=lambda: 1, wakeup=witness.wakeup, end_process=witness.die):
        assert witness.dead.wait(2.0)
    assert witness.calls[:4] == ["wakeup", "wakeup", "wakeup", "die"]


def test_a_loop_with_signs_of_life_is_left_alone() -> None:
    witness, signs, looked = FakeProcessControl(), count(), threading.Event()

    def sign() -> int:
        number = next(signs)
        if number == 10:
            looked.set()
        return number

    with LoopWatchdog(WATCH, signs=sign, wakeup=witness.wakeup, end_process=witness.die):
        assert looked.wait(2.0)
    assert witness.calls == []


def test_the_thread_ends_with_the_block() -> None:
    witness = FakeProcessControl()
    with LoopWatchdog(DaemonLimits(), signs=lambda: 1, wakeup=witness.wakeup, end_process=witness.die):
        assert "watchdog" in {thread.name for thread in threading.enumerate()}
    assert "watchdog" not in {thread.name for thread in threading.enumerate()}
