"""What the ledger says about each forecaster: by venue, source and horizon, with intervals and the crowd beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from rich.console import Console

from bot.cli.output.console import Column, Kind, heading, stdout, table
from bot.cli.output.deliver import STDOUT, deliver
from bot.cli.output.figures import NOTHING, interval, number
from bot.cli.output.standings import Standing, standing, standings
from bot.cli.records import read
from bot.clock import SeededRandom
from bot.config.model import Config
from bot.lab.report import report_of
from bot.lab.rows import Row
from bot.store.scores import ScoredRows, ScoreFilter

COLUMNS = (
    Column("n", Kind.NUMBER),
    Column("rate", Kind.NUMBER),
    Column("Index [95 %]"),
    Column("crowd", Kind.NUMBER),
    Column("on", Kind.NUMBER),
    Column("gain over it [95 %]"),
)
NOTHING_SCORED = "nothing that was asked for has resolved yet; look at what is open with: foxcast questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAsked:
    """Which of the recorded forecasts are scored, and where the JSON goes."""

    forecaster: str | None = None
    venue: str | None = None
    since: date | None = None
    json: Path | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored prediction of the ledger: the venue, and the row that reports are made from."""

    venue: str
    row: Row


def score_ledger(config: Config, asked: LedgerAsked) -> None:
    """Score and tell; a ledger without outcomes is no error."""
    chosen = ScoreFilter(venue=asked.venue, forecaster=asked.forecaster, since=_midnight(asked.since))
    columns = read(config, lambda records: records.ledger.scores.table(chosen))
    by_forecaster = rows_by_forecaster(columns)
    if asked.json is not None:
        deliver(_json(config, by_forecaster), asked.json)
    if asked.json != STDOUT:
        console = stdout()
        for name, rows in by_forecaster.items():
            print_standings(console, name, rows, SeededRandom(config.seed))
        if not by_forecaster:
            console.print(NOTHING_SCORED)


def rows_by_forecaster(columns: ScoredRows) -> dict[str, list[Scored]]:
    """Return the scored predictions of each forecaster, by name; those of one series are drawn together."""
    found: dict[str, list[Scored]] = {}
    for index, forecaster in enumerate(columns.forecaster):
        ref = columns.ref[index]
        row = Row(
            round=columns.batch[index] or NOTHING,
            family=columns.family[index],
            source=columns.source[index],
            series=f"{ref.venue}:{columns.source[index]}/{columns.series[index] or ref.key}",
            horizon_days=columns.horizon_days[index],
            probability=columns.probability[index],
            outcome=columns.outcome[index],
            crowd=columns.crowd[index],
        )
        found.setdefault(forecaster, []).append(Scored(ref.venue, row))
    return dict(sorted(found.items()))


def print_total(console: Console, name: str, scored: Sequence[Scored], random: SeededRandom) -> None:
    """Print one table about a forecaster: all its scored predictions together, and by family."""
    heading(console, f"{name}: Brier Index of {len(scored)} resolved predictions (100 is best, 50 is a coin)")
    total = standing([item.row for item in scored], random.stream("all"))
    console.print(_table("", {"all": total, **_groups(scored, random)["family"]}))


def print_standings(console: Console, name: str, scored: Sequence[Scored], random: SeededRandom) -> None:
    """Print all tables about a forecaster."""
    print_total(console, name, scored, random)
    for what, parts in _groups(scored, random).items():
        if what != "family" and parts:
            heading(console, f"By {what}")
            console.print(_table(what, parts))


def _groups(scored: Sequence[Scored], random: SeededRandom) -> dict[str, dict[str, Standing]]:
    keys: dict[str, Callable[[Scored], str | None]] = {
        "family": lambda item: item.row.family or None,
        "venue": lambda item: item.venue,
        "source": lambda item: item.row.source or None,
        "horizon": lambda item: None if item.row.horizon_days is None else str(item.row.horizon_days),
    }
    return {what: standings(_grouped(scored, key), random.stream(what)) for what, key in keys.items()}


def _grouped(scored: Sequence[Scored], key: Callable[[Scored], str | None]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for item in scored:
        if (name := key(item)) is not None:
            groups.setdefault(name, []).append(item.row)
    return groups


def _table(what: str, groups: Mapping[str, Standing]) -> Any:  # noqa: ANN401 - whatever rich prints
    return table((Column(what), *COLUMNS), [(name, *_cells(found)) for name, found in groups.items()])


def _cells(found: Standing) -> tuple[str, ...]:
    span, crowd = found.brier_index, found.crowd
    own = (str(found.n), number(found.base_rate), f"{number(span.estimate)} {interval(span.low, span.high)}")
    if crowd is None:
        return *own, NOTHING, NOTHING, NOTHING
    gain = f"{crowd.gain.estimate:+.2f} {interval(crowd.gain.low, crowd.gain.high)}"
    return *own, number(crowd.crowd_brier_index), str(crowd.n), gain


def _json(config: Config, by_forecaster: Mapping[str, Sequence[Scored]]) -> dict[str, Any]:
    """Return the report of the first forecaster that config names on top, and of every one by name below it."""
    reports = {name: _report(scored, SeededRandom(config.seed)) for name, scored in by_forecaster.items()}
    named = [name for table in config.venues.values() for name in table.forecasters if name in reports]
    first = next(iter([*named, *reports]), None)
    top = reports[first] if first else _report((), SeededRandom(config.seed))
    return {"forecaster": first, **top, "by_forecaster": reports}


def _report(scored: Sequence[Scored], random: SeededRandom) -> dict[str, Any]:
    report = report_of([item.row for item in scored], rng=random.stream("report")).to_json()
    groups = {
        what: {name: asdict(one) for name, one in parts.items()} for what, parts in _groups(scored, random).items()
    }
    return {**report, "standings": groups}


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)
