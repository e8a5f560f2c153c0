"""A plot of a report on tables of trials: calibration of the main methods, and the indices with their intervals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bot.cli.output.belief_plot import TRIAL_COLOURS, write_figure
from bot.evaluation.report_tables import ReportCell
from bot.evaluation.score_report import DATASET_FAMILY, MARKET_FAMILY, ScoreInterval
from bot.evaluation.trial_report import TrialReport
from bot.evaluation.trial_scores import MEAN_INDEX, forecasts_with_outcomes
from bot.evaluation.trial_table import CROWD_METHOD, TrialTable
from bot.stats.calibration import ReliabilityBins, equal_mass_bins
from bot.stats.ranking import trace_ranking_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ForecastPairs = Mapping[str, tuple[Sequence[float], Sequence[float]]]
# More lines hide one another.
MAX_METHODS_DRAWN = 6


def draw_trial_report(report: TrialReport, path: Path) -> None:
    """Draw calibration and ranking curves of up to six methods, and the Brier Index of all with intervals."""
    write_figure(lambda: _build_figure(report), path)


def _build_figure(report: TrialReport) -> "Figure":
    from matplotlib.figure import Figure

    scores = next(table for table in report.tables if table.key == "scores")
    figure = Figure(figsize=(11.0, 4.5 + max(4.5, 1.5 + 0.28 * len(scores.rows))))
    figure.set_layout_engine("constrained")
    (left, right), (receiver, precision) = figure.subplots(2, 2)
    pairs = {name: forecasts_with_outcomes(report.trials, name) for name in report.trials.by_method}
    _draw_reliability(left, {name: equal_mass_bins(*pair) for name, pair in pairs.items() if len(pair[0])})
    _draw_ranking_curves(receiver, precision, pairs, _crowd_pair(report.trials))
    rows = [(str(row["method"]), _main_index(row)) for row in scores.rows]
    for place, (_, cell) in enumerate(rows):
        if isinstance(cell, ScoreInterval) and cell.low is not None and cell.high is not None:
            right.plot([cell.low, cell.high], [place, place], color=TRIAL_COLOURS[0], linewidth=2.0)
            right.plot([cell.estimate], [place], "o", color=TRIAL_COLOURS[1])
        elif isinstance(cell, ScoreInterval):
            right.plot([cell.estimate], [place], "o", color=TRIAL_COLOURS[1])
    right.set_yticks(range(len(rows)), [name for name, _ in rows])
    right.invert_yaxis()
    right.set_title("Brier Index with 95 % interval by blocks")
    return figure


def _crowd_pair(table: TrialTable) -> tuple[Sequence[float], Sequence[float]]:
    """Return the prices of resolved events, and their outcomes."""
    events = [event for event in table.prices if event in table.resolved]
    return [table.prices[event] for event in events], [table.resolved[event].outcome or 0.0 for event in events]


def _draw_ranking_curves(
    receiver: "Axes", precision: "Axes", pairs: ForecastPairs, crowd: tuple[Sequence[float], Sequence[float]]
) -> None:
    """Draw the receiver operating characteristic, and precision over recall, of up to six methods and the crowd."""
    coloured = dict(zip([*pairs][-MAX_METHODS_DRAWN:], TRIAL_COLOURS, strict=False))
    for name, (forecasts, outcomes) in {**{name: pairs[name] for name in coloured}, CROWD_METHOD: crowd}.items():
        if set(outcomes) != {0.0, 1.0}:
            continue
        curves = trace_ranking_curves(forecasts, outcomes)
        colour, dashes = coloured.get(name, "black"), "-" if name in coloured else ":"
        receiver.plot(
            [0.0, *curves.false_alarms], [0.0, *curves.recall], dashes, color=colour, linewidth=1.0, label=name
        )
        precision.plot(curves.recall, curves.precision, dashes, color=colour, linewidth=1.0, label=name)
    receiver.plot([0.0, 1.0], [0.0, 1.0], color="#6b6b6b", linewidth=1.0, label="chance")
    for axes, title, across, up in (
        (receiver, "Receiver operating characteristic", "share of false alarms", "recall"),
        (precision, "Precision and recall", "recall", "precision"),
    ):
        axes.set_title(title)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.legend(fontsize=7.0)


def _main_index(row: Mapping[str, ReportCell]) -> ReportCell:
    return next((row[key] for key in (MEAN_INDEX, MARKET_FAMILY, DATASET_FAMILY) if key in row), None)


def draw_calibration(table: TrialTable, path: Path) -> None:
    """Draw the calibration of the methods of a table."""
    pairs = {name: forecasts_with_outcomes(table, name) for name in table.by_method}
    draw_reliability_plot({name: equal_mass_bins(*pair) for name, pair in pairs.items() if len(pair[0])}, path)


def draw_reliability_plot(bins: Mapping[str, ReliabilityBins], path: Path) -> None:
    """Draw how often what forecasts of each bin said came true, by name."""

    def build() -> "Figure":
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.5, 4.8))
        figure.set_layout_engine("constrained")
        _draw_reliability(figure.subplots(), bins)
        return figure

    write_figure(build, path)


def _draw_reliability(axes: "Axes", bins: Mapping[str, ReliabilityBins]) -> None:
    """Draw the bins of up to six."""
    axes.plot([0.0, 1.0], [0.0, 1.0], color="#6b6b6b", linewidth=1.0, label="perfect")
    for name, colour in zip([*bins][-MAX_METHODS_DRAWN:], TRIAL_COLOURS, strict=False):
        own = bins[name]
        axes.plot(own.mean_forecast, own.event_rate, "o-", color=colour, markersize=3.0, linewidth=1.0, label=name)
    axes.set_xlabel("forecast")
    axes.set_ylabel("share that came true")
    axes.set_title("Calibration")
    axes.legend(fontsize=7.0)
