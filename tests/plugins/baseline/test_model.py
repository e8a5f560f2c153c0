from collections import defaultdict
from datetime import date, timedelta

import pytest

from bot.api import LeakError
from plugins.baseline.conflict_form import remove_blank_values
from plugins.baseline.model import fit_parameters, predict_event, select_form
from plugins.baseline.parameters import BaselineParameters
from plugins.baseline.question_facts import KnownOutcome, QuestionFacts, ScoredEvent
from plugins.baseline.question_templates import ConflictQuestion
from tests.plugins.baseline.published_rounds import SERIES, PublishedRounds

DUE = date(2026, 4, 26)
NOTHING = BaselineParameters(before=DUE)
HORIZONS = (7, 30, 90, 180, 365, 1095, 1825, 3650)


def events(facts: QuestionFacts) -> list[ScoredEvent]:
    if facts.source not in SERIES:
        return [ScoredEvent(facts)]
    return [ScoredEvent(facts, facts.due + timedelta(days=days)) for days in HORIZONS]


def brier_index(errors: list[float]) -> float:
    return float(100.0 * (1.0 - (sum(errors) / len(errors)) ** 0.5))


@pytest.mark.timeout(240)
def test_forward_in_time_the_development_rounds_score_above_the_reference(rounds: PublishedRounds) -> None:
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for due in rounds.due():
        parameters = fit_parameters(rounds.known_before(due), before=due)
        asked = [facts for facts in rounds.questions if facts.due == due]
        read = {(facts.source, facts.key): facts for facts in remove_blank_values(asked)}
        for known in rounds.scored(due):
            was = known.event.facts
            chance = predict_event(parameters, ScoredEvent(read[was.source, was.key], known.event.target)).probability
            errors["dataset" if known.event.target else "market"].append((chance - known.outcome) ** 2)
    market, dataset = brier_index(errors["market"]), brier_index(errors["dataset"])
    assert (len(errors["market"]), len(errors["dataset"])) == (953, 8037)
    assert market >= 75.0
    assert dataset >= 60.0
    assert (market + dataset) / 2.0 >= 67.4


@pytest.mark.parametrize(
    ("due", "blank"),
    [
        (date(2025, 11, 9), ()),
        (date(2025, 11, 23), ("acled",)),
        (date(2026, 1, 18), ("acled",)),
        (date(2026, 2, 1), ()),
    ],
)
def test_a_fit_remembers_that_the_latest_conflict_round_was_blank(
    rounds: PublishedRounds, due: date, blank: tuple[str, ...]
) -> None:
    seen = [known for known in rounds.known_before(due) if known.event.facts.source == "acled"]
    assert fit_parameters(seen, before=due).blank == blank


def test_in_an_outage_a_zero_is_not_taken_for_peace() -> None:
    question = ConflictQuestion("Peru", "Riots", "acled_inc")
    facts = QuestionFacts(source="acled", key=question.key, due=DUE, text=question.text, value=0.0)
    event = ScoredEvent(facts, DUE + timedelta(days=7))
    assert predict_event(NOTHING, event).probability < 0.02
    assert predict_event(BaselineParameters(before=DUE, blank=("acled",)), event).probability > 0.15


def test_an_outcome_of_the_day_itself_is_a_leak() -> None:
    facts = QuestionFacts(source="yfinance", key="XEL", due=DUE - timedelta(days=7))
    late = KnownOutcome(event=ScoredEvent(facts, DUE), outcome=1.0, resolved_on=DUE)
    with pytest.raises(LeakError, match="XEL was asked or resolved on 2026-04-26"):
        fit_parameters([late], before=DUE)


def test_an_outcome_of_the_day_before_is_none() -> None:
    facts = QuestionFacts(source="yfinance", key="XEL", due=DUE - timedelta(days=8))
    day = DUE - timedelta(days=1)
    fitted = fit_parameters([KnownOutcome(event=ScoredEvent(facts, day), outcome=1.0, resolved_on=day)], before=DUE)
    assert fitted.rows == {"yfinance": 1}


@pytest.mark.parametrize(
    ("source", "key", "text", "form"),
    [
        ("acled", "ab" * 32, "", "any_series"),
        ("acled", "x", "Will there be more 'Riots' in Peru for the 30 days before", "acled_inc"),
        ("acled", "x", "Will there be more of something else?", "acled_inc"),
        ("acled", "x", "Will there be more than ten times as many fatalities in Peru", "acled_10x"),
        ("wikipedia", "cd" * 32, "", "any_series"),
        ("wikipedia", "x", "Will there be a vaccine?", "wiki_vaccine"),
        ("dbnomics", "celsius.07149.D", "", "dbnomics"),
        ("dbnomics", "INSEE/prices", "", "any_series"),
        ("fred", "NEVER_SEEN", "", "fred"),
        ("yfinance", "NEVER", "", "yfinance"),
        ("a_new_source", "x", "Will it rise?", "any_series"),
    ],
)
def test_a_dated_question_falls_back_to_the_nearest_form_and_never_to_one_half(
    source: str, key: str, text: str, form: str
) -> None:
    event = ScoredEvent(QuestionFacts(source=source, key=key, due=DUE, text=text), DUE + timedelta(days=30))
    assert select_form(event).name == form
    assert predict_event(NOTHING, event).probability != 0.5


@pytest.mark.parametrize(("value", "form"), [(0.4, "market"), (None, "any_market"), (40.0, "any_market")])
def test_a_market_question_goes_by_its_price_or_the_rate_of_markets(value: float | None, form: str) -> None:
    event = ScoredEvent(QuestionFacts(source="a_new_market", key="x", due=DUE, value=value))
    assert select_form(event).name == form
    assert predict_event(NOTHING, event).probability < 0.5


def test_before_any_fit_the_log_odds_of_a_price_are_stretched_a_little() -> None:
    question = predict_event(NOTHING, ScoredEvent(QuestionFacts(source="m", key="x", due=DUE, value=0.5)))
    assert question.probability == pytest.approx(0.5)
    assert predict_event(
        NOTHING, ScoredEvent(QuestionFacts(source="m", key="x", due=DUE, value=0.17))
    ).probability == pytest.approx(1 / (1 + (0.83 / 0.17) ** 1.15))


def test_an_unknown_template_follows_the_rate_of_its_source() -> None:
    def outcome(step: int) -> KnownOutcome:
        due = date(2025, 1, 5) + timedelta(days=14 * step)
        event = ScoredEvent(QuestionFacts(source="a_new_source", key=str(step), due=due), due + timedelta(days=7))
        return KnownOutcome(event=event, outcome=1.0, resolved_on=event.day)

    event = ScoredEvent(QuestionFacts(source="a_new_source", key="x", due=DUE), DUE + timedelta(days=7))
    fitted = fit_parameters([outcome(step) for step in range(30)], before=DUE)
    assert predict_event(fitted, event).probability > 0.8 > predict_event(NOTHING, event).probability


def test_every_question_and_horizon_of_a_round_gets_a_probability_and_a_reason(
    rounds: PublishedRounds,
) -> None:
    asked = [event for facts in rounds.questions if facts.due == DUE for event in events(facts)]
    question = [predict_event(NOTHING, event) for event in asked]
    assert len(asked) == 250 + 8 * 250
    assert all(0.0 < estimate.probability < 1.0 and estimate.reasons for estimate in question)


@pytest.mark.timeout(60)
def test_all_published_rounds_are_fitted(rounds: PublishedRounds) -> None:
    examples = rounds.known_before(date(2026, 5, 10))
    fitted = fit_parameters(examples, before=date(2026, 5, 10))
    assert sum(fitted.rows.values()) == len(examples)


def test_an_event_before_its_forecast_is_refused() -> None:
    with pytest.raises(ValueError, match="is not after"):
        ScoredEvent(QuestionFacts(source="fred", key="DGS10", due=DUE), DUE)


def test_a_single_outcome_has_no_day() -> None:
    with pytest.raises(ValueError, match="needs a target day"):
        _ = ScoredEvent(QuestionFacts(source="m", key="x", due=DUE)).day


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        QuestionFacts(source="fred", key="DGS10", due=DUE, value=value)


def test_an_outcome_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        KnownOutcome(event=ScoredEvent(QuestionFacts(source="m", key="x", due=DUE)), outcome=1.5, resolved_on=DUE)
