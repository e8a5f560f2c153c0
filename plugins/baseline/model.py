"""The whole numerical forecaster: choose the form that fits a question, learn all forms, predict with one.

No input or output happens here, and nothing is learned from an outcome that was not known before the stated day.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from bot.api import LeakError
from plugins.baseline import acled, market, pooled, rates, seasonal, stocks, wiki
from plugins.baseline.facts import Event, Facts, Known
from plugins.baseline.form import Estimate, Form, estimate
from plugins.baseline.parameters import Parameters
from plugins.baseline.subtype import subtype, texts_by_key, with_text

_BY_SUBTYPE = {
    form.name: form
    for form in (
        acled.INCREASE,
        acled.TENFOLD,
        rates.FORM,
        seasonal.FORM,
        stocks.FORM,
        wiki.RANK,
        wiki.RATING,
        wiki.RECORD,
        wiki.VACCINE,
    )
}


def form_of(event: Event) -> Form:
    """Return the form for a question: its template's own, else the pooled rate of its source.

    A question without a target day is a market question and goes by its price. Source: ForecastBench document,
    section 9, test 8 (never 0.5 as a fallback).
    """
    facts = event.facts
    if event.target is None:
        return market.FORM if market.is_price(facts.value) else pooled.MARKET
    if facts.source == seasonal.FORM.name and seasonal.climate(facts) is None:
        return pooled.SERIES
    return _BY_SUBTYPE.get(subtype(facts), pooled.SERIES)


def fit(examples: Sequence[Known], *, before: date) -> Parameters:
    """Return parameters learned from outcomes known before a day.

    Conflict averages frozen while their source was blank are set aside, and outcomes without a text get the text that
    other examples reveal for their id. Raises LeakError for an example asked or resolved on that day or later.
    """
    _refuse_leaks(examples, before=before)
    groups: defaultdict[str, list[Known]] = defaultdict(list)
    forms = {form.name: form for form in (pooled.SERIES, pooled.MARKET)}
    for known in _prepared(examples):
        form = form_of(known.event)
        fallback = pooled.MARKET if known.event.target is None else pooled.SERIES
        forms[form.name] = form
        for name in {form.name, fallback.name}:
            groups[name].append(known)
    return Parameters(
        before=before,
        rows=Counter(known.event.facts.source for known in examples),
        coefficients={name: forms[name].fit(group) for name, group in sorted(groups.items())},
        blank=("acled",) if acled.is_blank_now([known.event.facts for known in examples]) else (),
    )


def predict(parameters: Parameters, event: Event) -> Estimate:
    """Return the probability that an event happens, with the reasons for it.

    Where a whole round is at hand, pass it through ``acled.without_outages`` first, so that a source that has just gone
    blank is not taken for peace; an outage that was there in the latest fitted round is known here too.
    """
    if event.facts.source in parameters.blank:
        event = replace(event, facts=acled.doubted(event.facts))
    form = form_of(event)
    return estimate(form.terms(event), parameters.coefficients.get(form.name, {}))


def _refuse_leaks(examples: Sequence[Known], *, before: date) -> None:
    for known in examples:
        facts = known.event.facts
        latest = max(known.resolved_on, facts.due)
        if latest >= before:
            message = (
                f"{facts.source} {facts.key} was asked or resolved on {latest}, "
                f"which a fit before {before} must not see"
            )
            raise LeakError(message)


def _prepared(examples: Sequence[Known]) -> list[Known]:
    # A question has an outcome for each of its targets, and the work on its text is done once.
    questions = dict.fromkeys(known.event.facts for known in examples)
    texts = texts_by_key(questions)
    without_outages = zip(questions, acled.without_outages(questions), strict=True)
    read = {asked: with_text(facts, texts) for asked, facts in without_outages}
    return [_about(known, read[known.event.facts]) for known in examples]


def _about(known: Known, facts: Facts) -> Known:
    return known if facts is known.event.facts else replace(known, event=replace(known.event, facts=facts))
