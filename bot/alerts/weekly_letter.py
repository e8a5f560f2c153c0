"""The weekly letter: what was forecast, what resolved and how well, what was gained and spent, best and worst."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time, timedelta

from bot.config.alert_schema import AlertsSection, LetterDay
from bot.core.alerts import plain_message_text
from bot.core.light_dataclass import dataclass
from bot.store.letter_queries import ScoredAnswer, VenueForecasts, WeekRecord

WEEK = timedelta(days=7)
LETTER_TIME = time(8)
# A letter that could not be written in time, because nothing ran, is not written any more.
MAX_LATE = timedelta(days=3)
# So many of the best answers are shown, and as many of the worst.
ANSWERS_SHOWN = 2
_MAX_TITLE_CHARS, _MAX_REASON_CHARS = 120, 240


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyLetter:
    """A letter about the week before ``until``."""

    subject: str
    text: str
    until: datetime


def letter_due_at(section: AlertsSection, now: datetime) -> datetime | None:
    """Return the moment of the last letter day if its letter may still be written, None otherwise."""
    if section.letter_day is LetterDay.NEVER:
        return None
    local = now.astimezone(section.zone)
    weekday = [*LetterDay].index(section.letter_day)
    day = local.date() - timedelta(days=(local.weekday() - weekday) % 7)
    due_at = datetime.combine(day, LETTER_TIME, section.zone).astimezone(UTC)
    if due_at > now:
        due_at -= WEEK
    return due_at if now - due_at <= MAX_LATE else None


def write_letter(record: WeekRecord, until: datetime) -> WeeklyLetter:
    """Write the letter about the record of a week."""
    made, scored = sum(one.forecasts for one in record.forecasts), record.scored
    forecasts = "1 forecast" if made == 1 else f"{made} forecasts"
    subject = f"Foxcast, week to {until:%Y-%m-%d}: {forecasts}, {len(scored)} scored, {record.spent_usd:.2f} USD spent"
    lines = [_forecast_line(record.forecasts, record.failed), *_score_lines(scored)]
    lines += [
        f"Account at {one.venue}{' (paper)' if one.paper else ''}: {one.gained:+.2f} {one.currency}, "
        f"now worth {one.worth:.2f}"
        for one in record.gains
    ]
    lines.append(f"Models: {record.calls} calls, {record.spent_usd:.2f} USD")
    best, worst = scored[:ANSWERS_SHOWN], [*reversed(scored[ANSWERS_SHOWN:][-ANSWERS_SHOWN:])]
    for heading, answers in (("Best", best), ("Worst", worst)):
        lines += ["", f"{heading}:", *(_answer_text(one, record.reasons) for one in answers)] if answers else []
    return WeeklyLetter(subject=subject, text="\n".join(lines), until=until)


def _forecast_line(made: Sequence[VenueForecasts], failed: int) -> str:
    parts = [f"{one.forecasts} at {one.venue} (of {one.questions} questions)" for one in made]
    text = f"Forecasts: {', '.join(parts) or 'none'}"
    return f"{text}; {failed} failed" if failed else text


def _score_lines(scored: Sequence[ScoredAnswer]) -> Iterator[str]:
    if not scored:
        yield "Scored: nothing resolved"
        return
    for forecaster in sorted({one.forecaster for one in scored}):
        own = [one for one in scored if one.forecaster == forecaster]
        text = f"Scored: {len(own)} of {forecaster}, mean Brier score {_mean([one.brier for one in own]):.3f}"
        priced = [(one, one.crowd) for one in own if one.crowd is not None]
        if priced:
            crowd = _mean([(price - one.outcome) ** 2 for one, price in priced])
            same = _mean([one.brier for one, _ in priced])
            text += f"; of {len(priced)} with a market price: {same:.3f}, the market {crowd:.3f}"
        yield text


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _answer_text(one: ScoredAnswer, reasons: dict[str, str]) -> str:
    crowd = "" if one.crowd is None else f", the market {one.crowd:.0%}"
    happened = {0.0: "no", 1.0: "yes"}.get(one.outcome, f"{one.outcome:.2f}")
    reason = plain_message_text(" ".join(reasons.get(one.forecast, "").split()), longest=_MAX_REASON_CHARS)
    because = f" Reason given: {reason}" if reason else ""
    title = plain_message_text(" ".join(one.title.split()), longest=_MAX_TITLE_CHARS)
    return f"- {title}: {one.forecaster} said {one.probability:.0%}{crowd}; outcome {happened}.{because}"
