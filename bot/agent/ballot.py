"""A prediction for every target of a question, as a model states it: by target, in order, or once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.bounds import QUANTILES
from bot.agent.forms import BinaryForm, ChoiceForm, CurveForm, Form
from bot.agent.reading import Misread
from bot.domain.prediction import Binary, BinaryShape, Choice, ChoiceShape, Curve, Prediction
from bot.domain.question import Question
from bot.domain.step import Json

Predictions = Mapping[str, Prediction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How predictions are asked for and bounded.

    ``option_floor`` is the least probability of an option; ``quantiles`` are the percentages at which a number or a
    date is asked for, rising, ``curve_step_mass`` the least probability of one step of its grid. ``step_margin`` and
    ``submit_margin`` keep a yes-or-no probability from 0 and 1 on the way and in the end; ``margins_for`` narrows both
    for a question whose crowd or base rate is nearer to certainty. ``compaction_chars`` is the
    length of evidence and open questions from which they are shortened (0: never). ``believes`` false is a loop whose
    moves carry no belief, so that only submitting changes it.
    """

    option_floor: float = 0.01
    quantiles: tuple[int, ...] = QUANTILES
    curve_step_mass: float = 5e-5
    step_margin: float = 0.02
    submit_margin: float = 0.05
    compaction_chars: int = 2000
    believes: bool = True


@dataclass(frozen=True, slots=True)
class Ballot:
    """The form of one target, and the keys of all targets in the question's order."""

    form: Form
    targets: tuple[str, ...]

    @property
    def percent(self) -> bool:
        """Whether probabilities are asked for as percentages."""
        return isinstance(self.form, BinaryForm | ChoiceForm) and self.form.percent

    def schema(self, margin: float) -> dict[str, Json]:
        """Return the property that holds the predictions, by its name."""
        one = self.form.schema(margin)
        if len(self.targets) == 1:
            return {self.form.field: one}
        # Said once for all dates.
        said = one.pop("description", "")
        return {
            self.form.field: {
                "type": "object",
                "properties": {target: dict(one) for target in self.targets},
                "required": list(self.targets),
                "additionalProperties": False,
                "description": f"One answer for each date. {said}",
            }
        }

    def read(self, arguments: Mapping[str, Json]) -> Predictions:
        """Return a prediction for every target; raises Misread where there is none, or one that is not valid."""
        for field in (self.form.field, *self.form.aliases):
            if field in arguments:
                return self._spread(field, arguments[field])
        message = f"{self.form.field} is missing"
        raise Misread(message)

    def bounded(self, predictions: Predictions, margin: float) -> Predictions:
        """Return the predictions kept from certainty."""
        return {target: self.form.bounded(prediction, margin) for target, prediction in predictions.items()}

    def shown(self, predictions: Predictions) -> str:
        """Return the predictions in one line."""
        if len(self.targets) == 1:
            return self.form.shown(predictions[self.targets[0]])
        return "; ".join(f"{target}: {self.form.shown(predictions[target])}" for target in self.targets)

    def _spread(self, field: str, raw: Json) -> Predictions:
        if isinstance(raw, list):
            if len(raw) != len(self.targets):
                message = f"{field} should have {len(self.targets)} entries, in the order of the dates, not {len(raw)}"
                raise Misread(message)
            return {target: self.form.read(field, one) for target, one in zip(self.targets, raw, strict=True)}
        if isinstance(raw, dict) and set(raw) & set(self.targets) and not self._is_one(raw):
            if missing := set(self.targets) ^ set(raw):
                message = (
                    f"{field} should name each of {', '.join(self.targets)} once; see {', '.join(sorted(missing))}"
                )
                raise Misread(message)
            return {target: self.form.read(field, raw[target]) for target in self.targets}
        one = self.form.read(field, raw)
        return dict.fromkeys(self.targets, one)

    def _is_one(self, raw: Mapping[str, Json]) -> bool:
        """Whether the keys are those of one prediction: an option may have the same name as a target."""
        return isinstance(self.form, ChoiceForm) and set(raw) == set(self.form.options)


def ballot_for(question: Question, manner: Manner, *, percent: bool) -> Ballot:
    """Return the ballot of a question; ``percent`` asks for percentages instead of fractions."""
    form: Form
    match question.shape:
        case BinaryShape():
            form = BinaryForm(percent)
        case ChoiceShape(options=options):
            form = ChoiceForm(options, manner.option_floor, percent)
        case shape:
            form = CurveForm(shape, manner.quantiles, manner.curve_step_mass)
    return Ballot(form, tuple(target.key for target in question.targets))


def distance(first: Predictions, second: Predictions) -> float:
    """Return the largest distance in probability between two sets of predictions, over all targets.

    Of a choice and of a curve it is the largest difference of the probability of any option, and of any threshold.
    """
    return max((_apart(first[target], second[target]) for target in first), default=0.0)


def _apart(first: Prediction, second: Prediction) -> float:
    match first, second:
        case Binary(probability=one), Binary(probability=other):
            return abs(one - other)
        case Choice(probabilities=these), Choice(probabilities=those):
            return max(abs(these[option] - those[option]) for option in these)
        case Curve(cdf=these_points), Curve(cdf=those_points):
            return max(abs(a - b) for a, b in zip(these_points, those_points, strict=True))
        case _:
            return 1.0
