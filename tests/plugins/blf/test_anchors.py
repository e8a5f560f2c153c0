"""Where a trial starts, and what is learned of base rates strictly from what was known."""

import gzip
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.domain.belief import PriorSource, TrialPrior
from bot.domain.learning import Fitted
from bot.domain.prediction import Binary, Choice
from bot.domain.question import Question
from bot.domain.resolution import Chosen, Example, Happened, Resolution, Void
from bot.domain.step import Json
from bot.errors import LeakError
from plugins.blf.anchors import ENOUGH, anchor_of, kind_of, prior_of
from plugins.blf.learning import RateLearner
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import CHOICE, CUTOFF, desk, priced, question, steps_of, submit


def start(asked: Question, settings: BlfSettings | None = None, *, rates: Json = None) -> Any:
    fitted = (
        Fitted(forecaster="blf", before=CUTOFF, examples=1, payload={"rates": rates}) if rates is not None else None
    )
    return anchor_of(asked, desk(fitted=fitted), settings or BlfSettings())


def resolved(asked: Question, outcome: Any, *, days: int = -1) -> Example:
    at = CUTOFF + timedelta(days=days)
    return Example(
        question=asked,
        resolution=Resolution(ref=asked.ref, target=asked.targets[0].key, outcome=outcome, resolved_at=at),
    )


@pytest.mark.parametrize(
    ("source", "title", "kind"),
    [
        ("acled", "Will there be more than ten times as many 'Riots' in Chad for the 30 days before", "acled/tenfold"),
        ("acled", "Will there be more 'Riots' in Chad for the 30 days before", "acled/increase"),
        ("acled", "", None),
        ("wikipedia", "Will a vaccine have been developed", "wikipedia/vaccine"),
        ("wikipedia", "According to Wikipedia, will X have an Elo rating", "wikipedia/elo"),
        ("wikipedia", "According to Wikipedia, will X have a FIDE ranking", "wikipedia/rank"),
        ("wikipedia", "will X still hold the world record", "wikipedia/swimming"),
        ("wikipedia", "Anything else", None),
        ("fred", "", "fred"),
        ("", "A question of a venue", "harbour"),
    ],
)
def test_the_kind_of_a_question_is_read_from_its_source_and_text(source: str, title: str, kind: str | None) -> None:
    assert kind_of(question(source=source, title=title)) == kind


def test_a_price_comes_before_a_base_rate_and_a_base_rate_before_even_odds() -> None:
    assert start(priced(0.8, source="fred")).prediction == Binary(0.8)
    assert start(question(source="fred")).prediction == Binary(0.422)
    assert start(question()).prediction == Binary(0.5)
    assert start(question(CHOICE, source="fred")).prediction == Choice(dict.fromkeys(CHOICE.options, 1 / 3))


def test_a_crowd_that_is_switched_off_is_not_replaced_by_a_base_rate() -> None:
    assert start(priced(0.8, source="fred"), BlfSettings(crowd=False)).prediction == Binary(0.5)


def test_what_was_learned_comes_before_the_table_where_it_rests_on_enough() -> None:
    asked = question(source="fred")
    assert start(asked, rates={"fred": [ENOUGH, 0.3]}).prediction == Binary(0.3)
    assert start(asked, rates={"fred": [ENOUGH - 1, 0.3]}).prediction == Binary(0.422)
    assert start(asked, BlfSettings(prior_table=False), rates={"fred": [3, 0.3]}).prediction == Binary(0.5)
    assert start(question(), rates={"harbour": [ENOUGH, 0.3]}).prediction == Binary(0.3)


@pytest.mark.parametrize("row", [None, [], [50], ["50", 0.3], [50, "0.3"], [50, 7.0], {"mean": 0.3}])
def test_odd_parameters_are_left_aside(row: Json) -> None:
    assert start(question(source="fred"), rates={"fred": row}).prediction == Binary(0.422)


def test_rates_are_the_mean_outcome_by_kind() -> None:
    fred, elo = question(source="fred"), question(source="wikipedia", title="an Elo rating")
    examples = [
        *[resolved(fred, Happened(value)) for value in (1.0, 0.0, 0.0, 1.0, 0.5)],
        resolved(elo, Happened(0.0)),
        resolved(fred, Void("annulled")),
        resolved(question(CHOICE, source="fred"), Chosen("red")),
        resolved(priced(0.8, source="fred"), Happened(1.0)),
        resolved(question(source="acled", title=""), Happened(1.0)),
    ]
    assert RateLearner().fit(examples, before=CUTOFF) == {"rates": {"fred": [5, 0.5], "wikipedia/elo": [1, 0.0]}}


def test_an_outcome_that_was_not_known_before_is_a_leak() -> None:
    late = resolved(question(source="fred"), Happened(1.0), days=0)
    with pytest.raises(LeakError):
        RateLearner().fit([late], before=CUTOFF)


def test_every_templated_question_of_the_real_rounds_has_a_kind_and_the_kinds_differ_as_published(shared: Path) -> None:
    kinds: Counter[str | None] = Counter()
    for path in sorted((shared / "data/forecastbench/question_sets").glob("*.gz")):
        for row in json.loads(gzip.decompress(path.read_bytes()))["questions"]:
            if row["source"] in {"acled", "wikipedia"} and isinstance(row["id"], str):
                kinds[kind_of(question(source=row["source"], title=row["question"]))] += 1
    assert set(kinds) == {
        "acled/tenfold",
        "acled/increase",
        "wikipedia/vaccine",
        "wikipedia/elo",
        "wikipedia/rank",
        "wikipedia/swimming",
    }


@pytest.mark.parametrize(
    ("asked", "settings", "prior"),
    [
        (priced(0.8, source="fred"), BlfSettings(), TrialPrior(PriorSource.CROWD, Binary(0.8))),
        (question(source="fred"), BlfSettings(), TrialPrior(PriorSource.BASE_RATE, Binary(0.422))),
        (question(), BlfSettings(), TrialPrior(PriorSource.EVEN, Binary(0.5))),
        # Who does not show the crowd does not start from it.
        (priced(0.8), BlfSettings(crowd=False), TrialPrior(PriorSource.EVEN, Binary(0.5))),
    ],
)
async def test_the_first_step_of_a_trial_says_what_it_started_from(
    asked: Question, settings: BlfSettings, prior: TrialPrior
) -> None:
    steps, _ = await steps_of(asked, desk(submit(0.7)), settings.model_copy(update={"steps": 1}))
    assert [step.prior for step in steps] == [prior]


def test_only_yes_or_no_has_a_prior_to_be_drawn_to() -> None:
    assert prior_of(start(question(CHOICE))) is None
