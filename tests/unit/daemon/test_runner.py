import math

import pytest

from bot.daemon.runner import DaemonExit, DaemonLimits, ExitReason


@pytest.mark.parametrize(
    "limits",
    [
        {"heartbeat_s": 0.0},
        {"heartbeat_s": 30.0},
        {"wake_after_s": 120.0},
        {"abort_after_s": math.nan},
        {"check_every_s": 0.0},
        {"lag_every_s": math.nan},
        {"drain_s": -1.0},
    ],
)
def test_limits_that_would_condemn_a_healthy_daemon_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="watch"):
        DaemonLimits(**limits)  # type: ignore[arg-type]  # each key above is a float field


def test_the_defaults_are_those_of_the_reliability_study() -> None:
    watch = DaemonLimits()
    limits = (watch.heartbeat_s, watch.wake_after_s, watch.abort_after_s, watch.clock_step_s, watch.drain_s)
    assert limits == (10.0, 30.0, 120.0, 5.0, 30.0)
    assert (watch.lag_every_s, watch.lag_warn_s) == (0.1, 0.25)


def test_only_an_end_without_loss_is_clean() -> None:
    assert {reason for reason in ExitReason if DaemonExit(reason=reason).is_clean} == {
        ExitReason.DONE,
        ExitReason.ASKED,
    }
