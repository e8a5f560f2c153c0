"""The weekly letter: when it is due, and what it says about a ledger."""

from datetime import datetime, timedelta

import pytest

from bot.alerts.weekly_letter import letter_due_at, write_letter
from bot.config.alert_schema import AlertsSection
from bot.store.letter_queries import AccountGain, ScoredAnswer, VenueForecasts, WeekRecord

MONDAY = datetime.fromisoformat("2026-03-02T08:00:00+00:00")


def section(**changes: object) -> AlertsSection:
    return AlertsSection.model_validate(changes)


@pytest.mark.parametrize(
    ("after_h", "due"),
    [(-1, None), (0, MONDAY), (71, MONDAY), (73, None), (7 * 24 - 1, None), (7 * 24, MONDAY + timedelta(days=7))],
)
def test_it_is_due_on_its_day_and_for_three_days(after_h: int, due: datetime | None) -> None:
    assert letter_due_at(section(), MONDAY + timedelta(hours=after_h)) == due


def test_the_day_and_its_time_zone_are_configured() -> None:
    berlin = section(letter_day="wednesday", time_zone="Europe/Berlin")
    due = datetime.fromisoformat("2026-03-04T07:00:00+00:00")
    assert letter_due_at(berlin, due) == due
    assert letter_due_at(berlin, due - timedelta(seconds=1)) is None
    assert letter_due_at(section(letter_day="never"), MONDAY) is None


def answer(number: int, probability: float, outcome: float, crowd: float | None = None) -> ScoredAnswer:
    return ScoredAnswer(
        forecast=f"f{number}",
        forecaster="fox",
        title=f"Will <b>{number}</b> happen?",
        probability=probability,
        crowd=crowd,
        outcome=outcome,
        brier=(probability - outcome) ** 2,
    )


def record(*scored: ScoredAnswer) -> WeekRecord:
    return WeekRecord(
        forecasts=[VenueForecasts(venue="sea", forecasts=41, questions=30)],
        failed=2,
        scored=scored,
        calls=410,
        spent_usd=3.21,
        gains=[AccountGain(venue="sea", paper=True, currency="MANA", worth=1012.3, gained=12.3)],
        reasons={"f1": "The tide\nturned @everyone", "f5": ""},
    )


def test_it_says_what_was_forecast_scored_gained_and_spent_with_the_best_and_the_worst() -> None:
    scored = [answer(1, 0.9, 1.0, 0.5), answer(2, 0.8, 1.0), answer(3, 0.6, 1.0), answer(5, 0.9, 0.0, 0.2)]
    letter = write_letter(record(*scored), MONDAY)
    assert letter.subject == "Foxcast, week to 2026-03-02: 41 forecasts, 4 scored, 3.21 USD spent"
    # 0.255 = (0.01 + 0.04 + 0.16 + 0.81) / 4, 0.41 = (0.01 + 0.81) / 2, 0.145 = (0.25 + 0.04) / 2
    assert letter.text.splitlines() == [
        "Forecasts: 41 at sea (of 30 questions); 2 failed",
        "Scored: 4 of fox, mean Brier score 0.255; of 2 with a market price: 0.410, the market 0.145",
        "Account at sea (paper): +12.30 MANA, now worth 1012.30",
        "Models: 410 calls, 3.21 USD",
        "",
        "Best:",
        (
            "- Will \u2039b\u203a1\u2039/b\u203a happen?: fox said 90%, the market 50%; outcome yes. "
            "Reason given: The tide turned \uff20everyone"
        ),
        "- Will \u2039b\u203a2\u2039/b\u203a happen?: fox said 80%; outcome yes.",
        "",
        "Worst:",
        "- Will \u2039b\u203a5\u2039/b\u203a happen?: fox said 90%, the market 20%; outcome no.",
        "- Will \u2039b\u203a3\u2039/b\u203a happen?: fox said 60%; outcome yes.",
    ]


def test_an_answer_is_not_best_and_worst_at_once() -> None:
    text = write_letter(record(answer(1, 0.9, 1.0), answer(2, 0.8, 1.0)), MONDAY).text
    assert "Best:" in text
    assert "Worst:" not in text
    assert "Scored: nothing resolved" in write_letter(record(), MONDAY).text
