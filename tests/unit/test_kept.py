import json
from pathlib import Path

from tests.kept import campaign
from tests.scoreboard import board_of, table_of


def test_campaigns_are_kept_and_added_up_and_their_violations_are_open(tmp_path: Path) -> None:
    to = tmp_path / "new" / "campaigns.jsonl"
    campaign("tests.crash.outbox", {"kills": 1_200, "effects": 3}, to=to)
    campaign("tests.crash.outbox", {"kills": 34}, ["seed 7: I1: twice"], to=to)
    lines = [json.loads(text) for text in to.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["command"].startswith("python -m tests.crash.outbox")
    assert lines[0]["commit"]
    board = board_of(lines, known=[])
    assert board["campaigns"] == {"kills": 1_234, "effects": 3}
    assert [one["says"] for one in board["violations"]["open"]] == ["seed 7: I1: twice"]
    assert "| Real processes and pages | kills 1,234, effects 3 |" in table_of(board)
    assert "1 not looked into" in table_of(board)
