"""``foxcast lab questions import``: own resolved questions, and a backtest on them."""

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand, installed

CSV = """title,asked_at,resolved_at,outcome,crowd,kind,options,range,source
Will it rain on the 5th?,2026-01-01,2026-01-06,yes,0.7,,,,weather
Will it snow on the 5th?,2026-01-01,2026-01-06,0,0.2,,,,weather
Will it hail on the 9th?,2026-01-08,2026-01-10,no,,,,,weather
Which colour wins?,2026-01-08,2026-01-12,red,,choice,red|blue,,games
How many points?,2026-01-08,2026-01-12,7,,number,,0|20,games
Was the game played?,2026-01-08,2026-01-12,annulled,,,,,games
"""


@pytest.fixture
def foxcast(tmp_path: Path) -> FoxcastInstallation:
    return installed(tmp_path, 'plugins = ["baseline", "metaculus"]\n')


def test_imported_questions_are_rounds_of_a_backtest(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    (foxcast.folder / "own.csv").write_text(CSV)
    answer = run_command(foxcast, "lab", "questions", "import", "own.csv", "--out", "own")
    assert answer.code == 0, answer.err
    assert "6 resolved questions written to own/resolved_questions.jsonl" in answer.out
    assert "foxcast backtest --forecaster NAME --rounds own" in answer.out
    report = run_command(
        foxcast, "backtest", "--forecaster", "baseline", "--rounds", "own", "--rows", "rows.csv", "--json", "-"
    ).json
    assert report["by_source"]["weather"]["n"] == 3
    assert report["by_round"].keys() == {"2026-01-01", "2026-01-08"}
    assert report["crowd"]["n"] == 2
    # The baseline stretches the log odds of prices, and nothing was known before the first day.
    odds = [(0.7 / 0.3) ** 1.15, (0.2 / 0.8) ** 1.15]
    errors = [1 / (1 + odds[0]), odds[1] / (1 + odds[1])]
    assert report["by_round"]["2026-01-01"]["market"]["brier"] == pytest.approx((errors[0] ** 2 + errors[1] ** 2) / 2)
    rows = (foxcast.folder / "rows.csv").read_text()
    assert "file:will-it-rain-on-the-5th" in rows
    assert str(1 - errors[0])[:8] in rows
    assert {kind: one["n"] for kind, one in report["kinds"].items()} == {"choice": 1, "curve": 1}


def test_lines_of_json_are_question_files_with_an_outcome(
    foxcast: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    lines = [
        {
            "title": "Which colour?",
            "key": "colour",
            "asked_at": "2026-01-01T12:00:00Z",
            "resolved_at": "2026-01-05",
            "outcome": "red",
            "shape": {"kind": "choice", "options": ["red", "blue"]},
            "crowd": {"probabilities": {"red": 0.6, "blue": 0.4}},
        }
    ]
    (foxcast.folder / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert run_command(foxcast, "lab", "questions", "import", "own.jsonl", "--out", "own").code == 0
    report = run_command(foxcast, "backtest", "--forecaster", "baseline", "--rounds", "own", "--json", "-").json
    assert report["kinds"]["choice"]["crowd"]["n"] == 1


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("Rain?,2026-01-01,2026-01-06,,,,,,", ("own.csv line 2: outcome is missing",)),
        ("Rain?,2026-01-01,2026-01-06,maybe,,,,,", ("own.csv line 2", "yes, no, annulled or a number from 0 to 1")),
        ("Rain?,2026-01-06,2026-01-01,yes,,,,,", ("resolved_at should be after asked_at",)),
        ("Rain?,soon,2026-01-01,yes,,,,,", ("own.csv line 2: as_of", "should be a time such as")),
        ("Rain?,2026-01-01,2026-01-06,green,,choice,red|blue,,", ("'green' is none of the options red, blue",)),
        ("Rain?,2026-01-01,2026-01-06,yes,1.7,,,,", ("own.csv line 2: crowd.probability",)),
    ],
)
def test_a_fault_is_named_with_its_line_and_nothing_is_written(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, row: str, words: tuple[str, ...]
) -> None:
    (foxcast.folder / "own.csv").write_text(f"{CSV.splitlines()[0]}\n{row}\n")
    answer = run_command(foxcast, "lab", "questions", "import", "own.csv", "--out", "own")
    assert answer.code != 0
    assert all(word in answer.err for word in words), answer.err
    assert not (foxcast.folder / "own").exists()


def test_the_same_question_twice_is_refused(foxcast: FoxcastInstallation, run_command: InProcessCommand) -> None:
    (foxcast.folder / "own.csv").write_text(CSV)
    answer = run_command(foxcast, "lab", "questions", "import", "own.csv", "own.csv", "--out", "own")
    assert answer.is_refusal(2, "will-it-rain-on-the-5th is there twice")


def test_resolved_questions_of_a_tournament_come_from_the_json_of_its_api(
    foxcast: FoxcastInstallation, run_command: InProcessCommand, shared: Path
) -> None:
    samples = []
    for name in ("yes", "mc", "num"):
        recorded = json.loads((shared / "venues" / "metaculus_samples" / f"post_res_{name}.json").read_text())
        samples.append(foxcast.folder / f"{name}.json")
        samples[-1].write_text(json.dumps({"results": [recorded["response"]["json"]]}))
    answer = run_command(foxcast, "lab", "questions", "import", *samples, "--out", "own")
    assert answer.code == 0, answer.err
    lines = [
        json.loads(line) for line in (foxcast.folder / "own" / "resolved_questions.jsonl").read_text().splitlines()
    ]
    assert len(lines) == 3
    assert all(line["question"].get("crowd") is None for line in lines)
    assert {line["question"]["shape"]["kind"] for line in lines} == {"binary", "choice", "curve"}
    backtest = run_command(foxcast, "backtest", "--forecaster", "baseline", "--rounds", "own", "--json", "-")
    assert backtest.code == 0, backtest.err


def test_json_without_a_venue_that_reads_it_says_so(
    new_installation: FoxcastInstallation, run_command: InProcessCommand
) -> None:
    (new_installation.folder / "x.json").write_text("[]")
    answer = run_command(new_installation, "lab", "questions", "import", "x.json", "--out", "own")
    assert answer.is_refusal(2, "x.json: of the enabled venues, none can read resolved questions")
