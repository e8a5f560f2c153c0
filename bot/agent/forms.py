"""How a model states a prediction of each shape: the schema it fills in, how that is read, bounded and shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol

from bot.agent.bounds import LEAST_PERCENT
from bot.agent.reading import Misread, in_percent, moment, number, share, short
from bot.domain.curves import curve_through, quantiles_of
from bot.domain.prediction import Binary, Choice, Curve, CurveShape, Prediction
from bot.domain.step import Json

DATE = "date"
# How far the percentages of all options may sum from 100, so that it is still plain that they are percentages.
SUM_SLACK = 10.0


class Form(Protocol):
    """The form for one target. ``field`` names it; ``aliases`` are other names under which a model may send it."""

    @property
    def field(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    def schema(self, margin: float) -> dict[str, Json]:
        """Return the JSON schema of one target's value, with its description."""
        ...

    def read(self, field: str, raw: Json) -> Prediction:
        """Return the prediction that was sent under a name; raises Misread."""
        ...

    def bounded(self, prediction: Prediction, margin: float) -> Prediction:
        """Return the prediction kept from certainty."""
        ...

    def shown(self, prediction: Prediction) -> str:
        """Return the prediction in a few words."""
        ...


@dataclass(frozen=True, slots=True)
class BinaryForm:
    """Yes or no: a probability, or a percentage for models that are held by a grammar.

    Where the bounds permit less than one percent, such a percentage is a text with its sign ("0.5 %").
    """

    percent: bool

    @property
    def field(self) -> str:
        return "percent" if self.percent else "probability"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("probability", "probabilities", "percent", "percents")

    def schema(self, margin: float) -> dict[str, Json]:
        if not self.percent:
            said = "Probability of yes, from 0 to 1."
            return {"type": "number", "minimum": margin, "maximum": round(1.0 - margin, 9), "description": said}
        least, most = round(100.0 * margin, 7), round(100.0 * (1.0 - margin), 7)
        # No number for an example: small models give it back as their answer.
        said = "Probability of yes in percent, from 0 to 100."
        plain: dict[str, Json] = {"type": "number", "minimum": max(least, LEAST_PERCENT), "maximum": most}
        if least >= LEAST_PERCENT:
            return {**plain, "description": said}
        said += ' Less than 1 is written as a text with the sign: "0.5 %" means one in two hundred.'
        return {"anyOf": [plain, {"type": "string", "maxLength": 10}], "description": said}

    def read(self, field: str, raw: Json) -> Prediction:
        return Binary(share(raw, field, percent=field.startswith("percent")))

    def bounded(self, prediction: Prediction, margin: float) -> Prediction:
        probability = prediction.probability if isinstance(prediction, Binary) else 0.5
        return Binary(min(max(probability, margin), 1.0 - margin))

    def shown(self, prediction: Prediction) -> str:
        return _in_words(prediction.probability, percent=self.percent) if isinstance(prediction, Binary) else ""


@dataclass(frozen=True, slots=True)
class ChoiceForm:
    """Named options: a probability each, brought to a sum of 1 with at least ``floor`` for every option."""

    options: tuple[str, ...]
    floor: float
    percent: bool

    @property
    def field(self) -> str:
        return "percents" if self.percent else "probabilities"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("probabilities", "probability", "percents", "percent")

    def schema(self, margin: float) -> dict[str, Json]:
        most, unit = (100, "Percentages") if self.percent else (1, "Probabilities")
        one: dict[str, Json] = {"type": "number", "minimum": 0, "maximum": most}
        said = f"{unit} of the options, which sum to {most}."
        return {**_record({option: dict(one) for option in self.options}), "description": said}

    def read(self, field: str, raw: Json) -> Prediction:
        _require_keys(raw, self.options, field)
        assert isinstance(raw, dict)  # noqa: S101 - _require_keys refuses anything else
        if field.startswith("percent"):
            weights = self._percentages(field, raw)
        else:
            weights = {option: share(raw[option], f"{field}[{option}]", percent=False) for option in self.options}
        if (total := math.fsum(weights.values())) <= 0.0:
            message = f"{field}: some option must be possible, all are 0"
            raise Misread(message)
        return self._floored({option: weight / total for option, weight in weights.items()})

    def bounded(self, prediction: Prediction, margin: float) -> Prediction:
        return self._floored(prediction.probabilities) if isinstance(prediction, Choice) else prediction

    def shown(self, prediction: Prediction) -> str:
        given = prediction.probabilities if isinstance(prediction, Choice) else {}
        return ", ".join(
            f"{option} {_in_words(given[option], percent=self.percent)}" for option in self.options if option in given
        )

    def _percentages(self, field: str, raw: Mapping[str, Json]) -> dict[str, float]:
        """Return the percentages that were sent; raises Misread where 0.7 beside them may mean 70 % or 0.7 %.

        Their sum tells: near 100 they are percentages, and where none is above 1 they are all fractions, which the
        division by their sum makes the same of.
        """
        given = {option: in_percent(raw[option], f"{field}[{option}]") for option in self.options}
        total = math.fsum(given.values())
        if max(given.values()) > 1.0 and abs(total - 100.0) > SUM_SLACK:
            for option, value in given.items():
                if 0.0 < value < LEAST_PERCENT and not isinstance(raw[option], str):
                    message = (
                        f"{field}[{option}] is {short(raw[option])} beside percentages that sum to {total:g}; "
                        "give percentages that sum to 100"
                    )
                    raise Misread(message)
        return given

    def _floored(self, weights: Mapping[str, float]) -> Choice:
        count = len(self.options)
        floor = min(self.floor, 0.5 / count)
        excess = {option: max(0.0, weights[option] - floor) for option in self.options}
        total = math.fsum(excess.values())
        free = 1.0 - count * floor
        return Choice({option: floor + free * part / total for option, part in excess.items()})


@dataclass(frozen=True, slots=True)
class CurveForm:
    """A number or a date: its value at some percentages, in the question's unit (ISO dates for unit ``date``)."""

    shape: CurveShape
    percentages: tuple[int, ...]
    step_mass: float

    @property
    def field(self) -> str:
        return "quantiles"

    @property
    def aliases(self) -> tuple[str, ...]:
        return ("quantiles",)

    @property
    def dated(self) -> bool:
        """Whether values are dates."""
        return self.shape.unit == DATE

    def schema(self, margin: float) -> dict[str, Json]:
        one: dict[str, Json] = {"type": "string", "maxLength": 25} if self.dated else {"type": "number"}
        what = "Dates such as 2026-03-01" if self.dated else "Values"
        if self.shape.is_whole:
            one, what = {"type": "integer"}, "Whole numbers"
        earlier = "comes before p10" if self.dated else "stays below p10"
        said = f"{what} at percentages of your distribution: the outcome {earlier} in one case of ten."
        return {**_record({f"p{percentage}": dict(one) for percentage in self.percentages}), "description": said}

    def read(self, field: str, raw: Json) -> Prediction:
        _require_keys(raw, tuple(f"p{percentage}" for percentage in self.percentages), field)
        assert isinstance(raw, dict)  # noqa: S101 - _require_keys refuses anything else
        one = moment if self.dated else number
        values = {percentage / 100: one(raw[f"p{percentage}"], f"p{percentage}") for percentage in self.percentages}
        if any(after < before for before, after in pairwise(values.values())):
            given = ", ".join(f"p{round(100 * level)} {self._sent(value)}" for level, value in values.items())
            message = f"{field} should rise from p{self.percentages[0]} to p{self.percentages[-1]}, not fall: {given}"
            raise Misread(message)
        try:
            return self._curve(values)
        except ValueError as error:
            message = f"{field} make no curve: {error}"
            raise Misread(message) from error

    def bounded(self, prediction: Prediction, margin: float) -> Prediction:
        return prediction

    def shown(self, prediction: Prediction) -> str:
        if not isinstance(prediction, Curve):
            return ""
        levels = [percentage / 100 for percentage in self.percentages]
        values = quantiles_of(prediction, self.shape, levels)
        return ", ".join(f"p{round(100 * level)} {self._value(value)}" for level, value in values.items())

    def _curve(self, values: Mapping[float, float]) -> Curve:
        steps = len(self.shape.grid) - 1
        return curve_through(values, self.shape, step_mass=min(self.step_mass, 0.1 / steps))

    def _sent(self, value: float) -> str:
        # What is far too great is seen best with all its digits.
        return f"{value:.0f}" if not self.dated and 1e5 <= abs(value) < 1e15 else self._value(value)

    def _value(self, value: float) -> str:
        return datetime.fromtimestamp(value, UTC).date().isoformat() if self.dated else f"{value:.6g}"


def _in_words(probability: float, *, percent: bool) -> str:
    """Return a probability as models are shown it: in percent with one decimal below 10 and above 90."""
    if not percent:
        return f"{probability:.2g}" if probability < 0.001 else f"{round(probability, 3):g}"
    value = 100.0 * probability
    if 0.0 < value < 0.1:
        return f"{value:.2g} %"
    return f"{value:.0f} %" if 10.0 <= value <= 90.0 else f"{value:.1f} %"


def _record(properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _require_keys(raw: Json, keys: tuple[str, ...], field: str) -> None:
    if not isinstance(raw, dict) or set(raw) != set(keys):
        message = f"{field} should be an object with exactly these keys: {', '.join(keys)}"
        raise Misread(message)
