"""Outcomes that cannot be."""

import pytest

from bot.core.outcomes import BinaryOutcome, NumericOutcome, VoidOutcome


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan"), float("inf")])
def test_a_share_of_an_option_pays_something_and_at_most_one(share: float) -> None:
    with pytest.raises(ValueError, match="cannot pay"):
        VoidOutcome("several", shares={"a": share})


def test_shares_cannot_be_changed_afterwards() -> None:
    given = {"a": 0.25, "b": 0.75}
    outcome = VoidOutcome("several", shares=given)
    given["a"] = 1.0
    assert outcome.shares == {"a": 0.25, "b": 0.75}
    with pytest.raises(TypeError):
        outcome.shares["a"] = 1.0  # type: ignore[index]  # that it is refused is the point
    assert len({outcome, VoidOutcome("several", shares=outcome.shares), VoidOutcome("several")}) == 2


def test_outcomes_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        BinaryOutcome(1.5)
    with pytest.raises(ValueError, match="number"):
        NumericOutcome(float("nan"))
