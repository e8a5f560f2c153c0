"""Where a trial starts, and what is learned of base rates strictly from what was known."""

import gzip
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.core.beliefs import PriorSource, TrialPrior
from bot.core.errors import LeakError
from bot.core.learning import FittedParameters, TrainingExample
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, Resolution, VoidOutcome
from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.questions import Question
from bot.core.values import Json
from plugins.blf.base_rates import LEAST_OUTCOMES, BaseRateLearner, choose_starting_point, question_kind, trial_prior
from plugins.blf.settings import BlfSettings
from tests.plugins.blf.cases import CHOICE, CUTOFF, create_context, priced, question, steps_of, submit


def start(asked: Question, settings: BlfSettings | None = None, *, rates: Json = None) -> Any:
    fitted = (
        FittedParameters(forecaster="blf", before=CUTOFF, examples=1, payload={"rates": rates})
        if rates is not None
        else None
    )
    return choose_starting_point(asked, create_context(fitted=fitted), settings or BlfSettings())


def resolved(asked: Question, outcome: Any, *, days: int = -1) -> TrainingExample:
    at = CUTOFF + timedelta(days=days)
    return TrainingExample(
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
    assert question_kind(question(source=source, title=title)) == kind


def test_a_price_comes_before_a_base_rate_and_a_base_rate_before_even_odds() -> None:
    assert start(priced(0.8, source="fred")).prediction == BinaryPrediction(0.8)
    assert start(question(source="fred")).prediction == BinaryPrediction(0.422)
    assert start(question()).prediction == BinaryPrediction(0.5)
    assert start(question(CHOICE, source="fred")).prediction == ChoicePrediction(dict.fromkeys(CHOICE.options, 1 / 3))


def test_a_crowd_that_is_switched_off_is_not_replaced_by_a_base_rate() -> None:
    assert start(priced(0.8, source="fred"), BlfSettings(crowd=False)).prediction == BinaryPrediction(0.5)


def test_what_was_learned_comes_before_the_table_where_it_rests_on_enough() -> None:
    asked = question(source="fred")
    assert start(asked, rates={"fred": [LEAST_OUTCOMES, 0.3]}).prediction == BinaryPrediction(0.3)
    assert start(asked, rates={"fred": [LEAST_OUTCOMES - 1, 0.3]}).prediction == BinaryPrediction(0.422)
    assert start(asked, BlfSettings(prior_table=False), rates={"fred": [3, 0.3]}).prediction == BinaryPrediction(0.5)
    assert start(question(), rates={"harbour": [LEAST_OUTCOMES, 0.3]}).prediction == BinaryPrediction(0.3)


@pytest.mark.parametrize("row", [None, [], [50], ["50", 0.3], [50, "0.3"], [50, 7.0], {"mean": 0.3}])
def test_odd_parameters_are_left_aside(row: Json) -> None:
    assert start(question(source="fred"), rates={"fred": row}).prediction == BinaryPrediction(0.422)


def test_rates_are_the_mean_outcome_by_kind() -> None:
    fred, elo = question(source="fred"), question(source="wikipedia", title="an Elo rating")
    examples = [
        *[resolved(fred, BinaryOutcome(value)) for value in (1.0, 0.0, 0.0, 1.0, 0.5)],
        resolved(elo, BinaryOutcome(0.0)),
        resolved(fred, VoidOutcome("annulled")),
        resolved(question(CHOICE, source="fred"), ChoiceOutcome("red")),
        resolved(priced(0.8, source="fred"), BinaryOutcome(1.0)),
        resolved(question(source="acled", title=""), BinaryOutcome(1.0)),
    ]
    assert BaseRateLearner().fit(examples, before=CUTOFF) == {"rates": {"fred": [5, 0.5], "wikipedia/elo": [1, 0.0]}}


def test_an_outcome_that_was_not_known_before_is_a_leak() -> None:
    late = resolved(question(source="fred"), BinaryOutcome(1.0), days=0)
    with pytest.raises(LeakError):
        BaseRateLearner().fit([late], before=CUTOFF)


def test_every_templated_question_of_the_real_rounds_has_a_kind_and_the_kinds_differ_as_published(shared: Path) -> None:
    kinds: Counter[str | None] = Counter()
    for path in sorted((shared / "data/forecastbench/question_sets").glob("*.gz")):
        for row in json.loads(gzip.decompress(path.read_bytes()))["questions"]:
            if row["source"] in {"acled", "wikipedia"} and isinstance(row["id"], str):
                kinds[question_kind(question(source=row["source"], title=row["question"]))] += 1
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
        (priced(0.8, source="fred"), BlfSettings(), TrialPrior(PriorSource.CROWD, BinaryPrediction(0.8))),
        (question(source="fred"), BlfSettings(), TrialPrior(PriorSource.BASE_RATE, BinaryPrediction(0.422))),
        (question(), BlfSettings(), TrialPrior(PriorSource.EVEN, BinaryPrediction(0.5))),
        # Who does not show the crowd does not start from it.
        (priced(0.8), BlfSettings(crowd=False), TrialPrior(PriorSource.EVEN, BinaryPrediction(0.5))),
    ],
)
async def test_the_first_step_of_a_trial_says_what_it_started_from(
    asked: Question, settings: BlfSettings, prior: TrialPrior
) -> None:
    steps, _ = await steps_of(asked, create_context(submit(0.7)), settings.model_copy(update={"steps": 1}))
    assert [step.prior for step in steps] == [prior]


def test_only_yes_or_no_has_a_prior_to_be_drawn_to() -> None:
    assert trial_prior(start(question(CHOICE))) is None
