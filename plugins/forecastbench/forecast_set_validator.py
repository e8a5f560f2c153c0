"""The documented rules of a forecast set, checked on its bytes.

Written from docs/facts/forecastbench.md#forecast-set, without the writer, so that a mistake there is not repeated here.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, NoReturn

from bot.api import Question
from plugins.forecastbench.file_format import DATASET_FAMILY, HORIZON_DAYS, MARKET_FAMILY, MAX_MISSING_SHARE

FILE_NAME = re.compile(r"(?P<due>\d{4}-\d{2}-\d{2})\.(?P<organization>[^./]+)\.[123]\.json")
REQUIRED_KEYS = ("organization", "model", "model_organization", "question_set", "forecasts")
OPTIONAL_KEYS = ("leaderboard_eligible",)
ROW_KEYS = ("id", "source", "forecast", "resolution_date", "reasoning")

RowKey = tuple[str, str, str | None]


def find_violations(content: bytes, *, file_name: str, questions: Collection[Question]) -> tuple[str, ...]:
    """Return every rule that the file breaks for the questions of its round; none means it may be submitted."""
    try:
        payload = json.loads(
            content.decode("utf-8"), object_pairs_hook=_reject_repeated_keys, parse_constant=_reject_constants
        )
    except (ValueError, RecursionError) as error:
        return (f"not strict JSON: {error}",)
    if not isinstance(payload, dict):
        return ("the file is not a JSON object",)
    found = list(_frame_violations(payload, file_name))
    rows = payload.get("forecasts")
    if not isinstance(rows, list) or found:
        return tuple(found)
    due = date.fromisoformat(file_name[:10])
    expected = {key: question.family for question in questions for key in _question_keys(question)}
    for number, row in enumerate(rows, start=1):
        found.extend(f"row {number}: {why}" for why in _row_violations(row, expected, due))
    if found:
        return tuple(found)
    given = Counter((row["id"], row["source"], row["resolution_date"]) for row in rows)
    found.extend(f"{key} has {count} rows" for key, count in given.items() if count > 1)
    found.extend(_share_violations(expected, given, due))
    return tuple(found)


def _frame_violations(payload: Mapping[str, Any], file_name: str) -> Iterator[str]:
    named = FILE_NAME.fullmatch(file_name)
    if named is None:
        yield f"file name {file_name!r} is not <due date>.<organization>.<1 to 3>.json"
    for key in REQUIRED_KEYS:
        kind = list if key == "forecasts" else str
        if not isinstance(payload.get(key), kind) or not payload[key]:
            yield f"{key} is missing, empty or of the wrong type"
    if unknown := set(payload) - {*REQUIRED_KEYS, *OPTIONAL_KEYS}:
        yield f"unknown keys {sorted(unknown)}"
    if not isinstance(payload.get("leaderboard_eligible", True), bool):
        yield "leaderboard_eligible is neither true nor false"
    if named is not None:
        if named["organization"] != payload.get("organization"):
            yield f"file name {file_name!r} is not that of organization {payload.get('organization')!r}"
        if not str(payload.get("question_set", "")).startswith(named["due"]):
            yield f"question_set {payload.get('question_set')!r} is not of {named['due']}"


def _row_violations(row: object, expected: Mapping[RowKey, str], due: date) -> Iterator[str]:
    if not isinstance(row, dict) or set(row) != set(ROW_KEYS):
        yield f"the keys are not {list(ROW_KEYS)}"
        return
    if not all(isinstance(row[key], str) for key in ("id", "source", "reasoning")):
        yield "id, source and reasoning are texts"
        return
    forecast = row["forecast"]
    if isinstance(forecast, bool) or not isinstance(forecast, int | float) or not 0 <= forecast <= 1:
        yield f"forecast {forecast!r} is not in [0, 1]"
    dated = row["resolution_date"]
    if dated is not None and dated not in {(due + timedelta(days=days)).isoformat() for days in HORIZON_DAYS}:
        yield f"resolution_date {dated!r} is not the due date plus a horizon"
    elif (row["id"], row["source"], dated) not in expected:
        yield f"{row['source']}/{row['id']} at {dated} was not asked"


def _share_violations(expected: Mapping[RowKey, str], given: Collection[RowKey], due: date) -> Iterator[str]:
    groups = {
        "all": list(expected),
        "market": [key for key, family in expected.items() if family == MARKET_FAMILY],
        "dataset": [key for key, family in expected.items() if family == DATASET_FAMILY],
    }
    for days in HORIZON_DAYS:
        last = (due + timedelta(days=days)).isoformat()
        groups[f"dataset up to {last}"] = [key for key in groups["dataset"] if key[2] is not None and key[2] <= last]
    for label, keys in groups.items():
        allowed = math.floor(MAX_MISSING_SHARE * len(keys))
        missing = len(set(keys) - set(given))
        if missing > allowed:
            yield f"{missing} {label} rows are missing, at most {allowed} may be"


def _question_keys(question: Question) -> Iterator[RowKey]:
    for target in question.targets:
        dated = target.resolves_at if question.family == DATASET_FAMILY else None
        yield question.source_id, question.source, None if dated is None else dated.date().isoformat()


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if repeated:
        message = f"keys {repeated} are repeated"
        raise ValueError(message)
    return dict(pairs)


def _reject_constants(text: str) -> NoReturn:
    message = f"{text} is no number"
    raise ValueError(message)
