"""Forecasts of one command know the same, as long as that is not long past."""

from datetime import UTC, datetime, timedelta

import pytest

from bot.cli.forecast_execution import MAX_SHARED_CUTOFF_AGE, result_or_failure, shared_cutoff
from bot.core.errors import ServiceUnavailableError, StoreError
from bot.core.forecasts import Trial, TrialEnd
from bot.forecasting.forecast_run import NoAnswerError
from bot.forecasting.tool_factory import LIVE_CUTOFF_AGE

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_what_one_command_knows_is_shared_until_the_world_has_gone_on() -> None:
    assert shared_cutoff(NOW, NOW + MAX_SHARED_CUTOFF_AGE) == NOW
    assert shared_cutoff(NOW, NOW + MAX_SHARED_CUTOFF_AGE + timedelta(seconds=1)) is None
    assert shared_cutoff(None, NOW) is None
    assert MAX_SHARED_CUTOFF_AGE < LIVE_CUTOFF_AGE


async def failing(error: Exception) -> str:
    raise error


async def test_a_failure_is_a_reason_unless_nothing_can_be_written_any_more() -> None:
    assert await result_or_failure(failing(ServiceUnavailableError("down"))) == (None, "down")
    failed = Trial(number=1, end=TrialEnd.FAILED, belief=None, steps=0, detail="RequestRejectedError: no money")
    nothing = NoAnswerError([failed], wanted=1)
    assert await result_or_failure(failing(nothing)) == (None, str(nothing))
    with pytest.raises(StoreError, match="the disk is full"):
        await result_or_failure(failing(StoreError("the disk is full")))
