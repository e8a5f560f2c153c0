"""Share prices: will the close on the target day be above the close on the day of the forecast?

A price has no memory worth modelling; what remains is the drift, which grows with the square root of the horizon
because the spread does too.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

from plugins.baseline.facts import Event
from plugins.baseline.form import Form, Terms
from plugins.baseline.ridge import Term

# A yearly drift of 8 % against a yearly spread of 30 % is 0.27 standard deviations, times 1.6 on the logit scale.
_YEARLY_DRIFT = 0.43


def _terms(event: Event) -> Terms:
    return (
        Term("all", 1.0, 0.0, 0.1, "share prices rise about as often as they fall over short times"),
        Term(
            "drift",
            math.sqrt(event.days / 365.0),
            _YEARLY_DRIFT,
            0.15,
            f"upward drift of share prices over {event.days} days",
        ),
    )


def _market_day(event: Event) -> Hashable:
    return event.facts.due, event.target


FORM = Form(name="yfinance", terms=_terms, block=_market_day)
