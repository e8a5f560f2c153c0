"""The final report of the demo: scores against the crowd, calibration, profit, and commands to try next."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from bot.cli.output.console import ColumnKind, TableColumn, make_table, print_heading
from bot.core.clock import SeededRandom
from bot.core.light_dataclass import dataclass
from bot.core.submissions import ExecutionMode
from bot.evaluation.account_holdings import load_portfolio
from bot.evaluation.ledger_scores import rows_by_forecaster
from bot.evaluation.score_report import RESAMPLES
from bot.evaluation.value_text import NO_VALUE, format_number
from bot.simulator.demo.configuration import CONFIG, REAL_CONFIG
from bot.stats.arrays import encode_keys
from bot.stats.bootstrap import ConfidenceInterval, method_differences, resample_means
from bot.stats.calibration import equal_width_bins
from bot.stats.scores import brier_scores
from bot.store.scores import ScoreFilter

if TYPE_CHECKING:
    from rich.console import Console

    from bot.evaluation.score_rows import BinaryScoreRow
    from bot.simulator.demo.configuration import DemoPlan
    from bot.store.ledger import ReadOnlyState

BINS = 5
CROWD = "crowd"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCORE_COLUMNS = (
    TableColumn("forecaster"),
    TableColumn("n", ColumnKind.NUMBER),
    TableColumn("Brier", ColumnKind.NUMBER),
    TableColumn("beside", ColumnKind.TEXT),
    TableColumn("on", ColumnKind.NUMBER),
    TableColumn("its Brier", ColumnKind.NUMBER),
    TableColumn("difference [95 %]"),
)
_BIN_COLUMNS = (
    TableColumn("forecaster"),
    TableColumn("said"),
    TableColumn("n", ColumnKind.NUMBER),
    TableColumn("mean", ColumnKind.NUMBER),
    TableColumn("came true", ColumnKind.NUMBER),
)
_MONEY_COLUMNS = (
    TableColumn("venue"),
    TableColumn("mode"),
    TableColumn("begun with", ColumnKind.NUMBER),
    TableColumn("now", ColumnKind.NUMBER),
    TableColumn("gain", ColumnKind.NUMBER),
    TableColumn("currency"),
    TableColumn("standing", ColumnKind.NUMBER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrierComparison:
    """A forecaster and another one on the same questions: Brier scores, and the difference with its interval."""

    forecaster: str
    n: int
    brier: float
    opponent: str
    shared_targets: int
    theirs: float
    difference: ConfidenceInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCalibrationBin:
    """Predictions of similar size: from ``lower`` to ``upper``, their mean, and the share that came true."""

    forecaster: str
    lower: float
    upper: float
    n: int
    mean: float
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoAccount:
    """An account's amounts at its first reading and now; None where it was not read yet.

    An account where only forecasts count holds no ``money``. ``standing`` is the number of positions or forecasts in
    force.
    """

    venue: str
    mode: str
    money: bool
    begun: float | None
    now: float | None
    currency: str
    standing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFigures:
    """The whole report."""

    compared: tuple[BrierComparison, ...]
    bins: tuple[DemoCalibrationBin, ...]
    accounts: tuple[DemoAccount, ...]


async def compute_figures(
    records: ReadOnlyState, forecasters: tuple[str, str], now: datetime, *, money: Collection[str]
) -> DemoFigures:
    """Compute the report from the ledger; ``money`` names the venues whose accounts hold some."""
    scored = rows_by_forecaster(await records.ledger.scores.read_binary_columns(ScoreFilter()))
    rows = {name: [one.row for one in scored.get(name, ())] for name in forecasters}
    random = SeededRandom(records.config.seed)
    return DemoFigures(
        compared=tuple(_compare_forecasters(rows, forecasters, random)),
        bins=tuple(one for name, found in rows.items() for one in _calibration_bins(name, found)),
        accounts=await _demo_accounts(records, now, money),
    )


def _compare_forecasters(
    rows: Mapping[str, Sequence[BinaryScoreRow]], names: tuple[str, str], random: SeededRandom
) -> list[BrierComparison]:
    found = []
    for name in names:
        beside = [row for row in rows[name] if row.crowd is not None]
        if beside:
            found.append(_compare_pair(name, rows[name], (CROWD, beside, [row.crowd or 0.0 for row in beside]), random))
    first, other = names
    known = {_target_key(row): row.probability for row in rows[other]}
    same = [row for row in rows[first] if _target_key(row) in known]
    if same:
        found.append(
            _compare_pair(first, rows[first], (other, same, [known[_target_key(row)] for row in same]), random)
        )
    return found


def _target_key(row: BinaryScoreRow) -> tuple[object, ...]:
    return (row.series, row.round, row.horizon_days)


def _compare_pair(
    name: str,
    rows: Sequence[BinaryScoreRow],
    beside: tuple[str, Sequence[BinaryScoreRow], Sequence[float]],
    random: SeededRandom,
) -> BrierComparison:
    import numpy as np  # noqa: PLC0415 - needed here alone

    other, same, theirs = beside
    outcomes = [row.outcome for row in same]
    scores = {
        name: brier_scores([row.probability for row in same], outcomes),
        other: brier_scores(theirs, outcomes),
    }
    drawn = resample_means(
        np.column_stack([*scores.values()]),
        [*scores],
        resamples=RESAMPLES,
        rng=random.stream("demo", name, other),
        clusters=encode_keys(row.series for row in same).codes,
    )
    (gap,) = method_differences(drawn, other)
    own = brier_scores([row.probability for row in rows], [row.outcome for row in rows])
    return BrierComparison(
        forecaster=name,
        n=len(rows),
        brier=float(own.mean()),
        opponent=other,
        shared_targets=len(same),
        theirs=float(scores[other].mean()),
        difference=gap.interval,
    )


def _calibration_bins(name: str, rows: Sequence[BinaryScoreRow]) -> list[DemoCalibrationBin]:
    if not rows:
        return []
    bins = equal_width_bins([row.probability for row in rows], [row.outcome for row in rows], BINS)
    columns = zip(bins.lower, bins.upper, bins.rows, bins.mean_forecast, bins.event_rate, strict=True)
    return [
        DemoCalibrationBin(
            forecaster=name, lower=float(low), upper=float(high), n=int(n), mean=float(mean), rate=float(rate)
        )
        for low, high, n, mean, rate in columns
    ]


async def _demo_accounts(records: ReadOnlyState, now: datetime, money: Collection[str]) -> tuple[DemoAccount, ...]:
    known = {one.venue: one for one in await load_portfolio(records, None, now)}
    accounts = []
    for venue in records.config.venues:
        mode, one = records.config.mode_of(venue), known.get(venue)
        account = None if one is None else one.account
        name = records.config.venues[venue].account
        read = await records.ledger.readings.since(venue, name, EPOCH, paper=mode is ExecutionMode.PAPER)
        held = 0 if one is None else one.standing if account is None else len(one.positions)
        accounts.append(
            DemoAccount(
                venue=venue,
                mode=mode.value,
                money=venue in money,
                begun=read[0].equity if read else None,
                now=None if account is None else account.equity,
                currency="" if account is None else account.currency,
                standing=held,
            )
        )
    return tuple(accounts)


def print_figures(console: Console, found: DemoFigures, *, early: bool = False) -> None:
    """Print the tables, without those that have no rows; more days help only a demo that did not end ``early``."""
    if not found.compared:
        advice = "" if early else "; give it more days with --days"
        console.print(f"\nnothing has resolved yet, so there are no scores{advice}")
    else:
        print_heading(console, "Scores: Brier, less is better; a difference below 0 is a gain over the other")
        console.print(make_table(_SCORE_COLUMNS, [_score_cells(one) for one in found.compared]))
        print_heading(console, "Calibration: predictions, and how often they came true")
        console.print(make_table(_BIN_COLUMNS, [_bin_cells(one) for one in found.bins]))
    if found.accounts:
        print_heading(console, "Profit and loss")
        console.print(make_table(_MONEY_COLUMNS, [_money_cells(one) for one in found.accounts]))


def print_next_commands(console: Console, plan: DemoPlan, program: str, example: str) -> None:
    """Print commands that show more, ready to be typed."""
    ours, real = (f"{program} --config {shlex.quote(str(path))}" for path in (plan.folder / CONFIG, REAL_CONFIG))
    shown = shlex.quote(example) if example else "QUESTION"
    print_heading(console, "Look further")
    for arguments, words in (
        ("questions", "the questions"),
        (f"show {shown}", "one question: every forecast, the decisions, the outcome"),
        (f"explain {shown}", "one forecast: each step and its sources"),
        ("score", "all scores, by venue, source and horizon"),
        ("portfolio", "what each account has"),
        ("audit verify", "the record of permissions and submissions"),
        ("web", "all of it in a browser; foxcast demo --web shows it at once"),
    ):
        console.print(Text(f"  {ours} {arguments}", style="bold"), soft_wrap=True)
        console.print(Text(f"      {words}", style="dim"), soft_wrap=True)
    print_heading(console, "The same at the real venues, on paper")
    for line in (
        f"cp {shlex.quote(str(plan.folder / REAL_CONFIG))} {REAL_CONFIG}",
        f"{real} doctor",
        f"{real} run --once",
    ):
        console.print(Text(f"  {line}", style="bold"), soft_wrap=True)
    words = "this configuration with the real addresses; it says where keys and a model belong"
    console.print(Text(f"      {words}", style="dim"), soft_wrap=True)


def _score_cells(one: BrierComparison) -> tuple[str, ...]:
    gap = one.difference
    difference = f"{gap.estimate:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
    return (
        one.forecaster,
        str(one.n),
        format_number(one.brier, 3),
        one.opponent,
        str(one.shared_targets),
        format_number(one.theirs, 3),
        difference,
    )


def _bin_cells(one: DemoCalibrationBin) -> tuple[str, ...]:
    bounds = f"{100.0 * one.lower:.0f} to {100.0 * one.upper:.0f}%"
    return one.forecaster, bounds, str(one.n), f"{100.0 * one.mean:.0f}%", f"{100.0 * one.rate:.0f}%"


def _money_cells(one: DemoAccount) -> tuple[str, ...]:
    if one.begun is None or one.now is None:
        what = "not read yet" if one.money else "no money"
        return one.venue, one.mode, NO_VALUE, NO_VALUE, NO_VALUE, what, str(one.standing)
    gain = f"{one.now - one.begun:+.2f}"
    return one.venue, one.mode, format_number(one.begun), format_number(one.now), gain, one.currency, str(one.standing)
