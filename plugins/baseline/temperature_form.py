"""Daily temperatures at weather stations: will it be warmer on the target day than on the day of the forecast?

The season decides the long horizons; weather, which nobody knows ten days ahead, decides the short ones. The value at
the freeze does not help: it is ten days older than the day it is compared with, and at times weeks older.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import NamedTuple

from bot.api import RegressionTerm
from plugins.baseline.model_form import ModelForm, ModelTerms
from plugins.baseline.question_facts import QuestionFacts, ScoredEvent
from plugins.baseline.question_templates import parse_station

_TURN = 2.0 * math.pi / 365.25
# Metropolitan France is warmest around 24 July; other climates lead or lag it through the sine term.
_WARMEST_DAY = 205


class _StationClimate(NamedTuple):
    """A group of stations with one season: log odds per unit of the cosine and the sine difference."""

    name: str
    cosine: float
    sine: float


# Rounded from the ratio of the yearly amplitude to the day-to-day spread of the difference of two days: 7.5 degrees
# against 4.7 in France, 1.5 against 1.6 in the tropics, and the month that is warmest on average.
_CLIMATES = {
    "07": _StationClimate("metropolitan France", 3.0, 0.3),
    "71": _StationClimate("the north-west Atlantic", 3.0, 0.9),
    "6199": _StationClimate("the southern Indian Ocean", -1.5, -0.5),
    "61": _StationClimate("the tropical Indian Ocean", -2.0, -0.8),
    "67": _StationClimate("the tropical Indian Ocean", -2.0, -0.8),
    "78": _StationClimate("the Caribbean", 1.5, 1.0),
    "81": _StationClimate("French Guiana", 0.5, 0.5),
}


def climate_name(facts: QuestionFacts) -> str | None:
    """Return the name of the climate that a station belongs to; None where the id names no station of a known one.

    Source: prefixes of the WMO station numbers; docs/facts/forecastbench.md#dataset-questions.
    """
    found = _find_climate(facts)
    return found.name if found else None


def _find_climate(facts: QuestionFacts) -> _StationClimate | None:
    number = parse_station(facts) or ""
    # The southern islands are cold although their neighbours in the numbering are tropical.
    return _CLIMATES.get(number[:4]) or _CLIMATES.get(number[:2])


def _temperature_terms(event: ScoredEvent) -> ModelTerms:
    facts = event.facts
    found = _find_climate(facts)
    if found is None:
        message = f"{facts.key} is no weather station of a known climate"
        raise ValueError(message)
    start = _TURN * (facts.due.timetuple().tm_yday - _WARMEST_DAY)
    end = start + _TURN * event.days
    name = found.name
    cosine, sine = math.cos(end) - math.cos(start), math.sin(end) - math.sin(start)
    return (
        RegressionTerm(f"{name} level", 1.0, 0.0, 0.2, f"share of warmer days in {name}, all seasons"),
        RegressionTerm(
            f"{name} cosine", cosine, found.cosine, 0.5, f"season in {name} between the two days (main swing)"
        ),
        RegressionTerm(
            f"{name} sine", sine, found.sine, 0.5, f"season in {name} between the two days (shift of the warmest day)"
        ),
    )


def _weather_block(event: ScoredEvent) -> Hashable:
    return event.facts.due, event.target, climate_name(event.facts)


TEMPERATURE_FORM = ModelForm(name="dbnomics", terms=_temperature_terms, block=_weather_block)
