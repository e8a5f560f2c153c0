"""Scores in the JSON API, from sums of several units."""

from bot.store.score_totals import NO_HORIZON, ScoreSums
from bot.web.api import summarize_scores


def test_scores_are_means_by_forecaster_and_family_of_yes_or_no_questions() -> None:
    sums = ScoreSums(
        forecaster=("plain", "plain", "plain", "plain"),
        rule=("brier", "brier", "brier", "crps"),
        venue=("lantern", "harbour", "lantern", "lantern"),
        source=("",) * 4,
        family=("market", "market", "dataset", "market"),
        horizon_days=(NO_HORIZON,) * 4,
        unit=(1, 2, 1, 1),
        n=(3, 1, 2, 9),
        outcome=(2.0, 0.0, 1.0, 0.0),
        value=(0.3, 0.5, 0.1, 9.0),
        crowd_n=(2, 0, 0, 9),
        value_with_crowd=(0.2, 0.0, 0.0, 9.0),
        crowd=(0.5, 0.0, 0.0, 9.0),
    )
    dataset, market = summarize_scores(sums)
    assert (dataset.family, dataset.predictions, dataset.brier, dataset.brier_crowd) == ("dataset", 2, 0.05, None)
    assert (market.forecaster, market.predictions, market.brier, market.brier_crowd) == ("plain", 4, 0.2, 0.25)
