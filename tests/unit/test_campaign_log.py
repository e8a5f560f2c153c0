import json
from pathlib import Path

from tests.campaign_log import record_campaign
from tests.scoreboard import build_scoreboard, markdown_table


def test_campaigns_are_kept_and_added_up_and_their_violations_are_open(tmp_path: Path) -> None:
    to = tmp_path / "new" / "campaigns.jsonl"
    record_campaign("tests.crash.outbox_campaign", {"kills": 1_200, "effects": 3}, to=to)
    record_campaign("tests.crash.outbox_campaign", {"kills": 34}, ["seed 7: I1: twice"], to=to)
    lines = [json.loads(text) for text in to.read_text(encoding="utf-8").splitlines()]
    assert lines[0]["command"].startswith("python -m tests.crash.outbox_campaign")
    assert lines[0]["commit"]
    board = build_scoreboard(lines, known=[])
    assert board["campaigns"] == {"kills": 1_234, "effects": 3}
    assert [one["says"] for one in board["violations"]["open"]] == ["seed 7: I1: twice"]
    assert "| Real processes and pages | kills 1,234, effects 3 |" in markdown_table(board)
    assert "1 not looked into" in markdown_table(board)
