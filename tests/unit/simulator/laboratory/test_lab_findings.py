"""What answers amount to: lines, recoveries and the report, from answers whose worth is known beforehand."""

import io
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bot.cli.lab import print_lab_report, write_and_print_report
from bot.core.errors import ConfigError
from bot.simulator.laboratory.answers import CalibratedAnswers, ForecasterAnswers, LeakCounts
from bot.simulator.laboratory.calibration import bootstrap_interval, calibration_slope
from bot.simulator.laboratory.experiment import (
    ExperimentFindings,
    ExperimentPlan,
    gather_ablations,
    gather_comparison,
    make_report,
    without_times,
    write_report,
)
from bot.simulator.laboratory.forecaster_comparison import chosen_forecasters, comparison_variants, forecaster_plugins
from bot.simulator.laboratory.forecaster_variants import (
    BOLD_ONE_STEP,
    OVERCONFIDENCE_FACTOR,
    PARTS,
    PLAIN_ONE_STEP,
    ablation_variants,
    chosen_parts,
)
from bot.simulator.laboratory.planted_effects import EffectRecovery, check_leaks, check_overconfidence
from bot.simulator.laboratory.questions import LaboratoryQuestion, create_world, select_questions
from tests.unit.simulator.laboratory.fixed_answers import fixed_answers

MANY = 120
ALL = {"reference", "1 trial", "3 trials", "mean", "median", "shrink", "gated calibration", "baseline", "clairvoyant"}


@cache
def cases_of(seed: int, size: int) -> Sequence[LaboratoryQuestion]:
    """Return so many cases; their world takes up to a second to make, which collecting the tests must not cost."""
    return select_questions(create_world(seed, size), size)


def some_cases() -> Sequence[LaboratoryQuestion]:
    return cases_of(1, 40)


def more_cases() -> Sequence[LaboratoryQuestion]:
    return cases_of(1, MANY)


def many_cases() -> Sequence[LaboratoryQuestion]:
    return cases_of(2, 400)


def true_chances() -> list[float]:
    return [case.true_probability for case in some_cases()]


def bolder(probability: float, factor: float) -> float:
    odds: float = (probability / (1.0 - probability)) ** factor
    return odds / (1.0 + odds)


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(1))


def leaking(*, let_in: int, caught: int) -> LeakCounts:
    return LeakCounts(found_by_search=20, let_in=let_in, caught=caught, fakes=1, false_alarms=2)


def found(*, caught: int = 20, guarded: int = 0) -> dict[str, ForecasterAnswers]:
    """Return answers of everything: the guarded one knows the truth, and leaks make it better than that."""
    informed = [0.5 * chance + 0.5 * case.outcome for chance, case in zip(true_chances(), some_cases(), strict=True)]
    knowing = [0.95 if case.outcome else 0.05 for case in some_cases()]
    # Off the ends, where nothing is clipped.
    straight = [0.5 + 0.8 * (case.true_probability - 0.5) for case in more_cases()]
    bold = [bolder(chance, OVERCONFIDENCE_FACTOR) for chance in straight]
    corrected = CalibratedAnswers(answers=true_chances(), adopted=())
    better = [0.8 * case.true_probability + 0.2 * case.outcome for case in more_cases()]
    moved = CalibratedAnswers(answers=better, adopted=range(MANY))
    all_of_them = [
        fixed_answers(
            "reference", true_chances(), trials=5, leaks=leaking(let_in=guarded, caught=0), corrected=corrected
        ),
        fixed_answers("no belief state", [0.5] * len(some_cases())),
        fixed_answers("judge lets all pass", informed, leaks=leaking(let_in=20, caught=caught)),
        fixed_answers("clairvoyant", knowing),
        fixed_answers("baseline", [case.crowd for case in some_cases()], silent=2),
        fixed_answers(PLAIN_ONE_STEP.name, straight, corrected=CalibratedAnswers(answers=straight, adopted=())),
        fixed_answers(BOLD_ONE_STEP.name, bold, corrected=moved),
    ]
    return {one.name: one for one in all_of_them}


@cache
def findings() -> tuple[ExperimentPlan, ExperimentFindings]:
    plan = ExperimentPlan(seed=1, questions=40, folder=Path(), parts=chosen_parts([]), many=MANY, resamples=20)
    return plan, gather_ablations(plan, found())


def test_every_part_has_its_lines_and_each_is_held_against_its_like() -> None:
    rows = {row.name: row for row in findings()[1].rows}
    assert set(rows) >= ALL
    assert rows["reference"].reference is None
    assert (rows["3 trials"].reference, rows["no belief state"].reference) == ("reference", "1 trial")
    assert rows["true chance"].distance_to_truth == 0.0
    assert "2 questions" in rows["baseline"].note


def test_what_was_planted_is_recovered_where_it_can_be() -> None:
    recoveries = {one.name: one for one in findings()[1].recoveries}
    assert {name: one.recovered for name, one in recoveries.items()} == dict.fromkeys(
        ("overconfidence", "leaks inflate", "audit finds leaks", "guards hold"), True
    )
    figures = recoveries["overconfidence"].figures
    assert 0.0 < figures["slope_low"] < figures["slope"] < figures["slope_high"] < 1.0 < figures["plain_slope"]


def test_a_blind_audit_and_open_guards_are_told_as_such() -> None:
    rows = {row.name: row for row in findings()[1].rows}
    recoveries = {one.name: one for one in check_leaks(found(caught=10, guarded=8), rows)}
    assert not recoveries["audit finds leaks"].recovered
    assert not recoveries["guards hold"].recovered
    reported = recoveries["audit finds leaks"].found
    assert reported == (
        "the audit of leaks found 10 of them; besides, 1 texts that only pretend to tell an outcome, and 2 others"
    )


def judged(outcomes: Sequence[bool]) -> EffectRecovery:
    """Return what is found of bold answers where these are the outcomes, and a gate that gains whatever they are."""
    bold = [bolder(case.true_probability, OVERCONFIDENCE_FACTOR) for case in many_cases()]
    cases = [replace(case, outcome=outcome) for case, outcome in zip(many_cases(), outcomes, strict=True)]
    moved = [0.8 * one + 0.2 * case.outcome for one, case in zip(bold, cases, strict=True)]
    gate = CalibratedAnswers(answers=moved, adopted=range(len(cases)))
    plain = fixed_answers("plain", [case.true_probability for case in many_cases()])
    return check_overconfidence(plain, fixed_answers("bold", bold, corrected=gate), cases, rng(), resamples=40)


def test_only_outcomes_say_whether_a_bold_mind_is_too_sure() -> None:
    bold = [bolder(case.true_probability, OVERCONFIDENCE_FACTOR) for case in many_cases()]
    drawn = rng().random(len(many_cases()))
    true, inverted, sure, coins = (
        judged([case.outcome for case in many_cases()]),
        judged([not case.outcome for case in many_cases()]),
        judged((drawn < bold).tolist()),
        judged((drawn < 0.5).tolist()),
    )
    assert [one.recovered for one in (true, inverted, sure, coins)] == [True, False, False, False]
    assert true.figures["slope"] == pytest.approx(1.0 / OVERCONFIDENCE_FACTOR, abs=0.15)
    assert inverted.figures["slope_high"] < 0.0
    assert sure.figures["slope_low"] < 1.0 < sure.figures["slope_high"]
    assert coins.figures["slope_low"] < 0.0 < coins.figures["slope_high"]


def test_a_gate_that_moves_nothing_recovers_nothing() -> None:
    straight = [case.true_probability for case in more_cases()]
    bold = fixed_answers("bold", [bolder(chance, OVERCONFIDENCE_FACTOR) for chance in straight], corrected=None)
    reported = check_overconfidence(fixed_answers("plain", straight), bold, more_cases(), rng(), resamples=10)
    assert not reported.recovered
    assert "moved nothing" in reported.found


def test_the_slope_of_a_mind_is_one_over_its_factor() -> None:
    stream = rng()
    chances = stream.uniform(0.05, 0.95, 4000)
    outcomes = (stream.random(4000) < chances).astype(float).tolist()
    slope = calibration_slope([bolder(chance, 2.0) for chance in chances.tolist()], chances.tolist())
    assert slope == pytest.approx(0.5, abs=1e-3)
    # Those who say what is true need no correction, but for the luck of 4000 draws.
    assert calibration_slope(chances.tolist(), outcomes) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("together", [1, 4])
def test_the_interval_of_a_mean_is_as_wide_as_theory_says_of_so_many_clusters(together: int) -> None:
    clusters = np.repeat(np.arange(400), together)
    values = rng().standard_normal(400)[clusters].tolist()
    mean = bootstrap_interval(
        lambda places: math.fsum(values[p] for p in places) / len(places), clusters, rng(), resamples=1000
    )
    assert mean.estimate == pytest.approx(math.fsum(values) / len(values))
    assert mean.high - mean.low == pytest.approx(2 * 1.96 / 20.0, rel=0.2)


def test_the_report_is_json_and_only_times_differ_between_machines(tmp_path: Path) -> None:
    plan, all_found = findings()
    slow, fast = (make_report(plan, all_found, seconds=seconds) for seconds in (100.0, 10.0))
    write_report(slow, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == json.loads(json.dumps(slow))
    assert slow != fast
    assert without_times(slow) == without_times(fast)
    assert slow["simulation"] is True


def test_a_person_reads_every_row_and_every_verdict() -> None:
    plan, all_found = findings()
    console = Console(width=200, record=True, file=io.StringIO())
    print_lab_report(console, make_report(plan, all_found, seconds=1.0))
    text = console.export_text()
    assert all(row.name in text for row in all_found.rows)
    assert text.count("recovered: ") == 4
    assert "Simulation" in text


def test_a_report_goes_to_a_file_to_a_person_or_to_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, all_found = findings()
    report = make_report(plan, all_found, seconds=1.0)
    write_and_print_report(report, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == json.loads(json.dumps(report))
    assert "Simulation" in capsys.readouterr().out
    write_and_print_report(report, Path("-"))
    assert json.loads(capsys.readouterr().out)["questions"] == 40


def test_what_was_not_asked_for_has_no_line() -> None:
    plan = ExperimentPlan(seed=1, questions=40, folder=Path(), parts=["gate"], many=MANY)
    rows = {row.name for row in gather_ablations(plan, {"reference": found()["reference"]}).rows}
    assert {"reference", "1 trial", "gated calibration"} < rows
    assert rows.isdisjoint({"3 trials", "median", "clairvoyant"})


def test_what_went_wrong_most_often_is_told_of_a_forecaster(tmp_path: Path) -> None:
    plan = ExperimentPlan(seed=1, questions=40, folder=tmp_path, forecasters=("blf", "solo"))
    solo = replace(fixed_answers("solo", true_chances()), failures={"ServiceUnavailableError: nobody": 3, "odd": 1})
    rows = {
        row.name: row
        for row in gather_comparison(plan, {"blf": fixed_answers("blf", true_chances(), trials=3), "solo": solo}).rows
    }
    assert "4 trials did not finish, most often (3): ServiceUnavailableError: nobody" in rows["solo"].note


def test_forecasters_are_compared_with_one_answer_of_the_reference(tmp_path: Path) -> None:
    plan = ExperimentPlan(seed=1, questions=40, folder=tmp_path, forecasters=("blf", "court", "team"))
    answers = [
        fixed_answers("blf", true_chances(), trials=3),
        fixed_answers("court", [0.5] * 40, trials=3),
        fixed_answers("court, median of votes", [0.5] * 40),
        fixed_answers("team of 3", [0.4] * 40, silent=1),
    ]
    rows = {row.name: row for row in gather_comparison(plan, {one.name: one for one in answers}).rows}
    assert next(iter(rows)) == "blf, 1 trial"
    assert {"blf, 3 trials", "court, 1 rollout", "court, 3 rollouts", "all of them, equal weights"} <= set(rows)
    assert (rows["court, 3 rollouts"].reference, rows["court, median of votes"].reference) == (
        "blf, 1 trial",
        "court, 1 rollout",
    )
    assert "1 questions" in rows["team of 3"].note
    few = gather_comparison(plan, {one.name: one for one in answers[:2]})
    assert "all of them, equal weights" not in {row.name for row in few.rows}
    report = make_report(plan, gather_comparison(plan, {one.name: one for one in answers}), seconds=1.0)
    assert report["forecasters"] == ["blf", "court", "team"]


def test_a_misspelt_part_or_forecaster_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match=r"no part believe .*; there are belief, trials"):
        chosen_parts(["believe"])
    with pytest.raises(ConfigError, match=r"setup for jury; known: baseline, blf"):
        chosen_forecasters(["jury"])


def test_only_what_is_asked_for_is_run() -> None:
    assert [setup.name for setup in ablation_variants(["belief"])] == ["reference", "no belief state"]
    assert next(ablation_variants(["belief"])).trials == 1
    assert next(ablation_variants(["trials"])).trials == 5
    assert {setup.name for part in PARTS.values() for setup in part} < {
        setup.name for setup in ablation_variants([*PARTS])
    }
    assert chosen_forecasters(["court"]) == ["blf", "court"]
    assert forecaster_plugins(["blf", "court"]) == ("blf", "society")
    assert [setup.forecaster for setup in comparison_variants(["blf", "solo"])] == ["blf", "solo"]
