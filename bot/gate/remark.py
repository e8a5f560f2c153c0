"""What is said beside a forecast at its venue: made by code from the belief on record, bounded, and made harmless.

A belief may repeat what a page said. So nothing of it stays that a site would render, link, or notify somebody of; what
looks like a key is left out; and the values of configured secrets never pass.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from bot.config.venue_schema import DEFAULT_COMMENT
from bot.domain.belief import Belief, Evidence
from bot.domain.curves import quantiles_of
from bot.domain.forecast import Forecast, Trial
from bot.domain.invisible import visible
from bot.domain.order import Order
from bot.domain.prediction import Binary, Choice, Curve, CurveShape, Prediction
from bot.domain.question import Question
from bot.redact import hide

MOST_CHARS = 2_000
_PART_CHARS = 300
_REASONS = 3
_OPTIONS = 5
_LEVELS = (0.1, 0.5, 0.9)

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^\s/?#]*@)?([^\s/?#:)\]>]+)[^\s)\]>]*")
# No word is so long; keys are.
_KEY = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
# What markup, mentions and tables are made of.
_MARKUP = re.compile(r"[<>\[\]{}|\\`*_~^#@$]+")
_BLANKS = re.compile(r"\s+")


def remark(
    question: Question,
    forecast: Forecast,
    trials: Sequence[Trial],
    *,
    order: Order | None = None,
    template: str = DEFAULT_COMMENT,
) -> str:
    """Return the comment on a forecast, and on the order that came of it, in the words of the template.

    Unless it says otherwise those are the numbers, where they started from, and the strongest reasons. What is put into
    it is plain text.
    """
    belief = next((trial.belief for trial in trials if trial.belief is not None and _says_much(trial.belief)), None)
    reasons = () if belief is None else _reasons(belief)
    option = "" if order is None else order.option
    parts = {
        "title": question.title,
        "answer": option or question.facts.get("label", ""),
        "forecast": _forecast(question, forecast),
        "bet": f"; bet {order.leg.upper()} on {option}" if order is not None and option else "",
        "revision": str(forecast.revision),
        "trials": "1 trial" if len(trials) == 1 else f"{len(trials)} trials",
        "forecaster": forecast.forecaster,
        "until": f"{forecast.cutoff:%Y-%m-%d %H:%M} UTC",
    }
    plain = {name: harmless(text, chars=_PART_CHARS) for name, text in parts.items()}
    lines = "\n".join(harmless(line, chars=_PART_CHARS) for line in reasons)
    return template.format(**plain, reasons=lines)[:MOST_CHARS].strip()


def harmless(text: str, *, chars: int = MOST_CHARS) -> str:
    """Return a line of at most so many characters, without markup, links, mentions, and what looks like a key."""
    hidden = hide(visible(text))
    plain = _ADDRESS.sub(lambda match: match[2], hidden)
    plain = _MARKUP.sub(" ", _KEY.sub("(left out)", plain))
    line = _BLANKS.sub(" ", plain).strip()
    return line if len(line) <= chars else line[: chars - 3].rstrip() + "..."


def _says_much(belief: Belief) -> bool:
    return bool(belief.anchor or belief.evidence_for or belief.evidence_against or belief.reason)


def _forecast(question: Question, forecast: Forecast) -> str:
    told = "; ".join(_told(question, one) for one in list(forecast.predictions.values())[:1])
    label = question.facts.get("label")
    return f"{told} for {label}" if label else told


def _told(question: Question, prediction: Prediction) -> str:
    match prediction, question.shape:
        case Binary(probability=probability), _:
            return f"Forecast {probability:.1%}"
        case Choice(probabilities=options), _:
            return f"Forecast {_best(options)}"
        case Curve(), CurveShape() as shape:
            values = quantiles_of(prediction, shape, _LEVELS)
            return f"Forecast {', '.join(f'{level:.0%}: {value:.6g}' for level, value in values.items())} {shape.unit}"
    return "Forecast"


def _best(options: Mapping[str, float]) -> str:
    ranked = sorted(options.items(), key=lambda item: -item[1])
    more = f" and {len(ranked) - _OPTIONS} more" if len(ranked) > _OPTIONS else ""
    return ", ".join(f"{name} {value:.1%}" for name, value in ranked[:_OPTIONS]) + more


def _reasons(belief: Belief) -> Iterator[str]:
    if belief.anchor:
        yield f"Starting point: {belief.anchor}"
    for word, reasons in (("For", belief.evidence_for), ("Against", belief.evidence_against)):
        for one in sorted(reasons, key=_weight, reverse=True)[:_REASONS]:
            yield f"{word}: {one.text}" + (f" ({one.source})" if one.source else "")
    if belief.reason:
        yield f"In short: {belief.reason}"


def _weight(one: Evidence) -> float:
    return abs(one.log_odds or 0.0)
