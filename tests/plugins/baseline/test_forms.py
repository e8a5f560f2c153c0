"""What each form says before it has seen anything, checked against arithmetic and the calendar."""

import math
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plugins.baseline import conflict_form, economic_form, simple_forms, temperature_form
from plugins.baseline.model_form import ModelForm, estimate_probability
from plugins.baseline.question_facts import KnownOutcome, QuestionFacts, ScoredEvent
from plugins.baseline.question_templates import ConflictQuestion
from tests.plugins.baseline.published_rounds import PublishedRounds

WINTER = date(2026, 1, 18)


def unfitted(form: ModelForm, event: ScoredEvent) -> float:
    return estimate_probability(form.terms(event), {}).probability


def asked(source: str, key: str, *, days: int, value: float | None = None) -> ScoredEvent:
    return ScoredEvent(QuestionFacts(source=source, key=key, due=WINTER, value=value), WINTER + timedelta(days=days))


def station(number: str, days: int) -> ScoredEvent:
    return asked("dbnomics", f"meteofrance_TEMPERATURE_celsius.{number}.D", days=days)


@given(st.floats(0.01, 5000.0))
def test_exceedance_is_the_tail_of_a_geometric_count(average: float) -> None:
    # The library counts failures before the first success, so the mean a has success probability 1 / (1 + a).
    tail = stats.nbinom(1, 1.0 / (1.0 + average)).sf(math.floor(average + 1e-9))
    assert conflict_form.exceedance_probability(average) == pytest.approx(tail, rel=1e-9)


def test_exceedance_of_an_average_of_one_half_is_one_third() -> None:
    assert conflict_form.exceedance_probability(0.5) == pytest.approx(1.0 / 3.0)


def test_a_negative_average_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        conflict_form.exceedance_probability(-1.0)


def test_the_blank_rounds_are_found_and_no_others(rounds: PublishedRounds) -> None:
    # Counted in the files: these are the rounds without a single conflict average above zero.
    blank = {"2025-11-09", "2025-11-23", "2025-12-07", "2025-12-21", "2026-01-04"}
    masked = conflict_form.remove_blank_values(rounds.questions)
    removed = [now for was, now in zip(rounds.questions, masked, strict=True) if was.value != now.value]
    assert {facts.due.isoformat() for facts in removed} == blank
    assert {due.isoformat() for due in conflict_form.find_blank_rounds(rounds.questions)} == blank
    assert len(removed) == 50 * len(blank)


def test_a_lone_zero_is_believed() -> None:
    facts = QuestionFacts(source="acled", key="x", due=WINTER, value=0.0)
    assert conflict_form.remove_blank_values([facts]) == (facts,)


@pytest.mark.parametrize("value", [None, -1.0])
def test_a_conflict_without_a_usable_average_gets_the_share_of_all(value: float | None) -> None:
    question = ConflictQuestion("Peru", "Riots", "acled_inc")
    facts = QuestionFacts(source="acled", key=question.key, due=WINTER, text=question.text, value=value)
    event = ScoredEvent(facts, WINTER + timedelta(days=7))
    assert unfitted(conflict_form.INCREASE_FORM, event) == pytest.approx(1.0 / (1.0 + math.exp(1.3)))


def test_summer_is_warmer_than_winter_north_and_colder_south() -> None:
    assert unfitted(temperature_form.TEMPERATURE_FORM, station("07149", 180)) > 0.9
    assert unfitted(temperature_form.TEMPERATURE_FORM, station("61980", 180)) < 0.1


@pytest.mark.parametrize("number", ["07149", "71805", "61996", "61968", "67005", "78925", "81405"])
def test_a_whole_year_brings_the_same_season_back(number: str) -> None:
    assert unfitted(temperature_form.TEMPERATURE_FORM, station(number, 365)) == pytest.approx(0.5, abs=0.02)


def test_a_station_of_an_unknown_climate_is_refused_by_the_seasonal_form() -> None:
    assert temperature_form.climate_name(QuestionFacts(source="dbnomics", key="celsius.99999.D", due=WINTER)) is None
    with pytest.raises(ValueError, match="no weather station"):
        temperature_form.TEMPERATURE_FORM.terms(station("99999", 7))


@pytest.mark.parametrize(
    ("due", "target", "lists"),
    [
        (date(2026, 3, 29), date(2026, 4, 5), 1),
        (date(2026, 4, 12), date(2026, 4, 19), 0),
        (date(2026, 3, 1), date(2026, 3, 31), 1),
        (date(2025, 12, 21), date(2026, 3, 21), 3),
        (date(2025, 10, 26), date(2026, 10, 26), 12),
    ],
)
def test_chess_lists_are_counted_by_the_firsts_of_months(due: date, target: date, lists: int) -> None:
    assert simple_forms.count_new_lists(due, target) == lists


@given(st.integers(1, 99), st.integers(1, 99))
def test_a_better_chess_rank_is_held_with_a_higher_probability(one: int, other: int) -> None:
    better, worse = sorted((one, other))
    first = unfitted(simple_forms.CHESS_RANK_FORM, asked("wikipedia", "x", days=30, value=float(better)))
    second = unfitted(simple_forms.CHESS_RANK_FORM, asked("wikipedia", "x", days=30, value=float(worse)))
    assert first >= second


def test_a_rank_stays_where_no_list_appears() -> None:
    event = ScoredEvent(
        QuestionFacts(source="wikipedia", key="x", due=date(2026, 4, 12), value=15.0), date(2026, 4, 19)
    )
    assert unfitted(simple_forms.CHESS_RANK_FORM, event) > 0.95


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_a_share_rises_more_surely_over_longer_times(one: int, other: int) -> None:
    shorter, longer = sorted((one, other))
    near = unfitted(simple_forms.SHARE_PRICE_FORM, asked("yfinance", "XEL", days=shorter))
    assert 0.5 < near <= unfitted(simple_forms.SHARE_PRICE_FORM, asked("yfinance", "XEL", days=longer))


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("DFEDTARU", "policy rate"),
        ("H41RESPPALDKNWW", "closed facility"),
        ("CARACBW027SBOG", "growing stock"),
        ("CASACBW027SBOG", "other series"),
        ("SOFRINDEX", "growing stock"),
        ("SOFR90DAYAVG", "lagging rate"),
        ("SOFR", "overnight rate"),
        ("BAMLCC0A0CMTRIV", "share index"),
        ("BAMLC0A0CM", "market price"),
        ("DAAA", "market price"),
        ("AAA10Y", "market price"),
        ("T10Y2Y", "market price"),
        ("ANFCI", "market price"),
        ("DEXUSEU", "market price"),
        ("WALCL", "other series"),
        ("NEVER_SEEN", "other series"),
    ],
)
def test_a_series_belongs_to_the_family_of_its_nature(key: str, name: str) -> None:
    assert economic_form.find_family(key).name == name


def test_a_policy_rate_is_not_expected_to_rise_and_a_stock_of_loans_is() -> None:
    assert unfitted(economic_form.ECONOMIC_FORM, asked("fred", "DFEDTARU", days=30)) < 0.05
    assert unfitted(economic_form.ECONOMIC_FORM, asked("fred", "TOTBKCR", days=90)) > 0.8


def test_a_one_sided_year_moves_a_market_price_little_and_a_balance_sheet_much() -> None:
    def after_falling(key: str) -> float:
        falls = [
            KnownOutcome(event=ScoredEvent(QuestionFacts(source="fred", key=key, due=due), due + timedelta(days=30)),
                         outcome=0.0, resolved_on=due + timedelta(days=30))
            for due in (date(2025, 1, 5) + timedelta(days=14 * step) for step in range(24))
        ]  # fmt: skip
        fitted = economic_form.ECONOMIC_FORM.fit(falls)
        return estimate_probability(economic_form.ECONOMIC_FORM.terms(asked("fred", key, days=30)), fitted).probability

    assert after_falling("DGS10") > 0.42
    assert after_falling("WALCL") < 0.3


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_higher_price_never_gives_a_lower_probability(one: float, other: float) -> None:
    lower, higher = sorted((one, other))
    first = unfitted(
        simple_forms.MARKET_PRICE_FORM, ScoredEvent(QuestionFacts(source="m", key="x", due=WINTER, value=lower))
    )
    assert (
        0.0
        < first
        <= unfitted(
            simple_forms.MARKET_PRICE_FORM, ScoredEvent(QuestionFacts(source="m", key="x", due=WINTER, value=higher))
        )
        < 1.0
    )


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=1, max_size=30))
def test_no_outcomes_can_stretch_the_price_beyond_a_fifth(seen: list[tuple[float, bool]]) -> None:
    examples = [
        KnownOutcome(
            event=ScoredEvent(QuestionFacts(source="m", key=str(index), due=WINTER, value=price)),
            outcome=float(happened),
            resolved_on=WINTER + timedelta(days=1),
        )
        for index, (price, happened) in enumerate(seen)
    ]
    assert 0.8 - 1e-12 <= simple_forms.MARKET_PRICE_FORM.fit(examples)["slope"] <= 1.2 + 1e-12


def test_a_market_without_a_price_is_refused_by_the_price_form() -> None:
    with pytest.raises(ValueError, match="no price"):
        simple_forms.MARKET_PRICE_FORM.terms(ScoredEvent(QuestionFacts(source="m", key="x", due=WINTER)))
