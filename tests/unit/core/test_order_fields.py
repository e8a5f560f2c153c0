"""The stake and the cancels of an order are fields: terms of those names are refused, and old rows are still read."""

import json

import pytest

from bot.core.orders import Order
from bot.store.intents import ORDER_SERIALIZER
from tests.unit.execution.paper.paper_book_fixture import order


@pytest.mark.parametrize(
    ("terms", "words"),
    [({"amount": 5.0}, "Order.stake"), ({"cancel": ["one"]}, "Order.cancels")],
)
def test_terms_under_the_name_of_a_field_are_refused(terms: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        order(terms=terms)


@pytest.mark.parametrize("stake", [0.0, -1.0, float("nan"), float("inf")])
def test_a_stake_is_a_positive_amount(stake: float) -> None:
    with pytest.raises(ValueError, match="stake"):
        order(stake=stake)


def test_the_cancels_of_an_order_are_a_list_of_ids() -> None:
    with pytest.raises(ValueError, match="tuple of ids"):
        order(cancels="one")


@pytest.mark.parametrize("stored_terms", [{"cancel": "o"}, {"cancel": None}, {"amount": None}, {"amount": "5"}])
def test_a_stored_term_of_another_type_is_left_out(stored_terms: dict[str, object]) -> None:
    stored = json.loads(ORDER_SERIALIZER.encode(order()))
    found: Order = ORDER_SERIALIZER.decode(json.dumps({**stored, "terms": stored_terms}))
    assert (found.stake, found.cancels, dict(found.terms)) == (None, (), {})


def test_an_order_is_stored_and_read_with_its_fields() -> None:
    wanted = order(stake=4.5, cancels=("one", "two"), terms={"market": "m"})
    assert ORDER_SERIALIZER.decode(ORDER_SERIALIZER.encode(wanted)) == wanted


def test_an_order_that_was_stored_with_these_terms_is_still_read() -> None:
    stored = json.loads(ORDER_SERIALIZER.encode(order(terms={"market": "m"})))
    for name in ("stake", "cancels"):
        stored.pop(name, None)
    stored["terms"] = {"market": "m", "amount": 4.5, "cancel": ["one"]}
    found: Order = ORDER_SERIALIZER.decode(json.dumps(stored))
    assert (found.stake, found.cancels, dict(found.terms)) == (4.5, ("one",), {"market": "m"})
