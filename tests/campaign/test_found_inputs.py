"""Inputs that the campaign found, each of which once raised an error that nobody expected or could read."""

import json
from pathlib import Path

import pytest

from bot.core.errors import FoxcastError
from tests.campaign.fuzz_targets import list_targets
from tests.campaign.fuzzing import unclear_reason

TARGETS = {target.name: target for target in list_targets()}
LONG = "[" * 30_000
QUESTION = {"title": "Will it rain?", "asked_at": "2026-01-01", "resolved_at": "2026-02-01", "outcome": "no"}
FOUND = [
    ("models responses", b'{"status": {"a": 1}, "output": []}'),
    ("models responses", b'{"error": {"message": "\\ud800"}}'),
    ("models headers", b'{"date": "Mon, 02 Mar 2026 08:00:00 +99999999999999999999", "age": "0"}'),
    ("files mailbox", json.dumps({"kind": LONG}).encode()),
    ("files import.csv", b"title,outcome\nWill it\rrain?,yes\n"),
    ("files import.csv", f"{LONG}title,asked_at,resolved_at,outcome\na,2026-01-01,2026-02-01,yes\n".encode()),
    ("files import.csv", f"title,asked_at,resolved_at,outcome\na,2026-01-01,2026-02-01,{LONG}\n".encode()),
    ("files import.jsonl", ("[" * 100_000).encode()),
    ("files import.jsonl", json.dumps({**QUESTION, "outcome": {"a": 1}}).encode()),
    ("files question.json", json.dumps({"title": "Rain?", LONG: 1}).encode()),
    (
        "files question.json",
        json.dumps(
            {
                "title": "Who?",
                "shape": {"kind": "choice", "options": [f"{number}{LONG[:900]}" for number in range(20)]},
                "crowd": {"probabilities": {"Ann": 0.5, "Bob": 0.5}},
            }
        ).encode(),
    ),
    ("files question.json", b'{"title": "Rain?", "targets": ["9999-12-31T23:59:59-12:00"]}'),
    (
        "files trials.csv",
        f"method,forecast_due_date,source,id,resolution_date,forecast\nsolo,{LONG},fred,x,,0.5\n".encode(),
    ),
    ("pages rss", b"<rss><channel><item><title>&#55296;</title></item></channel></rss>"),
    ("pages rss", b"<rss><item><pubDate>Mon, 02 Mar 2026 08:00:00 +99999999999999999999</pubDate></item></rss>"),
]


@pytest.mark.parametrize(("name", "body"), FOUND, ids=[f"{place} {name}" for place, (name, _) in enumerate(FOUND)])
async def test_an_input_that_was_found_is_read_or_refused_with_a_clear_error(
    name: str, body: bytes, tmp_path: Path
) -> None:
    read = TARGETS[name].open(tmp_path)
    try:
        await read(lambda _: body)
    except FoxcastError as error:
        assert unclear_reason(error) == ""  # noqa: PT017 - some of them are read
