"""What a plot of beliefs shows, as plain numbers: a line for each trial, or a fan of quantiles, panel by panel."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.domain.curves import quantile_within
from bot.domain.forecast import TrialEnd
from bot.domain.prediction import Binary, Choice, ChoiceShape, Curve, CurveShape, Prediction
from bot.domain.question import SINGLE_TARGET
from bot.store.forecasts import Trace
from bot.store.trials import TrialRecord

OPTIONS_SHOWN = 6
PANELS_SHOWN = 12
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The belief of one trial after each of its steps, as a probability or a median, and how it ended."""

    trial: int
    end: TrialEnd | None
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A panel of probabilities over steps, with the crowd's and the forecast's where there are any."""

    title: str
    lines: tuple[Line, ...]
    crowd: float | None
    answer: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """A panel of quantiles, those of LEVELS, after each step of the mean of all trials, and of each trial's medians.

    ``crowd`` is the crowd's median, ``answer`` the forecast's quantiles; what lies beyond the grid is drawn at its end.
    """

    title: str
    unit: str
    rows: tuple[tuple[float, ...], ...]
    lines: tuple[Line, ...]
    crowd: float | None
    answer: tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """All panels of a plot; ``left_out`` counts those for which there was no room."""

    shown: tuple[Lines | Fan, ...]
    left_out: int = 0


def panels_of(trace: Trace) -> Panels:
    """Return the panels of a forecast: one for each target, or each option of a choice."""
    every = tuple(_panels(trace))
    options = len(trace.question.shape.options) if isinstance(trace.question.shape, ChoiceShape) else 0
    hidden = max(0, options - OPTIONS_SHOWN) * len(trace.question.targets)
    return Panels(shown=every[:PANELS_SHOWN], left_out=hidden + max(0, len(every) - PANELS_SHOWN))


def _panels(trace: Trace) -> Iterator[Lines | Fan]:
    records = [record for record in trace.trials if record.steps]
    crowd = trace.question.crowd.prediction if trace.question.crowd else None
    for target in [target.key for target in trace.question.targets]:
        title = "" if target == SINGLE_TARGET else target
        answer = trace.forecast.predictions[target] if trace.forecast else None
        match trace.question.shape:
            case CurveShape() as shape:
                curves = {record.number: _curves(record, target) for record in records}
                ends = {record.number: record.end for record in records}
                yield _fan(title, curves, shape, ends=ends, others=(crowd, answer))
            case ChoiceShape(options=options):
                last = [record.steps[-1].step.belief.predictions[target] for record in records]
                for option in _foremost(options, [answer] if answer else last):
                    named = f"{title}: {option}" if title else option
                    yield _lines(named, records, target, option=option, others=(crowd, answer))
            case _:
                yield _lines(title, records, target, option="", others=(crowd, answer))


def _lines(
    title: str,
    records: Sequence[TrialRecord],
    target: str,
    *,
    option: str,
    others: tuple[Prediction | None, Prediction | None],
) -> Lines:
    crowd, answer = (_share(one, option) if one else None for one in others)
    lines = (
        Line(
            trial=record.number,
            end=record.end,
            values=tuple(_share(logged.step.belief.predictions[target], option) for logged in record.steps),
        )
        for record in records
    )
    return Lines(title=title, lines=tuple(lines), crowd=crowd, answer=answer)


def _share(prediction: Prediction, option: str) -> float:
    match prediction:
        case Binary(probability=probability):
            return probability
        case Choice(probabilities=options):
            return options[option]
        case _:
            message = f"a {prediction.kind} prediction has no probability of its own"
            raise TypeError(message)


def _foremost(options: Sequence[str], predictions: Sequence[Prediction]) -> list[str]:
    """Return the likeliest options, as many as are shown, in the order of the question."""
    shares: Mapping[str, float] = {
        option: sum(_share(prediction, option) for prediction in predictions) for option in options
    }
    chosen = {*sorted(options, key=lambda option: -shares[option])[:OPTIONS_SHOWN]}
    return [option for option in options if option in chosen]


def _curves(record: TrialRecord, target: str) -> list[Curve]:
    found = (logged.step.belief.predictions[target] for logged in record.steps)
    return [curve for curve in found if isinstance(curve, Curve)]


def _fan(
    title: str,
    trials: Mapping[int, Sequence[Curve]],
    shape: CurveShape,
    *,
    ends: Mapping[int, TrialEnd | None],
    others: tuple[Prediction | None, Prediction | None],
) -> Fan:
    crowd, answer = others
    longest = max((len(curves) for curves in trials.values()), default=0)
    # A trial that has ended goes on believing what it believed last.
    means = [_mean([curves[min(step, len(curves) - 1)] for curves in trials.values()]) for step in range(longest)]
    medians = {
        number: tuple(quantile_within(curve, shape, 0.5) for curve in curves) for number, curves in trials.items()
    }
    return Fan(
        title=title,
        unit=shape.unit,
        rows=tuple(_quantiles(curve, shape) for curve in means),
        lines=tuple(Line(trial=number, end=ends[number], values=values) for number, values in medians.items()),
        crowd=quantile_within(crowd, shape, 0.5) if isinstance(crowd, Curve) else None,
        answer=_quantiles(answer, shape) if isinstance(answer, Curve) else None,
    )


def _mean(curves: Sequence[Curve]) -> Curve:
    means = [sum(values) / len(values) for values in zip(*(curve.cdf for curve in curves), strict=True)]
    # Sums of numbers that increase do so but for their last digit.
    running, top = [], 0.0
    for mean in means:
        top = min(1.0, max(top, mean))
        running.append(top)
    return Curve(tuple(running))


def _quantiles(curve: Curve, shape: CurveShape) -> tuple[float, ...]:
    return tuple(quantile_within(curve, shape, level) for level in LEVELS)
