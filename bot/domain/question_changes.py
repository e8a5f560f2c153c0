"""What makes another question of one: the rule by which a forecast still answers what is asked now.

Compared are title, criteria, background, kind, options, range, scale, bounds, unit, targets and dates. What moves
without another question being asked (the crowd, facts such as a volume, what it is filed under, its address) is not.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from bot.domain.prediction import ChoiceShape, CurveShape, Shape
from bot.domain.question import Question

# Moments closer than this are one moment: what is read twice may be rounded once.
_SAME_MOMENT = timedelta(minutes=1)
# Points of a grid closer than this share of its range are one point.
_SAME_POINT = 1e-9
# Steps of a linear scale differ by no more than this share of them.
_EVEN = 1e-6
_MOST_CHARS = 80


def describe_changes(before: Question, now: Question) -> tuple[str, ...]:
    """Return what is asked otherwise now, one plain clause each; nothing where a forecast of ``before`` still fits."""
    return (
        *_text_changes(before, now),
        *_shape_changes(before.shape, now.shape),
        *_date_changes(before, now),
    )


def _text_changes(before: Question, now: Question) -> Iterator[str]:
    if before.title != now.title:
        yield f'the title was "{_short(before.title)}" and is "{_short(now.title)}" now'
    if before.criteria != now.criteria:
        yield "the resolution criteria changed"
    if before.background != now.background:
        yield "the description changed"


def _shape_changes(before: Shape, now: Shape) -> Iterator[str]:
    match before, now:
        case ChoiceShape(), ChoiceShape():
            yield from _option_changes(before.options, now.options)
        case CurveShape(), CurveShape():
            yield from _scale_changes(before, now)
        case _ if before.kind != now.kind:
            yield f"the kind was {_kind(before)} and is {_kind(now)} now"


def _option_changes(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    for option in now:
        if option not in before:
            yield f'option "{_short(option)}" was added'
    for option in before:
        if option not in now:
            yield f'option "{_short(option)}" was removed'


def _scale_changes(before: CurveShape, now: CurveShape) -> Iterator[str]:
    was, is_ = _range(before), _range(now)
    slack = _SAME_POINT * (before.grid[-1] - before.grid[0])
    if any(abs(old - new) > slack for old, new in zip(_ends(before), _ends(now), strict=True)):
        yield f"the range was {was} and is {is_} now"
    elif len(before.grid) == len(now.grid) and _differ(before.grid, now.grid, slack) and _form(before) == _form(now):
        yield f"the zero point of the {_form(now)} scale changed"
    if _form(before) != _form(now):
        yield f"the scale was {_form(before)} and is {_form(now)} now"
    if len(before.grid) != len(now.grid):
        yield f"the range was cut into {len(before.grid) - 1} steps and is cut into {len(now.grid) - 1} now"
    if before.unit != now.unit:
        yield f'the unit was "{before.unit}" and is "{now.unit}" now'
    for side, old, new in (
        ("lower", before.open_lower, now.open_lower),
        ("upper", before.open_upper, now.open_upper),
    ):
        if old != new:
            yield f"the {side} bound was {_bound(old)} and is {_bound(new)} now"


def _date_changes(before: Question, now: Question) -> Iterator[str]:
    was, is_ = ({target.key: target.resolves_at for target in one.targets} for one in (before, now))
    yield from (f'target "{key}" was added' for key in is_ if key not in was)
    yield from (f'target "{key}" was removed' for key in was if key not in is_)
    for key in was:
        if key in is_ and _moved(was[key], is_[key]):
            name = f'target "{key}"' if len(was) > 1 else "it"
            yield f"{name} was to be resolved {_moment(was[key])} and is {_moment(is_[key])} now"
    if _moved(before.closes_at, now.closes_at):
        yield f"it was to close {_moment(before.closes_at)} and closes {_moment(now.closes_at)} now"


def _moved(before: datetime | None, now: datetime | None) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) >= _SAME_MOMENT


def _differ(before: Sequence[float], now: Sequence[float], slack: float) -> bool:
    return any(abs(old - new) > slack for old, new in zip(before, now, strict=True))


def _ends(shape: CurveShape) -> tuple[float, float]:
    return shape.grid[0], shape.grid[-1]


def _form(shape: CurveShape) -> str:
    """Return how the points lie: a scale of the venues is linear or logarithmic."""
    steps = [after - before for before, after in pairwise(shape.grid)]
    mean = (shape.grid[-1] - shape.grid[0]) / len(steps)
    return "linear" if max(abs(step - mean) for step in steps) <= _EVEN * mean else "logarithmic"


def _range(shape: CurveShape) -> str:
    low, high = shape.grid[0], shape.grid[-1]
    if shape.unit == "date":
        return f"{_day(low)} to {_day(high)}"
    return f"{low:.10g} to {high:.10g}"


def _day(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.10g}"


def _moment(at: datetime | None) -> str:
    return "at no fixed time" if at is None else f"on {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _bound(is_open: bool) -> str:  # noqa: FBT001 - a word for each
    return "open" if is_open else "closed"


def _kind(shape: Shape) -> str:
    return {"binary": "yes or no", "choice": "a choice", "curve": "a number or a date"}[shape.kind]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MOST_CHARS else f"{flat[: _MOST_CHARS - 1]}…"
