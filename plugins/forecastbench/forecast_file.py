"""Forecast sets written by anyone, read by the documented rules: rows that the organisers drop are complaints here too.

Source: docs/facts/forecastbench.md#forecast-set. Missing rows are not filled in: the scorer does that.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from bot.api import SINGLE_TARGET, ForecastFile, MalformedDataError, Round
from plugins.forecastbench.file_format import (
    DATASET_FAMILY,
    HORIZON_DAYS,
    MARKET_FAMILY,
    SOURCES_BY_FAMILY,
    question_ref,
)
from plugins.forecastbench.file_parser import parse_frame
from plugins.forecastbench.forecast_set import TargetRow, missing_row_breaches
from plugins.forecastbench.round_files import FileComplaints


@dataclass(slots=True)
class _ForecastFileReading:
    """The part of one file that has been read so far."""

    due: date
    families: Mapping[str, str]
    probabilities: dict[TargetRow, float] = field(default_factory=dict)
    complaints: FileComplaints = field(default_factory=FileComplaints)
    combinations: int = 0


def parse_forecast_file(raw: object, *, name: str, asked: Round | None) -> ForecastFile:
    """Read the decoded JSON of a forecast set.

    With the round available, rows for questions it did not ask are dropped and a file that misses more than 5 % is
    marked "will be ignored". Raises MalformedDataError for a file without frame or with duplicate dataset rows.
    """
    due, records = parse_frame(raw, "forecasts")
    author = raw.get("organization", "") if isinstance(raw, Mapping) else ""
    families = {source: family for family, sources in SOURCES_BY_FAMILY.items() for source in sources}
    if asked is not None:
        families |= {question.source: question.family for question in asked.questions}
    reading = _ForecastFileReading(due=due, families=families)
    for number, record in enumerate(records, start=1):
        if isinstance(record, Mapping) and isinstance(record.get("id"), list):
            reading.combinations += 1
            continue
        if why := _read_row(record, reading):
            reading.complaints.add(f"row {number}: {why}")
    if asked is not None:
        _drop_unasked_rows(reading, asked)
    return ForecastFile(
        name=name,
        author=str(author),
        round=due.isoformat(),
        probabilities=reading.probabilities,
        dropped_rows=(*reading.complaints.to_tuple(), *_file_warnings(reading, asked)),
    )


def missing_share_warnings(given: Collection[TargetRow], asked: Round) -> Iterator[str]:
    """Return where more than 5 % is missing: of all rows, of market rows, or of dataset rows that have resolved."""
    families = {
        (question.ref, target.key): question.family for question in asked.questions for target in question.targets
    }
    resolved = {(found.ref, found.target) for found in asked.resolutions}
    groups: dict[str, Sequence[TargetRow]] = {
        "all": tuple(families),
        "market": [row for row, family in families.items() if family == MARKET_FAMILY],
        "resolved dataset": [row for row, family in families.items() if family == DATASET_FAMILY and row in resolved],
    }
    for why in missing_row_breaches(groups, given):
        yield f"will be ignored: {why}"


def _read_row(record: object, reading: _ForecastFileReading) -> str | None:
    """Keep one row or return why it is dropped; raises MalformedDataError for a duplicate dataset row."""
    if not isinstance(record, Mapping) or not isinstance(record.get("id"), str) or not record["id"]:
        return "the id is not a text"
    source = str(record.get("source", "")).lower()
    if source not in reading.families:
        return f"source {source!r} is not known"
    probability = record.get("forecast")
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0.0 <= probability <= 1.0:
        return f"{source}/{record['id']}: forecast {probability!r} is not in [0, 1]"
    target = SINGLE_TARGET if reading.families[source] == MARKET_FAMILY else _row_date(record, reading.due)
    if target is None:
        return f"{source}/{record['id']}: {record.get('resolution_date')!r} is not due date + horizon"
    row = (question_ref(reading.due, source, record["id"]), target)
    if row in reading.probabilities:
        if target != SINGLE_TARGET:
            message = f"{source}/{record['id']} has two rows for {target}: the organisers refuse such a file"
            raise MalformedDataError(message)
        return f"{source}/{record['id']}: a second row for the same market question"
    reading.probabilities[row] = float(probability)
    return None


def _row_date(record: Mapping[str, object], due: date) -> str | None:
    try:
        day = date.fromisoformat(str(record.get("resolution_date"))[:10])
    except ValueError:
        return None
    return day.isoformat() if (day - due).days in HORIZON_DAYS else None


def _file_warnings(reading: _ForecastFileReading, asked: Round | None) -> Iterator[str]:
    if reading.combinations:
        yield f"{reading.combinations} rows of combination questions are never scored"
    if asked is None:
        yield f"the question set of {reading.due} is not available: missing rows were not counted"
    else:
        yield from missing_share_warnings(reading.probabilities, asked)


def _drop_unasked_rows(reading: _ForecastFileReading, asked: Round) -> None:
    rows = {(question.ref, target.key) for question in asked.questions for target in question.targets}
    extra = Counter(row[0] for row in reading.probabilities if row not in rows)
    reading.probabilities = {row: value for row, value in reading.probabilities.items() if row in rows}
    for ref, count in extra.items():
        reading.complaints.add(f"{ref.key}: {count} rows for questions that the round did not ask")
