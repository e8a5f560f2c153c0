"""What the site says of our forecasts: its scores of each question, options in their grace period, leaderboards."""

from datetime import timedelta
from math import log
from typing import Any

import pytest

from bot.api import ChoicePrediction, Question, QuestionRef, RequestRejectedError, Resolution
from bot.core.outcomes import CHOICE_BASELINE
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion as There
from bot.stats.scoring_rules import ResolvedPrediction, score_predictions
from bot.testing.clock import START
from plugins.metaculus.account_check import check_account
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.writer_helpers import asked, ref

HOUR = timedelta(hours=1)
CHANGED = {"A": 0.1, "B": 0.5, "D": 0.1, "C": 0.3}


async def outcome_of(site: MetaculusFixture, there: There) -> Resolution:
    pending = {QuestionRef("metaculus", ref(there).key)}
    [found] = [outcome async for outcome in site.reader.resolutions(pending)]
    return found


async def ours(question: Question, outcome: Resolution, reported: ChoicePrediction) -> float:
    (marks,) = score_predictions([ResolvedPrediction(reported, question.shape, outcome.outcome)])
    return marks[CHOICE_BASELINE]


async def test_scores_come_with_outcomes_also_for_yes_or_no(site: MetaculusFixture) -> None:
    other = site.fake.world.add_user("rival")
    there = site.fake.world.add_question(counts_bots=True, score_type="spot_peer", spot=START + HOUR)
    site.fake.world.forecast(site.bot, there, 0.8)
    site.fake.world.forecast(other, there, 0.5)
    await site.clock.advance(2 * HOUR.total_seconds())
    site.fake.world.resolve(there, "yes")
    found = await outcome_of(site, there)
    # docs/facts/metaculus.md#score-figures, checked against the real backend.
    assert found.scores["spot peer"] == pytest.approx(47.00036292457356, abs=1e-9)
    assert found.scores["spot baseline"] == pytest.approx(67.80719051126378, abs=1e-9)
    assert set(found.scores) == {"baseline", "spot baseline", "peer", "spot peer", "coverage"}


async def test_of_a_question_without_a_forecast_of_ours_nothing_is_told(site: MetaculusFixture) -> None:
    site.bot.tier = "unrestricted"
    there = site.fake.world.add_question()
    site.fake.world.resolve(there, "yes")
    assert (await outcome_of(site, there)).scores == {}


@pytest.mark.parametrize(
    ("resolution", "expected"),
    # See docs/facts/metaculus.md#aggregate-figures: in the grace period C has the share of both.
    [
        ("A", 100.0 * log(0.1 * 3) / log(3)),
        ("C", 100.0 * log(0.4 * 3) / log(3)),
        ("D", 100.0 * log(0.4 * 3) / log(3)),
    ],
)
async def test_what_resolves_inside_a_grace_period_is_scored_as_the_site_does(
    site: MetaculusFixture, resolution: str, expected: float
) -> None:
    there = site.fake.world.add_question(
        type="multiple_choice", options=["A", "B", "C"], score_type="spot_peer", spot=START + 3 * HOUR
    )
    site.fake.world.change_options(there, ["A", "B", "D", "C"], grace_s=24 * HOUR.total_seconds())
    question = await asked(site, there)
    site.fake.world.forecast(site.bot, there, CHANGED)
    await site.clock.advance(4 * HOUR.total_seconds())
    site.fake.world.resolve(there, resolution)
    found = await outcome_of(site, there)
    assert found.scores["spot baseline"] == pytest.approx(expected, abs=1e-9)
    assert await ours(question, found, ChoicePrediction(CHANGED)) == pytest.approx(expected, abs=1e-9)


async def test_once_the_grace_period_is_over_the_new_option_has_its_own_share(site: MetaculusFixture) -> None:
    there = site.fake.world.add_question(type="multiple_choice", options=["A", "B", "C"])
    site.fake.world.change_options(there, ["A", "B", "D", "C"], grace_s=HOUR.total_seconds())
    question = await asked(site, there)
    site.fake.world.forecast(site.bot, there, CHANGED)
    await site.clock.advance(2 * HOUR.total_seconds())
    site.fake.world.resolve(there, "D")
    found = await outcome_of(site, there)
    expected = 100.0 * log(0.1 * 4) / log(4)
    assert await ours(question, found, ChoicePrediction(CHANGED)) == pytest.approx(expected, abs=1e-9)


async def test_a_forecast_from_before_the_change_is_read_at_the_last_option_among_three(site: MetaculusFixture) -> None:
    there = site.fake.world.add_question(
        type="multiple_choice", options=["A", "B", "C"], score_type="spot_peer", spot=START + 3 * HOUR
    )
    before = await asked(site, there)
    reported = {"A": 0.1, "B": 0.6, "C": 0.3}
    site.fake.world.forecast(site.bot, there, reported)
    site.fake.world.change_options(there, ["A", "B", "D", "C"], grace_s=24 * HOUR.total_seconds())
    await site.clock.advance(4 * HOUR.total_seconds())
    site.fake.world.resolve(there, "D")
    found = await outcome_of(site, there)
    expected = 100.0 * log(0.3 * 3) / log(3)
    assert found.scores["spot baseline"] == pytest.approx(expected, abs=1e-9)
    assert await ours(before, found, ChoicePrediction(reported)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("score_type", "is_told"), [("spot_peer", True), ("spot_baseline", True), ("peer", False)])
async def test_only_what_is_scored_at_one_moment_has_one(
    site: MetaculusFixture,
    score_type: str,
    is_told: bool,  # noqa: FBT001 - a column
) -> None:
    there = site.fake.world.add_question(score_type=score_type, spot=START + HOUR)
    assert ((await asked(site, there)).spot_at is not None) is is_told


async def test_the_leaderboard_tells_points_and_rank(site: MetaculusFixture) -> None:
    other = site.fake.world.add_user("rival")
    late: dict[str, Any] = {"counts_bots": True, "score_type": "spot_peer", "spot": START + HOUR}
    first, second = (site.fake.world.add_question(weight=weight, **late) for weight in (1.0, 0.5))
    for there in (first, second):
        site.fake.world.forecast(site.bot, there, 0.8)
        site.fake.world.forecast(other, there, 0.5)
    await site.clock.advance(2 * HOUR.total_seconds())
    assert await site.reader.contest_standings() == []
    for there in (first, second):
        site.fake.world.resolve(there, "yes")
    # By slug and by number it is the same tournament.
    [standing] = await site.set(tournaments=("sample-aib", 32002, "nowhere")).reader.contest_standings()
    assert (standing.contest, standing.rule) == ("sample-aib", "spot peer tournament")
    # See docs/facts/metaculus.md#score-figures: 47.00036292457356 for the one, half of that for the other.
    assert standing.points == pytest.approx(1.5 * 47.00036292457356, abs=1e-9)
    assert (standing.rank, standing.entrants, standing.questions) == (1, 2, 2)


async def test_an_unknown_tournament_is_named_with_near_ones_and_hides_no_other(
    site: MetaculusFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    site.fake.world.add_tournament("fall-futureeval-2026", "FutureEval Fall 2026")
    site.fake.world.add_question("Rain?")
    both = site.set(tournaments=("fall-futureval-2026", "sample-aib"))
    assert [one.title for one in await both.questions()] == ["Rain?"]
    output = capfd.readouterr()
    assert "similar names: fall-futureeval-2026 (FutureEval Fall 2026)" in output.out + output.err
    alone = site.set(tournaments=("sample-iab",))
    with pytest.raises(
        RequestRejectedError, match=r"'sample-iab' does not exist; .* similar names: sample-aib \(Sample AI Benchmark\)"
    ):
        await alone.questions()
    assert any(
        "similar names: sample-aib" in line
        for line in await check_account(both.set(tournaments=("sample-aib", "sampleaib")).settings, site.place)
    )
