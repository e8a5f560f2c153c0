"""Writes the comment that accompanies a forecast at its venue, from the recorded belief.

A belief may repeat text from a page, so markup, links, mentions and anything that looks like a key are removed, the
length is bounded, and configured secrets are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from bot.config.venue_schema import DEFAULT_COMMENT
from bot.core.beliefs import Belief, Evidence
from bot.core.distributions import curve_quantiles
from bot.core.forecasts import Forecast, Trial
from bot.core.orders import Order
from bot.core.plain_text import strip_invisible
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, CurveShape, Prediction
from bot.core.questions import Question
from bot.core.redaction import redact_known_secrets

MAX_COMMENT_CHARS = 2_000
_MAX_PART_CHARS = 300
_MAX_REASONS = 3
_MAX_OPTIONS = 5
_QUANTILE_LEVELS = (0.1, 0.5, 0.9)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^\s/?#]*@)?([^\s/?#:)\]>]+)[^\s)\]>]*")
# No ordinary word is that long; keys are.
_KEY_LIKE_WORD = re.compile(r"[A-Za-z0-9+/=_-]{32,}")
# What markup, mentions and tables are made of.
_MARKUP = re.compile(r"[<>\[\]{}|\\`*_~^#@$]+")
_BLANKS = re.compile(r"\s+")


def render_comment(
    question: Question,
    forecast: Forecast,
    trials: Sequence[Trial],
    *,
    order: Order | None = None,
    template: str = DEFAULT_COMMENT,
) -> str:
    """Return the comment on a forecast and the resulting order, made from the template, as plain text."""
    belief = next((trial.belief for trial in trials if trial.belief is not None and _has_reasons(trial.belief)), None)
    reasons = () if belief is None else _reason_lines(belief)
    option = "" if order is None else order.option
    parts = {
        "title": question.title,
        "answer": option or question.label,
        "forecast": _describe_forecast(question, forecast),
        "bet": f"; bet {order.leg.upper()} on {option}" if order is not None and option else "",
        "revision": str(forecast.revision),
        "trials": "1 trial" if len(trials) == 1 else f"{len(trials)} trials",
        "forecaster": forecast.forecaster,
        "until": f"{forecast.cutoff:%Y-%m-%d %H:%M} UTC",
    }
    plain = {name: sanitize_line(text, chars=_MAX_PART_CHARS) for name, text in parts.items()}
    lines = "\n".join(sanitize_line(line, chars=_MAX_PART_CHARS) for line in reasons)
    return template.format(**plain, reasons=lines)[:MAX_COMMENT_CHARS].strip()


def sanitize_line(text: str, *, chars: int = MAX_COMMENT_CHARS) -> str:
    """Return a line of at most so many characters, without markup, links, mentions, and text that looks like a key."""
    hidden = redact_known_secrets(strip_invisible(text))
    plain = _URL.sub(lambda match: match[2], hidden)
    plain = _MARKUP.sub(" ", _KEY_LIKE_WORD.sub("(left out)", plain))
    line = _BLANKS.sub(" ", plain).strip()
    return line if len(line) <= chars else line[: chars - 3].rstrip() + "..."


def _has_reasons(belief: Belief) -> bool:
    return bool(belief.anchor or belief.evidence_for or belief.evidence_against or belief.reason)


def _describe_forecast(question: Question, forecast: Forecast) -> str:
    text = "; ".join(_describe_prediction(question, one) for one in list(forecast.predictions.values())[:1])
    return f"{text} for {question.label}" if question.label else text


def _describe_prediction(question: Question, prediction: Prediction) -> str:
    match prediction, question.shape:
        case BinaryPrediction(probability=probability), _:
            return f"Forecast {probability:.1%}"
        case ChoicePrediction(probabilities=options), _:
            return f"Forecast {_describe_options(options)}"
        case CurvePrediction(), CurveShape() as shape:
            values = curve_quantiles(prediction, shape, _QUANTILE_LEVELS)
            return f"Forecast {', '.join(f'{level:.0%}: {value:.6g}' for level, value in values.items())} {shape.unit}"
    return "Forecast"


def _describe_options(options: Mapping[str, float]) -> str:
    ranked = sorted(options.items(), key=lambda item: -item[1])
    more = f" and {len(ranked) - _MAX_OPTIONS} more" if len(ranked) > _MAX_OPTIONS else ""
    return ", ".join(f"{name} {value:.1%}" for name, value in ranked[:_MAX_OPTIONS]) + more


def _reason_lines(belief: Belief) -> Iterator[str]:
    if belief.anchor:
        yield f"Starting point: {belief.anchor}"
    for word, reasons in (("For", belief.evidence_for), ("Against", belief.evidence_against)):
        for one in sorted(reasons, key=_evidence_weight, reverse=True)[:_MAX_REASONS]:
            yield f"{word}: {one.text}" + (f" ({one.source})" if one.source else "")
    if belief.reason:
        yield f"In short: {belief.reason}"


def _evidence_weight(one: Evidence) -> float:
    return abs(one.log_odds or 0.0)
