"""A report of scores on paper."""

import io

import numpy as np
from rich.console import Console

from bot.cli.output.score_report import print_report
from bot.evaluation.score_report import build_report
from bot.evaluation.score_rows import BinaryScoreRow


def row(day: str, family: str, probability: float, outcome: float) -> BinaryScoreRow:
    return BinaryScoreRow(
        round=day,
        family=family,
        source=f"{family} source",
        series=f"{day}/{probability}",
        horizon_days=7 if family == "dataset" else None,
        probability=probability,
        outcome=outcome,
        crowd=0.5 if family == "market" else None,
    )


def told(rows: list[BinaryScoreRow], notes: list[str]) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_report(console, build_report(rows, rng=np.random.default_rng(1), notes=notes), title="A report")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_both_definitions_of_the_overall_stand_under_their_names() -> None:
    # Errors of 0.2 and 0.6: indices 80 and 40, mean 60; Brier 0.04 and 0.36, mean 0.2, index 100 * (1 - sqrt(0.2)).
    said = told([row("2026-01-04", "market", 0.8, 1.0), row("2026-01-04", "dataset", 0.6, 0.0)], [])
    assert "Overall, mean of the two indices: 60.00" in said
    assert "Overall, index of the mean Brier score: 55.28" in said
    assert "crowd, if there is one" in said
    assert "by round" not in said


def test_rounds_are_told_where_there_are_several() -> None:
    said = told([row("2026-01-04", "market", 0.8, 1.0), row("2026-01-18", "market", 0.6, 0.0)], [])
    assert "Brier Index by round" in said
    assert "Overall" not in said
    assert "By horizon" not in said


def test_many_notes_are_cut_with_the_way_to_all_of_them() -> None:
    said = told([row("2026-01-04", "market", 0.8, 1.0)], [f"remark {number}" for number in range(12)])
    assert "note: remark 9" in said
    assert "remark 10" not in said
    assert "and 2 more notes; --json has all of them" in said
