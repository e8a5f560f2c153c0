"""Tables of trials: the probabilities of each method for each event, trial by trial, with outcomes.

The form is that of the public files of BLF (docs/backtesting.md#tables-of-trials); backtests write it too. An event is
a question, or one dated value of a data series, in one round.
"""

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from bot.core.errors import MalformedDataError, NotFoundError
from bot.core.interfaces import RoundArchive
from bot.core.learning import Round
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BinaryOutcome
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.evaluation.score_report import DATASET_FAMILY, MARKET_FAMILY
from bot.stats.blending import SourceKind, is_stuck

KEY_COLUMNS = ("method", "forecast_due_date", "source", "id", "resolution_date")
TRIAL_PREFIX = "trial_"
USAGE_COLUMNS = ("n_steps", "n_searches", "tokens_in", "tokens_out", "elapsed_seconds", "cost_usd")
FLAGS = {"True": True, "False": False, "": None}
# So much of an error about a line is shown at most: it may repeat the line.
MAX_SHOWN_CHARS = 200
# The name of the crowd's price where it is compared or blended like a method.
CROWD_METHOD = "crowd"


class EventKey(NamedTuple):
    """The day of a round, source and id of a question there, and the day of a dated value ("" for a single outcome)."""

    round: str
    source: str
    question: str
    day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """The answer of one method to one event.

    ``forecast`` is the method's single probability and ``trials`` those of its trials, if there are any. ``day`` is the
    day of the outcome. ``outcome`` is None as long as there is none; ``price`` is the crowd's price that was shown.
    """

    method: str
    event: EventKey
    day: str
    forecast: float
    trials: tuple[float, ...] = ()
    outcome: float | None = None
    price: float | None = None
    submitted: bool | None = None
    usage: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_stuck(self) -> bool:
        """Whether the run got stuck: it says exactly one half, or it ended at the price from which it started."""
        return is_stuck(self.forecast) or (self.submitted is False and self.forecast == self.price)


@dataclass(frozen=True)
class TrialTable:
    """Rows of one or more methods; a method has at most one row for an event."""

    rows: tuple[TrialRow, ...]

    @cached_property
    def by_method(self) -> Mapping[str, Mapping[EventKey, TrialRow]]:
        """The rows by method, in the order of appearance, and by event."""
        found: dict[str, dict[EventKey, TrialRow]] = {}
        for row in self.rows:
            found.setdefault(row.method, {})[row.event] = row
        return found

    @cached_property
    def resolved(self) -> Mapping[EventKey, TrialRow]:
        """One row of each event that has an outcome."""
        return {row.event: row for row in self.rows if row.outcome is not None}

    @cached_property
    def prices(self) -> Mapping[EventKey, float]:
        """The crowd's price of each event that has one."""
        return {row.event: row.price for row in self.rows if row.price is not None}

    @cached_property
    def kinds(self) -> Mapping[str, SourceKind]:
        """The kind of each source: priced if any of its events has a price, a series if its events have days."""
        priced = {event.source for event in self.prices}
        dated = {row.event.source for row in self.rows if row.event.day}
        return {
            source: SourceKind.PRICED
            if source in priced
            else SourceKind.SERIES
            if source in dated
            else SourceKind.TOURNAMENT
            for source in dict.fromkeys(row.event.source for row in self.rows)
        }

    def family(self, event: EventKey) -> str:
        """Return the family under which an event is scored: dataset for a series, market for everything else."""
        return DATASET_FAMILY if self.kinds[event.source] is SourceKind.SERIES else MARKET_FAMILY

    def block(self, event: EventKey) -> tuple[str, str, str]:
        """Return the round, day and source of an event: outcomes of one block move together."""
        return event.round, self.resolved[event].day, event.source

    def with_rows(self, rows: Iterable[TrialRow]) -> "TrialTable":
        """Return the table with more rows; raises MalformedDataError for a second row of a method and event."""
        return make_table_of_trials([*self.rows, *rows])

    def select_methods(self, names: Collection[str]) -> "TrialTable":
        """Return the rows of these methods."""
        return TrialTable(tuple(row for row in self.rows if row.method in names))

    def require_methods(self, names: Iterable[str]) -> None:
        """Raise NotFoundError for a method that the table does not have."""
        for name in names:
            if name not in self.by_method:
                message = f"the tables have no method {name}; they have {', '.join(self.by_method)}"
                raise NotFoundError(message)


def make_table_of_trials(rows: Iterable[TrialRow]) -> TrialTable:
    """Check that no method answers an event twice; raises MalformedDataError."""
    found = tuple(rows)
    counts = Counter((row.method, row.event) for row in found)
    twice = next((key for key, count in counts.items() if count > 1), None)
    if twice is not None:
        message = f"{twice[0]} has two rows for {' '.join(twice[1]).strip()}; name each table once"
        raise MalformedDataError(message)
    return TrialTable(found)


def read_trial_tables(paths: Sequence[Path]) -> TrialTable:
    """Read tables, plain or gzip.

    Raises NotFoundError for a file that does not exist, MalformedDataError, with the line, for one in another form.
    """
    return make_table_of_trials(row for path in paths for row in _read_table(path))


def parse_trial_records(records: Sequence[Mapping[str, str]], name: str) -> list[TrialRow]:
    """Return the rows of the records of one table; raises MalformedDataError, with the line, for another form."""
    missing = [column for column in KEY_COLUMNS if not records or column not in records[0]]
    if missing:
        message = f"{name} is no table of trials: it needs rows with the columns {', '.join(KEY_COLUMNS)}"
        raise MalformedDataError(message)
    dated = _dated_sources(records)
    return [row for number, record in enumerate(records, 2) if (row := _read_record(record, dated, name, number))]


def _read_table(path: Path) -> list[TrialRow]:
    if not path.is_file():
        message = f"there is no table {path}"
        raise NotFoundError(message)
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            records = [*csv.DictReader(file)]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        message = f"{path} is no table of trials: {error}"
        raise MalformedDataError(message) from error
    return parse_trial_records(records, str(path))


def _dated_sources(records: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the sources with dated values: they say so, or some question has outcomes on several days.

    What published rows of such sources hold as the market's value is the last value of the series, no price.
    """
    days: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for record in records:
        days[record["method"], record["forecast_due_date"], record["source"], record["id"]].add(
            record["resolution_date"]
        )
    stated = {record["source"] for record in records if record.get("family") == DATASET_FAMILY}
    return stated | {key[2] for key, found in days.items() if len(found) > 1}


def _read_record(record: Mapping[str, str], dated: Collection[str], table: str, number: int) -> TrialRow | None:
    """Return the row of a record; None where it holds no probability at all."""
    try:
        trials = [_read_share(text) for name, text in record.items() if name and name.startswith(TRIAL_PREFIX) and text]
        forecast = _read_share(record["forecast"]) if record.get("forecast") else _pool_trials(trials)
        is_resolved = FLAGS[record.get("resolved") or ""] is not False and bool(record.get("resolved_to"))
        source, day = record["source"], record["resolution_date"]
        for text in (record["forecast_due_date"], *((day,) if is_resolved or day else ())):
            date.fromisoformat(text)
        return (
            None
            if forecast is None
            else TrialRow(
                method=record["method"],
                event=EventKey(record["forecast_due_date"], source, record["id"], day if source in dated else ""),
                day=day,
                forecast=forecast,
                trials=tuple(trials),
                outcome=_read_share(record["resolved_to"]) if is_resolved else None,
                price=_read_share(record["market_value"])
                if record.get("market_value") and source not in dated
                else None,
                submitted=FLAGS[record.get("submitted") or ""],
                usage={name: float(record[name]) for name in USAGE_COLUMNS if record.get(name)},
            )
        )
    except (KeyError, ValueError, TypeError) as error:
        message = f"{table} line {number}: {str(error)[:MAX_SHOWN_CHARS]}"
        raise MalformedDataError(message) from error


def _read_share(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        message = f"{text} is not in [0, 1]"
        raise ValueError(message)
    return value


def _pool_trials(trials: Sequence[float]) -> float | None:
    from bot.stats.aggregation import logit_mean_probability  # noqa: PLC0415 - numpy

    return float(logit_mean_probability([[value] for value in trials])[0]) if trials else None


@dataclass(frozen=True, slots=True)
class PublishedOutcomes:
    """A table with the outcomes and prices of published rounds; ``changed`` outcomes differed in the table."""

    table: TrialTable
    changed: int


def read_matching_rounds(table: TrialTable, archive: RoundArchive) -> Iterator[Round]:
    """Yield the rounds of the archive in which the table has rows; raises NotFoundError where there is none."""
    wanted = {row.event.round for row in table.rows}
    keys = [key for key in archive.round_keys() if key in wanted]
    if not keys:
        message = f"the rounds of the tables ({', '.join(sorted(wanted)[:5])}, ...) are not among those given"
        raise NotFoundError(message)
    yield from map(archive.read_round, keys)


def apply_published_outcomes(table: TrialTable, rounds: Sequence[Round]) -> PublishedOutcomes:
    """Replace outcomes by the published ones: in these rounds an event without one has none."""
    days = {round_day(a_round) for a_round in rounds}
    known = {event: row for a_round in rounds for event, row in _published_events(a_round)}
    rows = [_with_outcome(row, known.get(row.event)) if row.event.round in days else row for row in table.rows]
    changed = {
        old.event
        for old, new in zip(table.rows, rows, strict=True)
        if None not in {old.outcome, new.outcome} and old.outcome != new.outcome
    }
    return PublishedOutcomes(TrialTable(tuple(rows)), len(changed))


def round_rows(a_round: Round, method: str, answers: Mapping[tuple[str, str], float]) -> Iterator[TrialRow]:
    """Yield rows for the answers of a forecaster, by the key of the question and of its target."""
    published = dict(_published_events(a_round))
    for question in a_round.questions:
        for target in question.targets:
            probability = answers.get((question.ref.key, target.key))
            if probability is not None:
                event = question_event(round_day(a_round), question, target.key)
                found = published.get(event)
                yield TrialRow(
                    method=method,
                    event=event,
                    day=found.day if found else event.day,
                    forecast=probability,
                    outcome=found.outcome if found else None,
                    price=question_price(question),
                )


def round_day(a_round: Round) -> str:
    """Return the day of a round, which names it in tables."""
    return a_round.as_of.date().isoformat()


def question_event(round_name: str, question: Question, target: str) -> EventKey:
    """Return the event of a question's target in the round of a day."""
    found = question.target(target)
    dated = found.horizon_days is not None and found.resolves_at is not None
    day = found.resolves_at.date().isoformat() if dated and found.resolves_at else ""
    return EventKey(round_name, question.source, question.source_id or question.ref.key, day)


def question_price(question: Question) -> float | None:
    """Return the crowd's probability of a yes-or-no question, if there is one."""
    crowd = question.crowd.prediction if question.crowd else None
    return crowd.probability if isinstance(crowd, BinaryPrediction) else None


def _published_events(a_round: Round) -> Iterator[tuple[EventKey, TrialRow]]:
    questions = {question.ref: question for question in a_round.questions}
    for resolution in a_round.resolutions:
        question = questions.get(resolution.ref)
        if question is None or not isinstance(resolution.outcome, BinaryOutcome):
            continue
        event = question_event(round_day(a_round), question, resolution.target)
        yield (
            event,
            TrialRow(
                method="",
                event=event,
                day=resolution.resolved_at.date().isoformat(),
                forecast=0.5,
                outcome=resolution.outcome.value,
                price=question_price(question),
            ),
        )


def _with_outcome(row: TrialRow, published: TrialRow | None) -> TrialRow:
    if published is None:
        return replace(row, outcome=None)
    price = row.price if row.price is not None else published.price
    return replace(row, outcome=published.outcome, day=published.day, price=price)
