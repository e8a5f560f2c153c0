from collections import defaultdict
from datetime import date

import pytest

from plugins.baseline.question_facts import QuestionFacts
from plugins.baseline.question_templates import ConflictQuestion, add_text, parse_conflict, reveal_texts, template_name
from tests.plugins.baseline.published_rounds import FIRST_ROUND, PublishedRounds

DUE = date(2026, 1, 4)


@pytest.mark.parametrize(
    ("name", "rows", "rate"),
    [
        ("acled_10x", 851, 0.006),
        ("acled_inc", 749, 0.202),
        ("wiki_vaccine", 826, 0.0),
        ("wiki_elo", 300, 0.013),
        ("wiki_rank", 315, 0.778),
        ("wiki_swim", 193, 0.995),
        ("dbnomics", 1402, 0.576),
        ("fred", 1686, 0.503),
        ("yfinance", 1715, 0.552),
    ],
)
def test_subtypes_have_the_rows_and_rates_of_the_venue_document(
    rounds: PublishedRounds, name: str, rows: int, rate: float
) -> None:
    scored = [
        known.outcome
        for known in rounds.outcomes
        if known.event.facts.due >= FIRST_ROUND and template_name(known.event.facts) == name
    ]
    assert len(scored) == rows
    assert sum(scored) / len(scored) == pytest.approx(rate, abs=5e-4)


def test_every_development_question_has_a_template(rounds: PublishedRounds) -> None:
    counts: defaultdict[str, int] = defaultdict(int)
    for facts in rounds.development():
        counts[template_name(facts)] += 1
    assert counts["wikipedia"] == counts["acled"] == 0
    assert counts["acled_10x"] + counts["acled_inc"] == 14 * 50
    assert sum(count for name, count in counts.items() if name.startswith("wiki_")) == 14 * 50


def test_every_conflict_id_is_reproduced_from_country_event_and_template(rounds: PublishedRounds) -> None:
    asked = [facts for facts in rounds.questions if facts.source == "acled"]
    made = [found.key for facts in asked if (found := parse_conflict(facts))]
    assert len(asked) == 14 * 50 + 22
    assert made == [facts.key for facts in asked]


@pytest.mark.parametrize("template", ["acled_inc", "acled_10x"])
@pytest.mark.parametrize("event", ["fatalities", "Riots"])
def test_the_text_of_a_conflict_is_read_back(event: str, template: str) -> None:
    question = ConflictQuestion("Ivory Coast", event, template)
    facts = QuestionFacts(source="acled", key=question.key, due=DUE, text=question.text)
    assert parse_conflict(facts) == question
    assert template_name(facts) == template


def test_a_bare_id_gets_the_text_of_a_combination_that_others_named() -> None:
    named = [ConflictQuestion("Kenya", "Riots", "acled_inc"), ConflictQuestion("Peru", "Battles", "acled_10x")]
    texts = reveal_texts(
        [QuestionFacts(source="acled", key=question.key, due=DUE, text=question.text) for question in named]
    )
    hidden = ConflictQuestion("Peru", "Riots", "acled_inc")
    assert parse_conflict(add_text(QuestionFacts(source="acled", key=hidden.key, due=DUE), texts)) == hidden


def test_an_id_nobody_named_stays_bare() -> None:
    facts = QuestionFacts(source="acled", key="ab" * 32, due=DUE)
    assert add_text(facts, reveal_texts([facts])) == facts
    assert template_name(facts) == "acled"


def test_outcomes_of_the_older_rounds_are_mostly_recovered_from_later_texts(rounds: PublishedRounds) -> None:
    texts = reveal_texts(rounds.questions)
    older = [known.event.facts for known in rounds.outcomes if known.event.facts.due < FIRST_ROUND]
    bare = [facts for facts in older if facts.source == "acled" and not facts.text]
    lost = [facts for facts in bare if not add_text(facts, texts).text]
    # See docs/facts/forecastbench.md#dataset-questions: 3.8 % of the older rows, the 2024 set with its texts included.
    assert len(lost) / len([facts for facts in older if facts.source == "acled"]) == pytest.approx(0.038, abs=5e-4)
