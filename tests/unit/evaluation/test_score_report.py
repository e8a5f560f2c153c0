from dataclasses import replace

import numpy as np
import pytest

from bot.evaluation.score_report import build_report
from bot.evaluation.score_rows import BinaryScoreRow


def row(probability: float, outcome: float, **changes: object) -> BinaryScoreRow:
    given: dict[str, object] = {
        "round": "2026-01-04",
        "family": "market",
        "source": "lantern",
        "series": f"{probability}-{outcome}",
        "horizon_days": None,
        "probability": probability,
        "outcome": outcome,
    }
    return BinaryScoreRow(**(given | changes))  # type: ignore[arg-type]


ROWS = [
    row(0.9, 1.0, crowd=0.8),
    row(0.2, 0.0, crowd=0.4),
    row(0.5, 1.0, family="dataset", source="series", horizon_days=7),
    row(0.5, 0.0, family="dataset", source="series", horizon_days=30, round="2026-01-18", imputed=True),
]


def test_the_indices_are_those_of_the_population_by_hand() -> None:
    report = build_report(ROWS, rng=np.random.default_rng(1))
    # The market rows miss by 0.1 and 0.2, so their mean square is 0.025; the dataset rows by one half.
    assert report.block.market.brier == pytest.approx(0.025)
    assert report.block.market.brier_index == pytest.approx(100 * (1 - 0.025**0.5))
    assert report.block.dataset.brier_index == pytest.approx(50.0)
    assert report.block.overall.mean_of_indices == pytest.approx((100 * (1 - 0.025**0.5) + 50.0) / 2)
    assert report.block.overall.index_of_mean_brier == pytest.approx(100 * (1 - ((0.025 + 0.25) / 2) ** 0.5))


def test_the_crowd_is_scored_on_the_rows_it_priced() -> None:
    report = build_report(ROWS, rng=np.random.default_rng(1))
    assert report.crowd.n == 2
    assert report.crowd.brier == pytest.approx((0.04 + 0.16) / 2)


def test_the_json_has_its_documented_keys() -> None:
    plain = build_report(ROWS, rng=np.random.default_rng(1), notes=["one"]).to_json()
    assert set(plain) == {
        "market",
        "dataset",
        "overall",
        "crowd",
        "by_source",
        "by_round",
        "by_horizon",
        "intervals",
        "imputed",
        "kinds",
        "notes",
    }
    assert plain["imputed"] == 1


def test_groups_are_complete_and_horizons_in_order() -> None:
    rows = [row(0.5, 0.0, family="dataset", horizon_days=days) for days in (90, 7, 30)]
    report = build_report(rows, rng=np.random.default_rng(1))
    assert list(report.by_horizon) == ["7", "30", "90"]
    assert sum(cell.n for cell in report.by_source.values()) == len(rows)


def test_an_empty_family_has_no_score_and_no_overall() -> None:
    report = build_report(ROWS[:2], rng=np.random.default_rng(1))
    assert (report.block.dataset.n, report.block.dataset.brier) == (0, None)
    assert report.block.overall.mean_of_indices is None
    assert set(report.intervals) == {"market.brier_index"}


def test_a_question_asked_again_adds_no_certainty() -> None:
    once = [row(p, o, series=f"{n}") for n, (p, o) in enumerate([(0.9, 1.0), (0.3, 1.0), (0.6, 0.0), (0.1, 0.0)])]
    often = once * 25
    narrow = build_report(once, rng=np.random.default_rng(1)).intervals["market.brier_index"]
    repeated = build_report(often, rng=np.random.default_rng(1)).intervals["market.brier_index"]
    assert repeated == narrow


def test_no_rows_give_an_empty_report() -> None:
    report = build_report([], rng=np.random.default_rng(1))
    assert (report.block.market.n, report.by_source, report.intervals) == (0, {}, {})


def test_dated_values_of_one_round_day_and_source_are_drawn_together() -> None:
    def width(rows: list[BinaryScoreRow]) -> float:
        span = build_report(rows, rng=np.random.default_rng(1)).intervals["dataset.brier_index"]
        assert span.low is not None
        assert span.high is not None
        return span.high - span.low

    def dated(count: int) -> list[BinaryScoreRow]:
        # All outcomes of a source on one day are alike, as in a heat wave.
        return [
            row(
                0.4, float((source + days) % 2), family="dataset", source=f"s{source}", horizon_days=days, series=f"{n}"
            )
            for source in range(6)
            for days in (7, 30, 90)
            for n in range(count)
        ]

    assert width(dated(50)) == pytest.approx(width(dated(1)), rel=0.01)
    # Without a round nothing says what was asked together.
    assert width([replace(one, round="-") for one in dated(50)]) < width(dated(1)) / 3


def test_a_single_cluster_has_no_interval() -> None:
    alone = build_report([row(0.9, 1.0)] * 5, rng=np.random.default_rng(1)).intervals["market.brier_index"]
    assert (alone.low, alone.high) == (None, None)
    assert alone.estimate == pytest.approx(90.0)
