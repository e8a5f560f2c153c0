"""Recursive self-aggregation: candidates, merges in groups, the range they keep, and what comes of failures."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.beliefs import Step, belief_mismatch
from bot.core.errors import ServiceUnavailableError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import ModelCompletion, ModelDialect, Prompt
from bot.core.predictions import BinaryPrediction, ChoicePrediction, CurvePrediction, Prediction
from bot.testing.trial_context import ScriptedAnswer
from plugins.orchestra.aggregation import clamp_to_group
from plugins.orchestra.settings import OrchestraSettings
from tests.plugins.orchestra.cases import (
    CHOICE,
    CURVE,
    Line,
    as_json,
    believing,
    make,
    move,
    moves,
    probability,
    question,
    report,
    run,
    scripted_context,
    steps_of,
    store,
    submit,
    told,
)


def answered(value: Any, why: str = "base rate", *, field: str = "probability") -> ModelCompletion:
    return move("give_answer", {"reasoning": why, field: value})


def merged(value: Any, why: str = "all weighed", *, field: str = "probability", **more: str) -> ModelCompletion:
    return move("give_merged_answer", {"reasoning": why, field: value, **more})


def logit_mean(*values: float) -> float:
    return 1 / (1 + math.exp(-sum(math.log(value / (1 - value)) for value in values) / len(values)))


async def test_candidates_are_written_from_what_was_found_and_merged_until_one_is_left() -> None:
    at = scripted_context(
        make("ann"),
        run("ann"),
        store("tides are high"),
        submit(0.6, belief=believing(0.6, evidence_for=[{"text": "it sailed", "source": "ann"}])),
        others={
            "ann": [report("the ship left port")],
            "candidate": [answered(0.3), answered(0.5), answered(0.8)],
            "merger": [merged(0.5), merged(0.6), merged(0.55, "the best of both")],
        },
    )
    steps, error = await steps_of(question(), at, OrchestraSettings(candidates=4, merge_group=2))
    assert error is None
    assert [name for _, name in moves(steps)][5:] == ["candidate"] * 3 + ["aggregator"] * 3 + ["aggregate"]
    assert [step.final for step in steps][-8:] == [False] * 7 + [True]
    assert [probability(step) for step in steps[-8:]] == [0.6] * 7 + [0.55]
    assert steps[-1].belief.reason == "the best of both"
    # Those who answer anew see all that was found and not the orchestrator's number.
    for dossier in told(at, "candidate"):
        assert "the ship left port" in dossier
        assert "tides are high" in dossier
        assert "it sailed" in dossier
        assert "0.6" not in dossier
    assert ["Answer: 0.6" in asked for asked in told(at, "merger")] == [True, False, True]
    # The plain mean stands beside it.
    account = steps[-1].observation.text
    assert f"mean of their log-odds {logit_mean(0.6, 0.3, 0.5, 0.8):.3f}" in account
    assert "orchestrator 0.6; candidate 2 0.3; candidate 3 0.5; candidate 4 0.8" in account


async def test_candidates_differ_by_their_seed() -> None:
    at = scripted_context(submit(), others={"candidate": [answered(0.3), answered(0.3)], "merger": [merged(0.5)]})
    await steps_of(question(), at, OrchestraSettings(candidates=3, merge_group=8))
    assert len({asked.seed for asked in at.prompts}) == 4


@pytest.mark.parametrize(
    ("given_answer", "more", "kept"),
    [(0.9, {}, 0.6), (0.1, {}, 0.4), (0.45, {}, 0.45), (0.9, {"outside_reason": "both missed the storm"}, 0.9)],
)
async def test_a_merged_answer_keeps_to_the_range_unless_it_says_why_not(
    given_answer: float, more: dict[str, str], kept: float
) -> None:
    at = scripted_context(submit(0.6), others={"candidate": [answered(0.4)], "merger": [merged(given_answer, **more)]})
    steps, _ = await steps_of(question(), at, OrchestraSettings(candidates=2))
    assert probability(steps[-1]) == pytest.approx(kept)


@pytest.mark.parametrize("line", [ServiceUnavailableError("down"), ModelCompletion(text="hm")])
async def test_what_fails_is_left_out_or_replaced_by_the_plain_mean(line: Line) -> None:
    twice = [line] if isinstance(line, ServiceUnavailableError) else [line, line]
    at = scripted_context(submit(0.6), others={"candidate": [answered(0.2), *twice], "merger": twice})
    steps, error = await steps_of(question(), at, OrchestraSettings(candidates=3, concurrency=1))
    assert error is None
    assert probability(steps[-1]) == pytest.approx(logit_mean(0.6, 0.2))
    remarks = "\n".join(remark for step in steps for remark in step.remarks)
    assert "candidate 3 is left out" in remarks
    assert "merge 1.1 was not made" in remarks


async def test_where_every_candidate_fails_the_orchestrators_answer_stands() -> None:
    at = scripted_context(submit(0.6), others={"candidate": [ServiceUnavailableError("down")] * 2})
    steps, error = await steps_of(question(), at, OrchestraSettings(candidates=3))
    assert error is None
    assert probability(steps[-1]) == 0.6
    assert steps[-1].final


async def test_without_steps_for_them_no_candidates_are_written() -> None:
    for most, count in ((5, 4), (4, 1)):
        others = {"candidate": [answered(0.4)], "merger": [merged(0.5)]}
        at = scripted_context(submit(0.6), others=others, limits=TrialLimits(steps=most))
        steps, error = await steps_of(question(), at, OrchestraSettings(candidates=2))
        assert (len(steps), steps[-1].final, error) == (count, True, None)


async def test_a_resampled_population_is_made_anew_in_rounds_and_its_mean_is_the_answer() -> None:
    seen: list[str] = []

    def merger(prompt: Prompt) -> ScriptedAnswer:
        seen.append(prompt.messages[1].text.partition("# Answers so far")[2])
        return merged(round(0.3 + 0.05 * len(seen), 2), f"reason {len(seen)}")

    settings = OrchestraSettings(candidates=4, merge_group=3, resampling_rounds=2)
    others = {"candidate": [answered(0.3), answered(0.4), answered(0.5)], "merger": merger}
    for _ in range(2):
        seen.clear()
        at = scripted_context(submit(0.6), others={**others, "candidate": [*others["candidate"]]})  # type: ignore[misc]
        steps, error = await steps_of(question(), at, settings)
        assert error is None
        assert [name for _, name in moves(steps)] == ["submit", *["candidate"] * 3, *["aggregator"] * 8, "aggregate"]
        assert all(text.count("<untrusted-") == 3 for text in seen)
        # Of the first population no group is the whole one; in the second round its answers are merged, not the first.
        assert all("reason" in text for text in seen[4:])
        assert not any("base rate" in text for text in seen[4:])
        last = [probability_of(step) for step in steps if step.action.name == "aggregator"][4:]
        assert "by the mean of the population" in steps[-1].observation.text
        assert probability(steps[-1]) == pytest.approx(logit_mean(*last), abs=1e-6)
    assert OrchestraSettings(candidates=4, resampling_rounds=2).most_steps == 14 + 40 + 4 + 8


def probability_of(step: Step) -> float:
    return float(
        step.observation.text.partition("Answer: probability: ")[2] or step.observation.text.rpartition(": ")[2]
    )


async def test_the_final_answer_keeps_its_bounds() -> None:
    others = {"candidate": [answered(0.99)], "merger": [merged(0.99)]}
    steps, _ = await steps_of(question(), scripted_context(submit(0.9), others=others), OrchestraSettings(candidates=2))
    assert probability(steps[-1]) == 0.95


@pytest.mark.parametrize("dialect", [*ModelDialect])
@pytest.mark.parametrize(
    ("shape", "answer", "field"),
    [
        (CHOICE, {"red": 0.2, "green": 0.3, "blue": 0.5}, "probabilities"),
        (CURVE, {"p5": 10, "p10": 15, "p25": 25, "p50": 40, "p75": 55, "p90": 70, "p95": 80}, "quantiles"),
    ],
)
async def test_every_shape_is_merged_in_both_dialects(
    dialect: ModelDialect, shape: Any, answer: Any, field: str
) -> None:
    def said(completion: ModelCompletion) -> ModelCompletion:
        return as_json(completion) if dialect is ModelDialect.JSON else completion

    at = scripted_context(
        said(submit(answer, field_name=field)),
        others={"candidate": [said(answered(answer, field=field))], "merger": [said(merged(answer, field=field))]},
        dialect=dialect,
    )
    asked = question(shape)
    steps, error = await steps_of(asked, at, OrchestraSettings(candidates=2))
    assert error is None
    assert belief_mismatch(steps[-1].belief, asked) is None
    # What three agree upon stays what it is.
    assert steps[-1].belief.predictions == steps[0].belief.predictions


SHARES = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(
    lambda found: ChoicePrediction(
        {option: share / sum(found) for option, share in zip(CHOICE.options, found, strict=True)}
    )
)
CURVES = st.lists(st.floats(0, 1), min_size=len(CURVE.grid), max_size=len(CURVE.grid)).map(
    lambda found: CurvePrediction(tuple(sorted(found)))
)


@settings(max_examples=40)
@given(
    st.one_of(
        st.lists(st.floats(0, 1).map(BinaryPrediction), min_size=2, max_size=4),
        st.lists(SHARES, min_size=2, max_size=4),
        st.lists(CURVES, min_size=2, max_size=4),
    )
)
def test_what_is_kept_within_the_range_is_within_it_and_still_a_prediction(found: list[Prediction]) -> None:
    one, *group = found
    kept = clamp_to_group({"outcome": one}, [{"outcome": other} for other in group])["outcome"]
    if isinstance(kept, ChoicePrediction):
        # Brought to a sum of 1 again, so that an option may end a little beyond.
        assert math.isclose(sum(kept.probabilities.values()), 1.0)
    else:
        assert all(_inside(kept, group))
    if isinstance(kept, CurvePrediction):
        assert list(kept.cdf) == sorted(kept.cdf)
    if all(_inside(one, group)):
        assert _numbers(kept) == pytest.approx(_numbers(one))


def _inside(one: Prediction, group: list[Prediction]) -> list[bool]:
    numbers = _numbers(one)
    others = [_numbers(other) for other in group]
    return [
        min(each) - 1e-12 <= number <= max(each) + 1e-12
        for number, each in zip(numbers, zip(*others, strict=True), strict=True)
    ]


def _numbers(one: Prediction) -> list[float]:
    match one:
        case BinaryPrediction(probability=said):
            return [said]
        case ChoicePrediction(probabilities=shares):
            return list(shares.values())
        case CurvePrediction(cdf=points):
            return list(points)


def test_the_number_of_merges_is_that_of_a_tree() -> None:
    counted = {
        (n, g): OrchestraSettings(candidates=n, merge_group=g).merges for n, g in ((4, 2), (5, 2), (9, 3), (8, 8))
    }
    assert counted == {(4, 2): 3, (5, 2): 6, (9, 3): 4, (8, 8): 1}


async def test_no_more_calls_are_made_than_a_trial_says_it_takes() -> None:
    def anybody(prompt: Prompt) -> ScriptedAnswer:
        return merged(0.5) if "several answers" in prompt.messages[0].text else answered(0.4)

    settings_used = OrchestraSettings(candidates=5, merge_group=2, steps=2)
    at = scripted_context(submit(0.6), others={"candidate": anybody, "merger": anybody})
    steps, _ = await steps_of(question(), at, settings_used)
    assert len(steps) <= settings_used.most_steps
