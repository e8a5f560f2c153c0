"""Market questions: the crowd's price, at most sharpened a little.

No calibration of the price gains anything that can be told from noise, and clipping it loses (ForecastBench document,
section 6), so the fit holds one slope that cannot leave [0.8, 1.2].
"""

from __future__ import annotations

import math
from collections.abc import Hashable

from plugins.baseline.facts import Event
from plugins.baseline.form import FLOOR, Form, Terms
from plugins.baseline.ridge import Term


def is_price(value: float | None) -> bool:
    """Return whether a value can be a probability."""
    return value is not None and 0.0 <= value <= 1.0


def _terms(event: Event) -> Terms:
    facts = event.facts
    if facts.value is None or not is_price(facts.value):
        message = f"{facts.source} {facts.key} has no price"
        raise ValueError(message)
    price = min(1.0 - FLOOR, max(FLOOR, facts.value))
    why = f"the crowd's price is {facts.value:.3f}; outcomes of earlier rounds set how far its log odds are stretched"
    return (Term("slope", math.log(price / (1.0 - price)), 1.0, 0.1, why),)


def _question(event: Event) -> Hashable:
    # The same question returns in many rounds and has one outcome.
    return event.facts.source, event.facts.key


FORM = Form(name="market", terms=_terms, block=_question, correlation=1.0, reach=2.0)
