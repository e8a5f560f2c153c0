"""Our predictions as the venue takes them, and whether what stands there is what we meant."""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.api import (
    Binary,
    BinaryShape,
    Choice,
    ChoiceShape,
    ContractError,
    Curve,
    CurveShape,
    Prediction,
    Rejected,
    Shape,
)
from plugins.metaculus.cdf import DIGITS, Rules
from plugins.metaculus.crowd import by_option
from plugins.metaculus.raw import RawForecast, RawMine, RawQuestion, parsed

LEAST, MOST = 0.001, 0.999
SAME = 1e-9
# What is withdrawn ends at once, by the clock of the site.
CLOCKS_APART = timedelta(minutes=10)
YES, OPTIONS, CURVE = "probability_yes", "probability_yes_per_category", "continuous_cdf"
_HALVINGS = 200
# The site takes more, and official bots cut there.
MAX_CHARS = 150_000

Item = Mapping[str, Any]


def item_of(question_id: int, prediction: Prediction, shape: Shape) -> dict[str, Any]:
    """Return what is sent for one question, moved into the venue's bounds by as little as possible.

    Raises Rejected for a prediction of another shape.
    """
    match prediction, shape:
        case Binary(probability=probability), BinaryShape():
            return {"question": question_id, YES: min(max(probability, LEAST), MOST)}
        case Choice(probabilities=given), ChoiceShape(options=options) if set(given) == set(options):
            return {"question": question_id, OPTIONS: within_bounds({option: given[option] for option in options})}
        case Curve(cdf=cdf), CurveShape() if len(cdf) == len(shape.grid):
            rules = rules_of(shape)
            valid = cdf if not rules.violations(cdf) else rules.nearest(cdf)
            if broken := rules.violations(valid):
                message = f"question {question_id}: no valid CDF was found: {'; '.join(broken)}"
                raise Rejected(message)
            return {"question": question_id, CURVE: [round(value, DIGITS) for value in valid]}
    message = f"question {question_id} is a {shape.kind} now, which the {prediction.kind} forecast does not answer"
    raise Rejected(message)


def taken(prediction: Prediction, shape: Shape) -> Prediction:
    """Return a prediction as the venue keeps it; raises Rejected for one of another shape."""
    item = item_of(0, prediction, shape)
    if YES in item:
        return Binary(item[YES])
    return Choice(item[OPTIONS]) if OPTIONS in item else Curve(tuple(item[CURVE]))


def clean(text: str) -> str:
    """Return a comment as the site keeps it: without blanks around it, cut, and encodable."""
    return text.encode(errors="replace").decode().strip()[:MAX_CHARS].strip()


def rules_of(shape: CurveShape) -> Rules:
    """Return the rules for CDFs of a shape."""
    return Rules(steps=len(shape.grid) - 1, open_lower=shape.open_lower, open_upper=shape.open_upper)


def within_bounds(probabilities: Mapping[str, float]) -> dict[str, float]:
    """Return probabilities that sum to 1, each in [0.001, 0.999], in proportion to those given within the bounds.

    Raises Rejected for more options than have room.
    """
    if len(probabilities) * LEAST > 1.0:
        message = f"{len(probabilities)} options have no room for {LEAST} each"
        raise Rejected(message)

    def clamped(factor: float) -> dict[str, float]:
        return {option: min(max(factor * value, LEAST), MOST) for option, value in probabilities.items()}

    low, high = 0.0, 1.0
    while math.fsum(clamped(high).values()) < 1.0:
        high *= 2.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if math.fsum(clamped(middle).values()) < 1.0:
            low = middle
        else:
            high = middle
    found = {option: round(value, DIGITS) for option, value in clamped(high).items()}
    largest = max(found, key=found.__getitem__)
    rest = math.fsum(value for option, value in found.items() if option != largest)
    found[largest] = min(round(1.0 - rest, DIGITS), MOST)
    return found


def mine_of(asked: RawQuestion) -> RawMine:
    """Return our forecasts on a question, none where the key is missing; raises ContractError for odd ones."""
    if asked.my_forecasts is None:
        return RawMine()
    return parsed(RawMine, asked.my_forecasts, f"question {asked.id}, our forecasts")


def is_active(forecast: RawForecast | None, now: datetime) -> bool:
    """Say whether a forecast stands: a withdrawn one is still the latest, with an end in the past."""
    return forecast is not None and (forecast.end_time is None or forecast.end_time > now.timestamp())


def standing_start(asked: RawQuestion, item: Item, now: datetime) -> float | None:
    """Return since when the forecast of a request stands, None where it does not.

    While options change, the latest one begins in the future, and the last of the history has the new options' share
    on the last option.
    """
    mine = mine_of(asked)
    candidates = [mine.latest, *mine.history[-1:]]
    for forecast in candidates:
        if forecast is not None and is_active(forecast, now) and _same(asked, forecast.forecast_values, item):
            return forecast.start_time
    return None


def _same(asked: RawQuestion, values: Sequence[float | None], item: Item) -> bool:
    if YES in item:
        return len(values) == 2 and values[1] is not None and abs(values[1] - item[YES]) <= SAME
    if CURVE in item:
        return _close(values, item[CURVE])
    ever = asked.all_options_ever or asked.options or ()
    try:
        stands = by_option(values, ever)
    except ValueError:
        return False
    return _same_options(stands, item[OPTIONS], ever)


def _same_options(stands: Mapping[str, float], meant: Mapping[str, float], ever: Sequence[str]) -> bool:
    folded = dict(meant)
    if early := [option for option in meant if option not in stands]:
        if not ever or ever[-1] not in folded or ever[-1] in early:
            return False
        folded[ever[-1]] += math.fsum(folded.pop(option) for option in early)
    return stands.keys() == folded.keys() and _close(list(stands.values()), [folded[option] for option in stands])


def _close(values: Sequence[float | None], meant: Sequence[float]) -> bool:
    return len(values) == len(meant) and all(
        value is not None and abs(value - wanted) <= SAME for value, wanted in zip(values, meant, strict=True)
    )


def is_withdrawn(asked: RawQuestion, now: datetime) -> bool:
    """Say whether no forecast of ours stands, or none will in a moment: the clock of the site may be ahead of ours."""
    return not is_active(mine_of(asked).latest, now + CLOCKS_APART)


def read_item(body: object) -> Item:
    """Return the one item of a request that was sealed; raises ContractError for another form."""
    if isinstance(body, list) and len(body) == 1 and isinstance(body[0], dict) and {YES, OPTIONS, CURVE} & set(body[0]):
        item: Item = body[0]
        return item
    message = "a sealed forecast is a list of one item"
    raise ContractError(message)
