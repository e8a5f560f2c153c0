"""How a model states its answer.

A JSON schema for each kind of question, how the answer is read, bounded and shown, and one prediction per target of
the question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Protocol

from pydantic import AfterValidator, Field

from bot.core.distributions import curve_from_quantiles, curve_quantiles
from bot.core.light_dataclass import dataclass
from bot.core.plugin_specs import PluginSettings
from bot.core.predictions import (
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.agent.parsing import (
    UnreadableAnswer,
    abbreviate_json,
    read_number,
    read_percentage,
    read_probability,
    read_timestamp,
)

# The percentages at which a number or a date is asked for, unless settings say otherwise.
DEFAULT_QUANTILES = (5, 10, 25, 50, 75, 90, 95)


# Smaller percentages are asked for as texts: without the sign, 0.7 may mean 70 %.
LEAST_PERCENT = 1.0


def _require_rising(levels: tuple[int, ...]) -> tuple[int, ...]:
    if list(levels) != sorted(set(levels)):
        message = f"quantiles {list(levels)} should rise, each once"
        raise ValueError(message)
    return levels


# Below one half, so that a choice remains after clamping.
ProbabilityMargin = Annotated[float, Field(ge=0.0, lt=0.5)]


QuantileLevels = Annotated[
    tuple[Annotated[int, Field(ge=1, le=99)], ...], Field(min_length=2), AfterValidator(_require_rising)
]


DATE_UNIT = "date"


# How far the percentages of all options may be from a sum of 100 and still clearly be percentages.
SUM_SLACK = 10.0


class AnswerSchema(Protocol):
    """The schema of one target. ``field`` is its name; ``aliases`` are other names that a model may send."""

    @property
    def field(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    def schema(self, margin: float) -> dict[str, Json]:
        """Return the JSON schema of one target's value, with its description."""
        ...

    def read(self, field: str, raw: Json) -> Prediction:
        """Return the prediction that was sent under a name; raises UnreadableAnswer."""
        ...

    def clamp(self, prediction: Prediction, margin: float) -> Prediction:
        """Return the prediction, bounded away from certainty."""
        ...

    def format(self, prediction: Prediction) -> str:
        """Return the prediction in a few words."""
        ...


@dataclass(frozen=True, slots=True)
class BinaryAnswerSchema:
    """Yes or no: a probability, or a percentage for models whose output follows a grammar.

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
            description = "Probability of yes, from 0 to 1."
            return {"type": "number", "minimum": margin, "maximum": round(1.0 - margin, 9), "description": description}
        minimum, maximum = round(100.0 * margin, 7), round(100.0 * (1.0 - margin), 7)
        # No number as an example: small models return it as their answer.
        description = "Probability of yes in percent, from 0 to 100."
        plain: dict[str, Json] = {"type": "number", "minimum": max(minimum, LEAST_PERCENT), "maximum": maximum}
        if minimum >= LEAST_PERCENT:
            return {**plain, "description": description}
        description += ' Less than 1 is written as a text with the sign: "0.5 %" means one in two hundred.'
        return {"anyOf": [plain, {"type": "string", "maxLength": 10}], "description": description}

    def read(self, field: str, raw: Json) -> Prediction:
        return BinaryPrediction(read_probability(raw, field, percent=field.startswith("percent")))

    def clamp(self, prediction: Prediction, margin: float) -> Prediction:
        if isinstance(prediction, BinaryPrediction) and margin <= prediction.probability <= 1.0 - margin:
            return prediction
        probability = prediction.probability if isinstance(prediction, BinaryPrediction) else 0.5
        return BinaryPrediction(min(max(probability, margin), 1.0 - margin))

    def format(self, prediction: Prediction) -> str:
        return (
            _format_probability(prediction.probability, percent=self.percent)
            if isinstance(prediction, BinaryPrediction)
            else ""
        )


@dataclass(frozen=True, slots=True)
class ChoiceAnswerSchema:
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
        maximum, unit = (100, "Percentages") if self.percent else (1, "Probabilities")
        one: dict[str, Json] = {"type": "number", "minimum": 0, "maximum": maximum}
        description = f"{unit} of the options, which sum to {maximum}."
        return {**_object_schema({option: dict(one) for option in self.options}), "description": description}

    def read(self, field: str, raw: Json) -> Prediction:
        _require_keys(raw, self.options, field)
        assert isinstance(raw, dict)  # noqa: S101 - _require_keys refuses anything else
        if field.startswith("percent"):
            weights = self._read_percentages(field, raw)
        else:
            weights = {
                option: read_probability(raw[option], f"{field}[{option}]", percent=False) for option in self.options
            }
        if (total := math.fsum(weights.values())) <= 0.0:
            message = f"{field}: some option must be possible, all are 0"
            raise UnreadableAnswer(message)
        return self._apply_floor({option: weight / total for option, weight in weights.items()})

    def clamp(self, prediction: Prediction, margin: float) -> Prediction:
        return self._apply_floor(prediction.probabilities) if isinstance(prediction, ChoicePrediction) else prediction

    def format(self, prediction: Prediction) -> str:
        given = prediction.probabilities if isinstance(prediction, ChoicePrediction) else {}
        return ", ".join(
            f"{option} {_format_probability(given[option], percent=self.percent)}"
            for option in self.options
            if option in given
        )

    def _read_percentages(self, field: str, raw: Mapping[str, Json]) -> dict[str, float]:
        """Return the percentages that were sent; raises UnreadableAnswer if 0.7 among them may mean 70 % or 0.7 %.

        Their sum decides: near 100 they are percentages. If none is above 1 they are all fractions, and dividing by the
        sum gives the same result.
        """
        given = {option: read_percentage(raw[option], f"{field}[{option}]") for option in self.options}
        total = math.fsum(given.values())
        if max(given.values()) > 1.0 and abs(total - 100.0) > SUM_SLACK:
            for option, value in given.items():
                if 0.0 < value < LEAST_PERCENT and not isinstance(raw[option], str):
                    message = (
                        f"{field}[{option}] is {abbreviate_json(raw[option])} among percentages that sum to "
                        f"{total:g}; give percentages that sum to 100"
                    )
                    raise UnreadableAnswer(message)
        return given

    def _apply_floor(self, weights: Mapping[str, float]) -> ChoicePrediction:
        count = len(self.options)
        floor = min(self.floor, 0.5 / count)
        excess = {option: max(0.0, weights[option] - floor) for option in self.options}
        total = math.fsum(excess.values())
        free = 1.0 - count * floor
        return ChoicePrediction({option: floor + free * part / total for option, part in excess.items()})


@dataclass(frozen=True, slots=True)
class CurveAnswerSchema:
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
    def has_dates(self) -> bool:
        """Whether the values are dates."""
        return self.shape.unit == DATE_UNIT

    def schema(self, margin: float) -> dict[str, Json]:
        one: dict[str, Json] = {"type": "string", "maxLength": 25} if self.has_dates else {"type": "number"}
        what = "Dates such as 2026-03-01" if self.has_dates else "Values"
        if self.shape.is_whole:
            one, what = {"type": "integer"}, "Whole numbers"
        earlier = "comes before p10" if self.has_dates else "stays below p10"
        description = f"{what} at percentages of your distribution: the outcome {earlier} in one case of ten."
        return {
            **_object_schema({f"p{percentage}": dict(one) for percentage in self.percentages}),
            "description": description,
        }

    def read(self, field: str, raw: Json) -> Prediction:
        _require_keys(raw, tuple(f"p{percentage}" for percentage in self.percentages), field)
        assert isinstance(raw, dict)  # noqa: S101 - _require_keys refuses anything else
        one = read_timestamp if self.has_dates else read_number
        values = {percentage / 100: one(raw[f"p{percentage}"], f"p{percentage}") for percentage in self.percentages}
        if any(after < before for before, after in pairwise(values.values())):
            given = ", ".join(
                f"p{round(100 * level)} {self._format_sent_value(value)}" for level, value in values.items()
            )
            message = f"{field} should rise from p{self.percentages[0]} to p{self.percentages[-1]}, not fall: {given}"
            raise UnreadableAnswer(message)
        try:
            return self._build_curve(values)
        except ValueError as error:
            message = f"{field} make no curve: {error}"
            raise UnreadableAnswer(message) from error

    def clamp(self, prediction: Prediction, margin: float) -> Prediction:
        return prediction

    def format(self, prediction: Prediction) -> str:
        if not isinstance(prediction, CurvePrediction):
            return ""
        levels = [percentage / 100 for percentage in self.percentages]
        values = curve_quantiles(prediction, self.shape, levels)
        return ", ".join(f"p{round(100 * level)} {self._format_value(value)}" for level, value in values.items())

    def _build_curve(self, values: Mapping[float, float]) -> CurvePrediction:
        steps = len(self.shape.grid) - 1
        return curve_from_quantiles(values, self.shape, step_mass=min(self.step_mass, 0.1 / steps))

    def _format_sent_value(self, value: float) -> str:
        # A value that is far too large is easiest to see with all its digits.
        return f"{value:.0f}" if not self.has_dates and 1e5 <= abs(value) < 1e15 else self._format_value(value)

    def _format_value(self, value: float) -> str:
        return datetime.fromtimestamp(value, UTC).date().isoformat() if self.has_dates else f"{value:.6g}"


def _format_probability(probability: float, *, percent: bool) -> str:
    """Return a probability as models see it: in percent, with one decimal below 10 and above 90."""
    if not percent:
        return f"{probability:.2g}" if probability < 0.001 else f"{round(probability, 3):g}"
    value = 100.0 * probability
    if 0.0 < value < 0.1:
        return f"{value:.2g} %"
    return f"{value:.0f} %" if 10.0 <= value <= 90.0 else f"{value:.1f} %"


def _object_schema(properties: dict[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _require_keys(raw: Json, keys: tuple[str, ...], field: str) -> None:
    if not isinstance(raw, dict) or set(raw) != set(keys):
        message = f"{field} should be an object with exactly these keys: {', '.join(keys)}"
        raise UnreadableAnswer(message)


TargetPredictions = Mapping[str, Prediction]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSettings:
    """How predictions are asked for and bounded.

    ``option_floor`` is the lowest probability of an option. ``quantiles`` are the percentages at which a number or a
    date is asked for, rising. ``curve_step_mass`` is the lowest probability of one step of its grid. ``step_margin``
    and ``submit_margin`` keep a yes-or-no probability from 0 and 1, in each step and at the end. ``narrow_margins``
    narrows both for a question whose crowd or base rate is nearer to certainty. Evidence and open questions longer than
    ``compaction_chars`` are shortened (0: never). With ``states_beliefs`` false, actions carry no belief, so only the
    final submission changes it.
    """

    option_floor: float = 0.01
    quantiles: tuple[int, ...] = DEFAULT_QUANTILES
    curve_step_mass: float = 5e-5
    step_margin: float = 0.02
    submit_margin: float = 0.05
    compaction_chars: int = 2000
    states_beliefs: bool = True


class AnswerFields(PluginSettings):
    """The settings of a forecaster that say how its answers to questions of all kinds are asked for."""

    option_floor: ProbabilityMargin = 0.01
    """The least probability of an option."""

    quantiles: QuantileLevels = DEFAULT_QUANTILES
    """Percentages at which the value of a number or date is asked for."""

    curve_step_mass: float = Field(default=5e-5, ge=0.0, lt=0.01)
    """The least probability of one step of the grid of a number or date."""

    def create_answer_settings(
        self, step_margin: float, submit_margin: float, *, states_beliefs: bool = True
    ) -> AnswerSettings:
        """Return how answers are asked for, with these distances of a yes-or-no probability from 0 and 1."""
        return AnswerSettings(
            option_floor=self.option_floor,
            quantiles=self.quantiles,
            curve_step_mass=self.curve_step_mass,
            step_margin=step_margin,
            submit_margin=submit_margin,
            states_beliefs=states_beliefs,
        )


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The schema of one target, and the keys of all targets in the question's order."""

    answer_schema: AnswerSchema
    targets: tuple[str, ...]

    @property
    def percent(self) -> bool:
        """Whether probabilities are asked for as percentages."""
        return isinstance(self.answer_schema, BinaryAnswerSchema | ChoiceAnswerSchema) and self.answer_schema.percent

    def schema(self, margin: float) -> dict[str, Json]:
        """Return the property that holds the predictions, by its name."""
        one = self.answer_schema.schema(margin)
        if len(self.targets) == 1:
            return {self.answer_schema.field: one}
        # Stated once for all dates.
        description = one.pop("description", "")
        return {
            self.answer_schema.field: {
                "type": "object",
                "properties": {target: dict(one) for target in self.targets},
                "required": list(self.targets),
                "additionalProperties": False,
                "description": f"One answer for each date. {description}",
            }
        }

    def read(self, arguments: Mapping[str, Json]) -> TargetPredictions:
        """Return a prediction for every target; raises UnreadableAnswer if one is missing or invalid."""
        field = self.answer_schema.field
        if field in arguments:
            return self._read_targets(field, arguments[field])
        for alias in self.answer_schema.aliases:
            if alias in arguments:
                return self._read_targets(alias, arguments[alias])
        message = f"{field} is missing"
        raise UnreadableAnswer(message)

    def clamp(self, predictions: TargetPredictions, margin: float) -> TargetPredictions:
        """Return the predictions, bounded away from certainty."""
        return {target: self.answer_schema.clamp(prediction, margin) for target, prediction in predictions.items()}

    def format(self, predictions: TargetPredictions) -> str:
        """Return the predictions in one line."""
        if len(self.targets) == 1:
            return self.answer_schema.format(predictions[self.targets[0]])
        return "; ".join(f"{target}: {self.answer_schema.format(predictions[target])}" for target in self.targets)

    def _read_targets(self, field: str, raw: Json) -> TargetPredictions:
        if isinstance(raw, list):
            if len(raw) != len(self.targets):
                message = f"{field} should have {len(self.targets)} entries, in the order of the dates, not {len(raw)}"
                raise UnreadableAnswer(message)
            return {target: self.answer_schema.read(field, one) for target, one in zip(self.targets, raw, strict=True)}
        if isinstance(raw, dict) and set(raw) & set(self.targets) and not self._is_one(raw):
            if missing := set(self.targets) ^ set(raw):
                message = (
                    f"{field} should name each of {', '.join(self.targets)} once; see {', '.join(sorted(missing))}"
                )
                raise UnreadableAnswer(message)
            return {target: self.answer_schema.read(field, raw[target]) for target in self.targets}
        one = self.answer_schema.read(field, raw)
        return dict.fromkeys(self.targets, one)

    def _is_one(self, raw: Mapping[str, Json]) -> bool:
        """Whether the keys are those of one prediction: an option may have the same name as a target."""
        return isinstance(self.answer_schema, ChoiceAnswerSchema) and set(raw) == set(self.answer_schema.options)


def create_answer_format(question: Question, settings: AnswerSettings, *, percent: bool) -> AnswerFormat:
    """Return the answer format of a question; ``percent`` asks for percentages instead of fractions."""
    schema: AnswerSchema
    match question.shape:
        case BinaryShape():
            schema = BinaryAnswerSchema(percent)
        case ChoiceShape(options=options):
            schema = ChoiceAnswerSchema(options, settings.option_floor, percent)
        case shape:
            schema = CurveAnswerSchema(shape, settings.quantiles, settings.curve_step_mass)
    return AnswerFormat(schema, tuple(target.key for target in question.targets))


def prediction_distance(first: TargetPredictions, second: TargetPredictions) -> float:
    """Return the largest distance in probability between two sets of predictions, over all targets.

    For options this is the largest difference for any option; for a curve, for any threshold.
    """
    return max((_target_distance(first[target], second[target]) for target in first), default=0.0)


def _target_distance(first: Prediction, second: Prediction) -> float:
    match first, second:
        case BinaryPrediction(probability=one), BinaryPrediction(probability=other):
            return abs(one - other)
        case ChoicePrediction(probabilities=these), ChoicePrediction(probabilities=those):
            return max(abs(these[option] - those[option]) for option in these)
        case CurvePrediction(cdf=these_points), CurvePrediction(cdf=those_points):
            return max(abs(a - b) for a, b in zip(these_points, those_points, strict=True))
        case _:
            return 1.0
