"""The whole numerical forecaster: choose the form that fits a question, learn all forms, predict with one.

It does no input or output, and never learns from an outcome that was not known before the given day.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from bot.api import LeakError
from plugins.baseline import conflict_form, economic_form, simple_forms, temperature_form
from plugins.baseline.model_form import ModelForm, ProbabilityEstimate, estimate_probability
from plugins.baseline.parameters import BaselineParameters
from plugins.baseline.question_facts import KnownOutcome, QuestionFacts, ScoredEvent
from plugins.baseline.question_templates import add_text, reveal_texts, template_name

_FORMS_BY_TEMPLATE = {
    form.name: form
    for form in (
        conflict_form.INCREASE_FORM,
        conflict_form.TENFOLD_FORM,
        economic_form.ECONOMIC_FORM,
        temperature_form.TEMPERATURE_FORM,
        simple_forms.SHARE_PRICE_FORM,
        simple_forms.CHESS_RANK_FORM,
        simple_forms.CHESS_RATING_FORM,
        simple_forms.SWIMMING_RECORD_FORM,
        simple_forms.VACCINE_FORM,
    )
}


def select_form(event: ScoredEvent) -> ModelForm:
    """Return the form for a question: its template's own, else the pooled rate of its source.

    A question without a target day is a market question and uses its price. Source:
    docs/facts/forecastbench.md#forecast-set (never 0.5 as a fallback).
    """
    facts = event.facts
    if event.target is None:
        return simple_forms.MARKET_PRICE_FORM if simple_forms.is_price(facts.value) else simple_forms.POOLED_MARKET_FORM
    if facts.source == temperature_form.TEMPERATURE_FORM.name and temperature_form.climate_name(facts) is None:
        return simple_forms.POOLED_SERIES_FORM
    return _FORMS_BY_TEMPLATE.get(template_name(facts), simple_forms.POOLED_SERIES_FORM)


def fit_parameters(examples: Sequence[KnownOutcome], *, before: date) -> BaselineParameters:
    """Return parameters learned from outcomes known before a day.

    Conflict averages frozen while their source was blank are ignored, and outcomes without a text get the text that
    other examples reveal for their id. Raises LeakError for an example asked or resolved on that day or later.
    """
    _refuse_leaks(examples, before=before)
    groups: defaultdict[str, list[KnownOutcome]] = defaultdict(list)
    forms = {form.name: form for form in (simple_forms.POOLED_SERIES_FORM, simple_forms.POOLED_MARKET_FORM)}
    for known in _prepare_examples(examples):
        form = select_form(known.event)
        fallback = simple_forms.POOLED_MARKET_FORM if known.event.target is None else simple_forms.POOLED_SERIES_FORM
        forms[form.name] = form
        for name in {form.name, fallback.name}:
            groups[name].append(known)
    return BaselineParameters(
        before=before,
        rows=Counter(known.event.facts.source for known in examples),
        coefficients={name: forms[name].fit(group) for name, group in sorted(groups.items())},
        evidence={name: len(group) for name, group in sorted(groups.items())},
        blank=("acled",) if conflict_form.is_blank_now([known.event.facts for known in examples]) else (),
    )


def predict_event(parameters: BaselineParameters, event: ScoredEvent) -> ProbabilityEstimate:
    """Return the probability that an event happens, with the reasons for it.

    Where a whole round is available, pass it through ``conflict_form.remove_blank_values`` first, so that a source that
    has just gone blank is not taken for peace; an outage in the latest fitted round is known here too.
    """
    if event.facts.source in parameters.blank:
        event = replace(event, facts=conflict_form.remove_doubtful_value(event.facts))
    form = select_form(event)
    return estimate_probability(form.terms(event), parameters.coefficients.get(form.name, {}))


def _refuse_leaks(examples: Sequence[KnownOutcome], *, before: date) -> None:
    for known in examples:
        facts = known.event.facts
        latest = max(known.resolved_on, facts.due)
        if latest >= before:
            message = (
                f"{facts.source} {facts.key} was asked or resolved on {latest}, "
                f"which a fit before {before} must not see"
            )
            raise LeakError(message)


def _prepare_examples(examples: Sequence[KnownOutcome]) -> list[KnownOutcome]:
    # A question has an outcome for each of its targets; its text is processed once.
    questions = dict.fromkeys(known.event.facts for known in examples)
    texts = reveal_texts(questions)
    without_outages = zip(questions, conflict_form.remove_blank_values(questions), strict=True)
    read = {asked: add_text(facts, texts) for asked, facts in without_outages}
    return [_replace_facts(known, read[known.event.facts]) for known in examples]


def _replace_facts(known: KnownOutcome, facts: QuestionFacts) -> KnownOutcome:
    return known if facts is known.event.facts else replace(known, event=replace(known.event, facts=facts))
