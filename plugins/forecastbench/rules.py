"""The documented rules of a forecast set, checked on its bytes.

Written from the venue document (section 2.3) and knowing nothing of the writer, so that a mistake there does not
repeat itself here.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, NoReturn

from bot.api import Question
from plugins.forecastbench.terms import DATASET, HORIZON_DAYS, MARKET, MISSING_SHARE_LIMIT

FILE_NAME = re.compile(r"(?P<due>\d{4}-\d{2}-\d{2})\.(?P<organization>[^./]+)\.[123]\.json")
REQUIRED = ("organization", "model", "model_organization", "question_set", "forecasts")
OPTIONAL = ("leaderboard_eligible",)
ROW_KEYS = ("id", "source", "forecast", "resolution_date", "reasoning")

Key = tuple[str, str, str | None]


def violations(content: bytes, *, file_name: str, questions: Collection[Question]) -> tuple[str, ...]:
    """Return every rule that the file breaks for the questions of its round; none means it may be handed in."""
    try:
        payload = json.loads(content.decode("utf-8"), object_pairs_hook=_no_repeats, parse_constant=_no_constants)
    except (ValueError, RecursionError) as error:
        return (f"not strict JSON: {error}",)
    if not isinstance(payload, dict):
        return ("the file is not a JSON object",)
    found = list(_frame_violations(payload, file_name))
    rows = payload.get("forecasts")
    if not isinstance(rows, list) or found:
        return tuple(found)
    due = date.fromisoformat(file_name[:10])
    expected = {key: question.family for question in questions for key in _keys(question)}
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
    for key in REQUIRED:
        kind = list if key == "forecasts" else str
        if not isinstance(payload.get(key), kind) or not payload[key]:
            yield f"{key} is missing, empty or of the wrong type"
    if unknown := set(payload) - {*REQUIRED, *OPTIONAL}:
        yield f"unknown keys {sorted(unknown)}"
    if not isinstance(payload.get("leaderboard_eligible", True), bool):
        yield "leaderboard_eligible is neither true nor false"
    if named is not None:
        if named["organization"] != payload.get("organization"):
            yield f"file name {file_name!r} is not that of organization {payload.get('organization')!r}"
        if not str(payload.get("question_set", "")).startswith(named["due"]):
            yield f"question_set {payload.get('question_set')!r} is not of {named['due']}"


def _row_violations(row: object, expected: Mapping[Key, str], due: date) -> Iterator[str]:
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


def _share_violations(expected: Mapping[Key, str], given: Collection[Key], due: date) -> Iterator[str]:
    groups = {
        "all": list(expected),
        "market": [key for key, family in expected.items() if family == MARKET],
        "dataset": [key for key, family in expected.items() if family == DATASET],
    }
    for days in HORIZON_DAYS:
        last = (due + timedelta(days=days)).isoformat()
        groups[f"dataset up to {last}"] = [key for key in groups["dataset"] if key[2] is not None and key[2] <= last]
    for label, keys in groups.items():
        allowed = math.floor(MISSING_SHARE_LIMIT * len(keys))
        missing = len(set(keys) - set(given))
        if missing > allowed:
            yield f"{missing} {label} rows are missing, at most {allowed} may be"


def _keys(question: Question) -> Iterator[Key]:
    for target in question.targets:
        dated = target.resolves_at if question.family == DATASET else None
        yield question.facts["id"], question.source, None if dated is None else dated.date().isoformat()


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    if repeated:
        message = f"keys {repeated} are repeated"
        raise ValueError(message)
    return dict(pairs)


def _no_constants(text: str) -> NoReturn:
    message = f"{text} is no number"
    raise ValueError(message)
