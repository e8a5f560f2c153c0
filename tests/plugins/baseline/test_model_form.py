from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.api import RegressionTerm
from plugins.baseline.model_form import ModelForm, estimate_probability
from plugins.baseline.question_facts import KnownOutcome, QuestionFacts, ScoredEvent

DAY = date(2026, 1, 4)


def test_full_correlation_counts_a_block_as_one_outcome() -> None:
    term = RegressionTerm("all", 1.0, 0.0, 1.0, "")
    form = ModelForm(name="f", terms=lambda _: (term,), block=lambda event: event.facts.key, correlation=1.0)
    facts = QuestionFacts(source="s", key="x", due=DAY)
    many = [KnownOutcome(event=ScoredEvent(facts), outcome=1.0, resolved_on=DAY)] * 20
    assert form.fit(many)["all"] == pytest.approx(form.fit(many[:1])["all"], abs=1e-7)


def test_reasons_start_with_the_prior_and_tell_only_changes() -> None:
    terms = (
        RegressionTerm("a", 1.0, -1.0, 1.0, "first"),
        RegressionTerm("b", 1.0, 0.0, 1.0, "silent"),
        RegressionTerm("c", 1.0, 1.0, 1.0, "last"),
    )
    question = estimate_probability(terms, {})
    assert question.probability == pytest.approx(0.5)
    assert [str(reason) for reason in question.reasons] == ["begins at 0.269: first", "adjusted 0.269 -> 0.500: last"]


def test_an_estimate_needs_a_term() -> None:
    with pytest.raises(ValueError, match="at least one term"):
        estimate_probability((), {})


@given(st.floats(-1e6, 1e6))
def test_probabilities_stay_inside_the_unit_interval(log_odds: float) -> None:
    assert 0.0 < estimate_probability((RegressionTerm("a", log_odds, 1.0, 1.0, ""),), {}).probability < 1.0
