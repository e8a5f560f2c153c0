"""Forecast sets written by anyone, read after the documented rules: what the organisers drop is a complaint here too.

Source: venue document, section 2.3. Missing rows are not filled in: that is the scorer's business.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from bot.api import SINGLE_TARGET, ContractError, Round, Sheet
from plugins.forecastbench.complaints import Complaints
from plugins.forecastbench.missing import Row, excesses
from plugins.forecastbench.parse import frame
from plugins.forecastbench.terms import DATASET, HORIZON_DAYS, MARKET, SOURCES, reference


@dataclass(slots=True)
class _Reading:
    """What has been read of one file so far."""

    due: date
    families: Mapping[str, str]
    probabilities: dict[Row, float] = field(default_factory=dict)
    complaints: Complaints = field(default_factory=Complaints)
    combinations: int = 0


def forecast_sheet(raw: object, *, name: str, asked: Round | None) -> Sheet:
    """Read the decoded JSON of a forecast set.

    With the round at hand, rows for questions it did not ask are dropped and a file that misses more than 5 % is
    marked "will be ignored". Raises ContractError for a file without frame or with duplicate dataset rows.
    """
    due, records = frame(raw, "forecasts")
    author = raw.get("organization", "") if isinstance(raw, Mapping) else ""
    families = {source: family for family, sources in SOURCES.items() for source in sources}
    if asked is not None:
        families |= {question.source: question.family for question in asked.questions}
    reading = _Reading(due=due, families=families)
    for number, record in enumerate(records, start=1):
        if isinstance(record, Mapping) and isinstance(record.get("id"), list):
            reading.combinations += 1
            continue
        if why := _take(record, reading):
            reading.complaints.add(f"row {number}: {why}")
    if asked is not None:
        _drop_unasked(reading, asked)
    return Sheet(
        name=name,
        author=str(author),
        round=due.isoformat(),
        probabilities=reading.probabilities,
        complaints=(*reading.complaints.listed(), *_verdict(reading, asked)),
    )


def shortfall(given: Collection[Row], asked: Round) -> Iterator[str]:
    """Say where more than 5 % is missing: of all rows, of market rows, or of dataset rows that have resolved."""
    families = {
        (question.ref, target.key): question.family for question in asked.questions for target in question.targets
    }
    resolved = {(found.ref, found.target) for found in asked.resolutions}
    groups: dict[str, Sequence[Row]] = {
        "all": tuple(families),
        "market": [row for row, family in families.items() if family == MARKET],
        "resolved dataset": [row for row, family in families.items() if family == DATASET and row in resolved],
    }
    for why in excesses(groups, given):
        yield f"will be ignored: {why}"


def _take(record: object, reading: _Reading) -> str | None:
    """Keep one row or say why it is dropped; raises ContractError for a duplicate dataset row."""
    if not isinstance(record, Mapping) or not isinstance(record.get("id"), str) or not record["id"]:
        return "the id is not a text"
    source = str(record.get("source", "")).lower()
    if source not in reading.families:
        return f"source {source!r} is not known"
    probability = record.get("forecast")
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0.0 <= probability <= 1.0:
        return f"{source}/{record['id']}: forecast {probability!r} is not in [0, 1]"
    target = SINGLE_TARGET if reading.families[source] == MARKET else _listed_date(record, reading.due)
    if target is None:
        return f"{source}/{record['id']}: {record.get('resolution_date')!r} is not due date + horizon"
    row = (reference(reading.due, source, record["id"]), target)
    if row in reading.probabilities:
        if target != SINGLE_TARGET:
            message = f"{source}/{record['id']} has two rows for {target}: the organisers refuse such a file"
            raise ContractError(message)
        return f"{source}/{record['id']}: a second row for the same market question"
    reading.probabilities[row] = float(probability)
    return None


def _listed_date(record: Mapping[str, object], due: date) -> str | None:
    try:
        day = date.fromisoformat(str(record.get("resolution_date"))[:10])
    except ValueError:
        return None
    return day.isoformat() if (day - due).days in HORIZON_DAYS else None


def _verdict(reading: _Reading, asked: Round | None) -> Iterator[str]:
    if reading.combinations:
        yield f"{reading.combinations} rows of combination questions are never scored"
    if asked is None:
        yield f"the question set of {reading.due} is not at hand: missing rows were not counted"
    else:
        yield from shortfall(reading.probabilities, asked)


def _drop_unasked(reading: _Reading, asked: Round) -> None:
    rows = {(question.ref, target.key) for question in asked.questions for target in question.targets}
    extra = Counter(row[0] for row in reading.probabilities if row not in rows)
    reading.probabilities = {row: value for row, value in reading.probabilities.items() if row in rows}
    for ref, count in extra.items():
        reading.complaints.add(f"{ref.key}: {count} rows for what the round did not ask")
