"""Armed-conflict counts: will the last 30 days hold more events than the 30-day average of the past year?

The comparison value at the freeze carries almost all information: a country without an event in a year stays below, and
a busy one is above its own average in about one window of three, because the counts are strongly skewed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import date

from bot.api import RegressionTerm
from plugins.baseline.model_form import ModelForm, ModelTerms, create_steady_form, question_block
from plugins.baseline.question_facts import QuestionFacts, ScoredEvent
from plugins.baseline.question_templates import parse_conflict, template_name

# The finest average above zero is one event in twelve windows; a tenth of that stands for "none in a year".
_LEAST_AVERAGE = 1.0 / 120.0
# In a sound round a quarter to two thirds of the averages are at the bottom, so ten out of ten are a blank source.
_FEWEST_TO_JUDGE = 10
# The prior spread of a coefficient that is known rather than learned.
_FIXED_SPREAD = 0.01


def exceedance_probability(average: float) -> float:
    """Return P(N > average) for a geometric count N whose mean is the 30-day average.

    N >= n has the probability (a / (1 + a)) ** n: 0.08 for one event a year, 0.33 for one in two windows, and 1/e for
    large averages. Raises ValueError for a negative average. Source: geometric distribution, that is a Poisson count
    whose rate is exponentially distributed.
    """
    if average < 0.0:
        message = f"an average count of {average} is negative"
        raise ValueError(message)
    least = max(average, _LEAST_AVERAGE)
    # Averages are twelfths written as decimals; the margin keeps a whole number whole.
    fewest = math.floor(least + 1e-9) + 1
    return float((least / (1.0 + least)) ** fewest)


def find_blank_rounds(questions: Iterable[QuestionFacts]) -> frozenset[date]:
    """Return the due dates of the rounds in which no conflict question has more than the lowest value.

    In such a round the source was blank when the values were frozen, so its zeros mean "unknown"; five of the fourteen
    rounds from 2025-10-26 on are like that. Only the questions of a round together can show it.
    """
    rounds: defaultdict[date, dict[str, QuestionFacts]] = defaultdict(dict)
    for facts in questions:
        if facts.source == "acled" and facts.value is not None:
            rounds[facts.due][facts.key] = facts
    return frozenset(due for due, asked in rounds.items() if _is_blank(asked.values()))


def is_blank_now(questions: Collection[QuestionFacts]) -> bool:
    """Return whether the latest round with conflict values was blank: outages outlast the two weeks between rounds."""
    latest = max(
        (facts.due for facts in questions if facts.source == "acled" and facts.value is not None), default=None
    )
    return latest is not None and latest in find_blank_rounds(questions)


def remove_blank_values(questions: Collection[QuestionFacts]) -> tuple[QuestionFacts, ...]:
    """Return the questions in order, those of blank rounds without their value."""
    blank = find_blank_rounds(questions)
    return tuple(remove_doubtful_value(facts) if facts.due in blank else facts for facts in questions)


def remove_doubtful_value(facts: QuestionFacts) -> QuestionFacts:
    """Return a conflict question without its value where that is the lowest, and any other question unchanged."""
    return replace(facts, value=None) if facts.source == "acled" and _is_lowest(facts) else facts


def _is_blank(asked: Collection[QuestionFacts]) -> bool:
    return len(asked) >= _FEWEST_TO_JUDGE and all(_is_lowest(facts) for facts in asked)


def _is_lowest(facts: QuestionFacts) -> bool:
    # The ten-times template publishes one plus the average.
    lowest = 1.0 if template_name(facts) == "acled_10x" else 0.0
    return facts.value is not None and facts.value <= lowest


def _increase_terms(event: ScoredEvent) -> ModelTerms:
    facts = event.facts
    asked = parse_conflict(facts)
    kind = asked.event if asked else "unknown"
    if facts.value is None or facts.value < 0.0:
        country = asked.country if asked else "unknown"
        return (
            RegressionTerm("blank", 1.0, -1.3, 1.0, "share of above-average windows where the average is not known"),
            RegressionTerm(f"blank event {kind}", 1.0, 0.0, 0.5, f"how often {kind} exceed their average"),
            RegressionTerm(f"blank country {country}", 1.0, 0.0, 1.0, f"earlier outcomes in {country}"),
        )
    chance = exceedance_probability(facts.value)
    why = f"a skewed count with a 30-day average of {facts.value:g} exceeds it with probability {chance:.3f}"
    return (
        RegressionTerm("level", math.log(chance / (1.0 - chance)), 1.0, _FIXED_SPREAD, why),
        RegressionTerm("all levels", 1.0, 0.0, 0.5, "outcomes of all conflict questions with a known average"),
        RegressionTerm(f"event {kind}", 1.0, 0.0, 0.5, f"how often {kind} exceed their average's suggestion"),
    )


INCREASE_FORM = ModelForm(name="acled_inc", terms=_increase_terms, block=question_block)
TENFOLD_FORM = create_steady_form("acled_10x", log_odds=-5.5, why="more than ten times the average hardly ever happens")
