"""Questions that are followed day by day: what is asked when, which forecast stands for which day, and what it cost."""

import pickle
from itertools import groupby
from pathlib import Path

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.errors import ConfigError
from bot.core.forecasts import Trial, TrialEnd
from bot.simulator.laboratory.experiment import ExperimentPlan, run_staleness
from bot.simulator.laboratory.forecaster_variants import ForecasterVariant
from bot.simulator.laboratory.questions import LaboratoryQuestion, create_world, follow_questions, select_questions
from bot.simulator.laboratory.runs import StalenessJob, run_staleness_job
from bot.simulator.laboratory.staleness import FollowedForecasts, kept_forecasts, staleness_lines, staleness_variants
from bot.simulator.world.questions import outcome_day

SEED = 4
WORLD = create_world(SEED, 12)
CASES = follow_questions(WORLD, 12, 6)


def key_of(case: LaboratoryQuestion) -> str:
    return case.simulated_question.key


def by_question() -> dict[str, list[LaboratoryQuestion]]:
    return {key: [*cases] for key, cases in groupby(sorted(CASES, key=key_of), key=key_of)}


def test_each_question_is_asked_once_a_day_from_its_first_day_on_while_its_outcome_is_unknown() -> None:
    firsts = {key_of(case): case for case in select_questions(WORLD, 12)}
    assert set(by_question()) == set(firsts)
    assert [case.day for case in CASES] == sorted(case.day for case in CASES)
    for key, cases in by_question().items():
        assert [case.day for case in cases] == pytest.approx([firsts[key].day + later for later in range(len(cases))])
        assert 1 <= len(cases) <= 6
        for case in cases:
            assert case.day < min(case.simulated_question.closes, outcome_day(case.simulated_question))
            assert case.question.as_of is None
    assert any(len(cases) == 6 for cases in by_question().values())
    assert len({case.true_probability for case in max(by_question().values(), key=len)}) > 1


@pytest.mark.parametrize(("days", "offsets"), [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 0, 2, 2, 4, 4]), (7, [0] * 6)])
def test_a_forecast_stands_for_the_days_until_it_is_renewed(days: int, offsets: list[int]) -> None:
    sources = kept_forecasts(CASES, days)
    for cases in by_question().values():
        found = [round(CASES[sources[CASES.index(case)]].day - cases[0].day) for case in cases]
        assert found == offsets[: len(cases)]
        assert all(key_of(CASES[sources[CASES.index(case)]]) == key_of(case) for case in cases)


def test_an_answer_that_is_used_again_is_paid_for_once_and_a_failure_counts_as_even_odds() -> None:
    usage = ModelUsage(calls=3, tokens_in=1000, tokens_out=100)
    trial = Trial(number=1, end=TrialEnd.FINISHED, steps=2, usage=usage, belief=None)
    answers = [None, *(0.01 * place for place in range(1, len(CASES)))]
    daily = FollowedForecasts(name="solo, every day", answers=answers, trials=[[trial]] * len(CASES), seconds=10.0)
    variant = ForecasterVariant(name="solo, every day", forecaster="solo")
    every_day, second, *_, week = staleness_lines([daily], [variant], CASES)
    assert [every_day.name, second.name, week.name] == ["solo, every day", "solo, every 2 days", "solo, every 7 days"]
    assert (every_day.answers[0], every_day.answers[1:], every_day.reference) == (0.5, answers[1:], None)
    assert every_day.note == f"1 of {len(CASES)} forecasts failed and count as even odds"
    assert every_day.use is not None
    assert every_day.use.calls == 3 * len(CASES)
    assert every_day.use.seconds == pytest.approx(10.0)
    sources = kept_forecasts(CASES, 7)
    assert week.answers == [0.5 if answers[place] is None else answers[place] for place in sources]
    assert week.reference == "solo, every day"
    assert week.use is not None
    assert (week.use.calls, week.use.steps) == (3 * len(by_question()), 2 * len(by_question()))


def test_what_is_followed_is_checked_before_anything_runs() -> None:
    assert [one.name for one in staleness_variants(["blf", "solo"], hides_crowd=True)][:2] == [
        "blf, every day", "solo, every day"
    ]  # fmt: skip
    assert all(one.hides_crowd for one in staleness_variants(["solo"], hides_crowd=True))
    with pytest.raises(ConfigError, match="no forecast of blend can be followed; known: baseline, blf"):
        staleness_variants(["blend"])


def test_solo_finds_its_own_forecasts_and_repeats_them_as_its_settings_say(tmp_path: Path) -> None:
    variants = {one.name: one for one in staleness_variants(["solo"])}
    jobs = [
        StalenessJob(seed=SEED, count=1, setup=variants[name], folder=tmp_path, plugins=("solo",), days=4)
        for name in ("solo, every day", "solo, repeats for 3 days whatever the price")
    ]
    daily, kept = map(run_staleness_job, jobs)
    assert [sum(trial.usage.calls for trial in trials) > 0 for trials in daily.trials] == [True] * 4
    # On days 2 and 3 a repetition is one step without a call; on day 4 it is time for another forecast.
    assert [sum(trial.usage.calls for trial in trials) > 0 for trials in kept.trials] == [True, False, False, True]
    assert [sum(trial.steps for trial in trials) for trials in kept.trials][1:3] == [1, 1]
    # Each job has a process of its own, which sends its result back.
    assert pickle.loads(pickle.dumps(daily)) == daily  # noqa: S301 - our own
    assert kept.answers[0] == kept.answers[1] == kept.answers[2] != kept.answers[3]


def test_the_table_compares_each_forecaster_with_its_own_daily_forecasts(tmp_path: Path) -> None:
    told: list[str] = []
    plan = ExperimentPlan(seed=SEED, questions=6, days=4, forecasters=["baseline"], folder=tmp_path)
    found = {row.name: row for row in run_staleness(plan, told.append).rows}
    cases = follow_questions(create_world(SEED, 6), 6, 4)
    assert {row.n for row in found.values()} == {len(cases)}
    assert found["baseline, every 7 days"].reference == "baseline, every day"
    # The chance moves from day to day, so an old forecast is farther from it.
    worse = found["baseline, every 7 days"].distance_difference
    assert worse is not None
    assert worse.estimate > 0
    assert {"true chance", "crowd", "baseline, every 2 days", "baseline, every 3 days"} <= set(found)
    assert len(told) == 1
