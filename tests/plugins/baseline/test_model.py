from collections import defaultdict
from datetime import date, timedelta

import pytest

from bot.api import LeakError
from plugins.baseline.acled import without_outages
from plugins.baseline.facts import Event, Facts, Known
from plugins.baseline.model import fit, form_of, predict
from plugins.baseline.parameters import Parameters
from plugins.baseline.subtype import Conflict
from tests.plugins.baseline.rounds import SERIES, Rounds

DUE = date(2026, 4, 26)
NOTHING = Parameters(before=DUE)
HORIZONS = (7, 30, 90, 180, 365, 1095, 1825, 3650)


def events(facts: Facts) -> list[Event]:
    if facts.source not in SERIES:
        return [Event(facts)]
    return [Event(facts, facts.due + timedelta(days=days)) for days in HORIZONS]


def brier_index(errors: list[float]) -> float:
    return float(100.0 * (1.0 - (sum(errors) / len(errors)) ** 0.5))


@pytest.mark.timeout(240)
def test_forward_in_time_the_development_rounds_score_above_the_reference(rounds: Rounds) -> None:
    errors: defaultdict[str, list[float]] = defaultdict(list)
    for due in rounds.due():
        parameters = fit(rounds.known_before(due), before=due)
        asked = [facts for facts in rounds.questions if facts.due == due]
        read = {(facts.source, facts.key): facts for facts in without_outages(asked)}
        for known in rounds.scored(due):
            was = known.event.facts
            chance = predict(parameters, Event(read[was.source, was.key], known.event.target)).probability
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
    rounds: Rounds, due: date, blank: tuple[str, ...]
) -> None:
    seen = [known for known in rounds.known_before(due) if known.event.facts.source == "acled"]
    assert fit(seen, before=due).blank == blank


def test_in_an_outage_a_zero_is_not_taken_for_peace() -> None:
    told = Conflict("Peru", "Riots", "acled_inc")
    facts = Facts(source="acled", key=told.key, due=DUE, text=told.text, value=0.0)
    event = Event(facts, DUE + timedelta(days=7))
    assert predict(NOTHING, event).probability < 0.02
    assert predict(Parameters(before=DUE, blank=("acled",)), event).probability > 0.15


def test_an_outcome_of_the_day_itself_is_a_leak() -> None:
    facts = Facts(source="yfinance", key="XEL", due=DUE - timedelta(days=7))
    late = Known(event=Event(facts, DUE), outcome=1.0, resolved_on=DUE)
    with pytest.raises(LeakError, match="XEL was asked or resolved on 2026-04-26"):
        fit([late], before=DUE)


def test_an_outcome_of_the_day_before_is_none() -> None:
    facts = Facts(source="yfinance", key="XEL", due=DUE - timedelta(days=8))
    day = DUE - timedelta(days=1)
    fitted = fit([Known(event=Event(facts, day), outcome=1.0, resolved_on=day)], before=DUE)
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
    event = Event(Facts(source=source, key=key, due=DUE, text=text), DUE + timedelta(days=30))
    assert form_of(event).name == form
    assert predict(NOTHING, event).probability != 0.5


@pytest.mark.parametrize(("value", "form"), [(0.4, "market"), (None, "any_market"), (40.0, "any_market")])
def test_a_market_question_goes_by_its_price_or_the_rate_of_markets(value: float | None, form: str) -> None:
    event = Event(Facts(source="a_new_market", key="x", due=DUE, value=value))
    assert form_of(event).name == form
    assert predict(NOTHING, event).probability < 0.5


def test_before_any_fit_a_price_is_the_probability() -> None:
    told = predict(NOTHING, Event(Facts(source="m", key="x", due=DUE, value=0.5)))
    assert told.probability == pytest.approx(0.5)
    assert predict(NOTHING, Event(Facts(source="m", key="x", due=DUE, value=0.17))).probability == pytest.approx(0.17)


def test_an_unknown_template_follows_the_rate_of_its_source() -> None:
    def outcome(step: int) -> Known:
        due = date(2025, 1, 5) + timedelta(days=14 * step)
        event = Event(Facts(source="a_new_source", key=str(step), due=due), due + timedelta(days=7))
        return Known(event=event, outcome=1.0, resolved_on=event.day)

    event = Event(Facts(source="a_new_source", key="x", due=DUE), DUE + timedelta(days=7))
    fitted = fit([outcome(step) for step in range(30)], before=DUE)
    assert predict(fitted, event).probability > 0.8 > predict(NOTHING, event).probability


def test_every_question_and_horizon_of_a_round_gets_a_probability_and_a_reason(
    rounds: Rounds,
) -> None:
    asked = [event for facts in rounds.questions if facts.due == DUE for event in events(facts)]
    told = [predict(NOTHING, event) for event in asked]
    assert len(asked) == 250 + 8 * 250
    assert all(0.0 < estimate.probability < 1.0 and estimate.reasons for estimate in told)


@pytest.mark.timeout(60)
def test_all_published_rounds_are_fitted(rounds: Rounds) -> None:
    examples = rounds.known_before(date(2026, 5, 10))
    fitted = fit(examples, before=date(2026, 5, 10))
    assert sum(fitted.rows.values()) == len(examples)


def test_an_event_before_its_forecast_is_refused() -> None:
    with pytest.raises(ValueError, match="is not after"):
        Event(Facts(source="fred", key="DGS10", due=DUE), DUE)


def test_a_single_outcome_has_no_day() -> None:
    with pytest.raises(ValueError, match="needs a target day"):
        _ = Event(Facts(source="m", key="x", due=DUE)).day


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        Facts(source="fred", key="DGS10", due=DUE, value=value)


def test_an_outcome_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        Known(event=Event(Facts(source="m", key="x", due=DUE)), outcome=1.5, resolved_on=DUE)
