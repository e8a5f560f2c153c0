"""What the ledger says about each forecaster: by venue, source and horizon, with intervals and the crowd beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from rich.console import Console

from bot.app import Records
from bot.cli.output.console import Column, Kind, heading, stdout, table
from bot.cli.output.deliver import STDOUT, deliver
from bot.cli.output.figures import NOTHING, interval, number
from bot.cli.output.report import print_kinds
from bot.cli.output.standings import Standing, standing, standings
from bot.cli.output.venue_scores import print_unscored, print_venue_scores, venue_json
from bot.cli.records import read
from bot.clock import SeededRandom
from bot.config.model import Config
from bot.domain.score import CROWD
from bot.lab.kinds import kinds_of
from bot.lab.report import report_of
from bot.lab.rows import Graded, Row
from bot.store.scores import Marked, ScoredRows, ScoreFilter
from bot.store.venue_scores import ToldStanding, Unscored, VenueScored

COLUMNS = (
    Column("n", Kind.NUMBER),
    Column("rate", Kind.NUMBER),
    Column("Index [95 %]"),
    Column("crowd", Kind.NUMBER),
    Column("on", Kind.NUMBER),
    Column("gain over it [95 %]"),
)
# What venues score, how accounts stand there, and what has no score of ours.
Told = tuple[list[VenueScored], list[ToldStanding], list[Unscored]]
NOTHING_SCORED = "nothing that was asked for has resolved yet; look at what is open with: foxcast questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAsked:
    """Which of the recorded forecasts are scored, and where the JSON goes."""

    forecaster: str | None = None
    venue: str | None = None
    since: date | None = None
    paper: bool | None = None
    json: Path | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored prediction of the ledger: the venue, and the row that reports are made from."""

    venue: str
    row: Row


def score_ledger(config: Config, asked: LedgerAsked) -> None:
    """Score and tell; a ledger without outcomes is no error."""
    since = _midnight(asked.since)
    chosen = ScoreFilter(venue=asked.venue, forecaster=asked.forecaster, since=since, paper=asked.paper)
    columns, marked, told = read(config, lambda records: _scores(records, chosen))
    by_forecaster, graded = rows_by_forecaster(columns), graded_by_forecaster(marked)
    if asked.json is not None:
        deliver({**_json(config, by_forecaster, graded), **venue_json(*told)}, asked.json)
    if asked.json == STDOUT:
        return
    console = stdout()
    for name, rows in by_forecaster.items():
        print_standings(console, name, rows, SeededRandom(config.seed))
    for name, others in graded.items():
        print_kinds(console, kinds_of(others, rng=SeededRandom(config.seed).stream("kinds")), whose=f"{name}: ")
    scored, standings, unscored = told
    print_venue_scores(console, scored, standings)
    print_unscored(console, unscored)
    if not (by_forecaster or graded or scored or standings or unscored):
        console.print(NOTHING_SCORED)


async def _scores(records: Records, chosen: ScoreFilter) -> tuple[ScoredRows, tuple[Marked, ...], Told]:
    scores, venues = records.ledger.scores, records.ledger.venue_scores
    standings = [] if chosen.paper else await venues.standings(chosen.venue)
    told = (await venues.scored(chosen), standings, await venues.unscored(chosen))
    return await scores.table(chosen), await scores.marked(chosen), told


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


def graded_by_forecaster(marked: Sequence[Marked]) -> dict[str, list[Graded]]:
    """Return the scored choices and curves of each forecaster, by name."""
    found: dict[str, list[Graded]] = {}
    for item in marked:
        row = Graded(
            round=item.batch or NOTHING,
            kind=item.kind,
            family=item.family,
            source=item.source,
            series=f"{item.ref.venue}:{item.source}/{item.series or item.ref.key}",
            horizon_days=item.horizon_days,
            marks={rule: value for rule, value in item.values.items() if not rule.startswith(CROWD)},
            crowd={rule.removeprefix(CROWD): value for rule, value in item.values.items() if rule.startswith(CROWD)},
        )
        if row.marks:
            found.setdefault(item.forecaster, []).append(row)
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


def _json(
    config: Config, by_forecaster: Mapping[str, Sequence[Scored]], graded: Mapping[str, Sequence[Graded]]
) -> dict[str, Any]:
    """Return the report of the first forecaster that config names on top, and of every one by name below it."""
    reports = {
        name: _report(by_forecaster.get(name, ()), SeededRandom(config.seed), graded.get(name, ()))
        for name in sorted({*by_forecaster, *graded})
    }
    named = [name for table in config.venues.values() for name in table.everyone if name in reports]
    first = next(iter([*named, *reports]), None)
    top = reports[first] if first else _report((), SeededRandom(config.seed))
    return {"forecaster": first, **top, "by_forecaster": reports}


def _report(scored: Sequence[Scored], random: SeededRandom, graded: Sequence[Graded] = ()) -> dict[str, Any]:
    report = report_of([item.row for item in scored], graded=graded, rng=random.stream("report")).to_json()
    groups = {
        what: {name: asdict(one) for name, one in parts.items()} for what, parts in _groups(scored, random).items()
    }
    return {**report, "standings": groups}


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)
