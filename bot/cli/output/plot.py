"""Pictures of how beliefs moved, as SVG or PNG; the same forecast always gives the same file."""

import io
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from bot.cli.output.fonts import FAMILY, make_legible
from bot.cli.output.panels import LEVELS, Fan, Line, Lines, Panels, panels_of
from bot.cli.output.plain import plain
from bot.domain.forecast import TrialEnd
from bot.errors import ConfigError
from bot.store.forecasts import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

FORMATS = {".svg": "svg", ".png": "png"}
INSTALL = "pip install 'foxcast[report]'"
# Distinct for most kinds of colour blindness. Source: M. A. Petroff, arXiv 2107.02270, ten colours.
COLOURS = ("#3f90da", "#bd1f01", "#832db6", "#94a4a2", "#a96b59", "#e76300", "#717581", "#92dadd", "#ffa90e", "#b9ac70")
MARKERS: Mapping[TrialEnd | None, str] = {
    TrialEnd.FINISHED: "o",
    TrialEnd.STEP_LIMIT: "s",
    TrialEnd.TIME_LIMIT: "D",
    TrialEnd.TOKEN_LIMIT: "^",
    TrialEnd.COST_LIMIT: "v",
    TrialEnd.REPEAT_LIMIT: "<",
    TrialEnd.CONTEXT_LIMIT: ">",
    TrialEnd.FAILED: "X",
    TrialEnd.EMPTY: ".",
    None: ".",
}
TRIALS_NAMED = 8
STEPS_NAMED = 12
TITLE_WIDTH, TITLE_LINES, NAME_WIDTH = 88, 2, 44
GREY, INK = "#6b6b6b", "#222222"
BAND = "#6b6b6b"
DAY_S = 86_400.0
# Trials that believe the same stand side by side.
DODGE = 0.05
SETTINGS: Mapping[Any, Any] = {
    "font.family": FAMILY,
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "axes.axisbelow": True,
    # Two dollar signs in a title are no formula.
    "text.parse_math": False,
    # Text that can be searched and read aloud, and ids that do not depend on chance.
    "svg.fonttype": "none",
    "svg.hashsalt": "foxcast",
}


def require_drawable(path: Path) -> None:
    """Raise ConfigError where the file could not be drawn: another ending than .svg or .png, or no matplotlib."""
    if path.suffix.lower() not in FORMATS:
        message = f"{path}: a plot is an .svg or a .png file; name one that ends so"
        raise ConfigError(message)
    if find_spec("matplotlib") is None:
        message = f"plots need matplotlib, which is not installed; install it with: {INSTALL}"
        raise ConfigError(message)


def draw(trace: Trace, path: Path) -> None:
    """Draw how the belief of a forecast moved; raises ConfigError where that or the file is not possible."""
    require_drawable(path)
    panels = panels_of(trace)
    if not any(panel.lines if isinstance(panel, Lines) else panel.rows for panel in panels.shown):
        message = f"forecast {trace.id} has no step on record, so there is nothing to draw"
        raise ConfigError(message)
    content = _drawn(trace, panels, FORMATS[path.suffix.lower()])
    try:
        path.write_bytes(content)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise ConfigError(message) from error


def _drawn(trace: Trace, panels: Panels, form: str) -> bytes:
    import matplotlib as mpl  # half a second, and an extra

    with mpl.rc_context(), warnings.catch_warnings():
        # An .svg may hold characters of scripts that the font does not have.
        warnings.filterwarnings("ignore", message="Glyph")
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        figure = _figure(trace, panels)
        if form == "png":
            # An .svg is text, and who looks at it has fonts of their own.
            make_legible(figure)
        file = io.BytesIO()
        undated = {"Date": None} if form == "svg" else {"Software": None}
        figure.savefig(file, format=form, dpi=150, metadata=undated)
    return file.getvalue()


def _figure(trace: Trace, panels: Panels) -> "Figure":
    from matplotlib.figure import Figure

    count = len(panels.shown)
    columns = 1 if count == 1 else 2 if count <= 4 else 3
    rows = -(-count // columns)
    width, height = (8.0, 4.2) if columns == 1 else (4.4 * columns, 2.9 * rows)
    figure = Figure(figsize=(width, height + 1.3))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.06)
    shared = any(isinstance(panel, Lines) for panel in panels.shown)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=shared).ravel()
    for axes, panel in zip(grid, panels.shown, strict=False):
        _draw_panel(axes, panel)
    for axes in grid[count:]:
        axes.set_axis_off()
    for axes in grid[max(0, count - columns) : count]:
        axes.set_xlabel("step")
        axes.tick_params(labelbottom=True)
    if shared:
        grid[0].set_ylim(*_range([panel for panel in panels.shown if isinstance(panel, Lines)]))
    _write_title(figure, trace)
    _write_legend(figure, trace, panels)
    return figure


def _draw_panel(axes: "Axes", panel: Lines | Fan) -> None:
    if panel.title:
        axes.set_title(_shortened(panel.title, NAME_WIDTH), loc="left")
    if isinstance(panel, Lines):
        _draw_lines(axes, panel)
    else:
        _draw_fan(axes, panel)


def _draw_lines(axes: "Axes", panel: Lines) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    if panel.crowd is not None:
        axes.axhline(panel.crowd, color=GREY, linestyle="--", linewidth=1.3, zorder=1)
    if panel.answer is not None:
        axes.axhline(panel.answer, color=INK, linestyle=":", linewidth=1.5, zorder=1)
    _draw_trials(axes, panel.lines)
    longest = max((len(line.values) for line in panel.lines), default=1)
    axes.set_xlim(0.7, max(2, longest) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))


def _draw_trials(axes: "Axes", lines: Sequence[Line], *, scale: float = 1.0) -> None:
    for place, (line, colour) in enumerate(zip(lines, cycle(COLOURS), strict=False)):
        aside = min(DODGE, 0.3 / len(lines)) * (place - (len(lines) - 1) / 2)
        steps = [step + aside for step in range(1, len(line.values) + 1)]
        values = [value * scale for value in line.values]
        axes.plot(steps, values, color=colour, linewidth=1.6, marker=".", markersize=4, alpha=0.9)
        axes.plot(steps[-1], values[-1], color=colour, **_ending(line.end))


def _ending(end: TrialEnd | None) -> dict[str, Any]:
    return {
        "marker": MARKERS[end],
        "markersize": 7.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.8,
        "linestyle": "none",
        "zorder": 5,
        "clip_on": False,
    }


def _draw_fan(axes: "Axes", panel: Fan) -> None:
    scale = 1.0 / DAY_S if panel.unit == "date" else 1.0
    rows = [[value * scale for value in row] for row in panel.rows]
    steps: Sequence[float] = range(1, len(rows) + 1)
    if len(rows) == 1:
        # A band needs two ends.
        rows, steps = rows * 2, (0.8, 1.2)
    low, below, _, above, high = zip(*rows, strict=True)
    axes.fill_between(steps, low, high, color=BAND, alpha=0.14, linewidth=0)
    axes.fill_between(steps, below, above, color=BAND, alpha=0.22, linewidth=0)
    _draw_trials(axes, panel.lines, scale=scale)
    last = len(panel.rows) + 1
    if panel.crowd is not None:
        axes.axhline(panel.crowd * scale, color=GREY, linestyle="--", linewidth=1.3)
    if panel.answer is not None:
        ends = [value * scale for value in panel.answer]
        axes.plot([last, last], [ends[0], ends[-1]], color=INK, linewidth=1.2)
        axes.plot([last, last], [ends[1], ends[-2]], color=INK, linewidth=5, solid_capstyle="butt")
        axes.plot([last], [ends[2]], color="white", marker="o", markersize=5, markeredgecolor=INK)
    axes.set_xlim(0.6, last + 0.4)
    named = range(1, last, -(-last // STEPS_NAMED))
    end = {} if panel.answer is None else {last: "forecast"}
    axes.set_xticks([*named, *end], [*map(str, named), *end.values()])
    if panel.unit == "date":
        axes.yaxis_date("UTC")
    elif panel.unit:
        axes.set_ylabel(_shortened(panel.unit, NAME_WIDTH))


def _range(panels: Sequence[Lines]) -> tuple[float, float]:
    """Return the part of 0 to 1 in which everything lies: all of it, unless it is a small one at an end."""
    values = [value for panel in panels for line in panel.lines for value in line.values]
    values += [value for panel in panels for value in (panel.crowd, panel.answer) if value is not None]
    for edge in (0.05, 0.2, 0.5):
        if max(values) <= 0.9 * edge:
            return -0.02 * edge, edge
        if min(values) >= 1.0 - 0.9 * edge:
            return 1.0 - edge, 1.0 + 0.02 * edge
    return -0.02, 1.02


def _write_title(figure: "Figure", trace: Trace) -> None:
    title = " ".join(plain(trace.question.title).split())
    # Some scripts have characters of double width, and no spaces.
    width = max(1, TITLE_WIDTH * len(title) // max(1, cell_len(title)))
    lines = textwrap.wrap(title, min(width, TITLE_WIDTH)) or [str(trace.question.ref)]
    if len(lines) > TITLE_LINES:
        lines = [*lines[: TITLE_LINES - 1], f"{lines[TITLE_LINES - 1].rstrip()} ..."]
    figure.suptitle("\n".join(lines), x=0.02, ha="left", fontsize=11, fontweight="bold")


def _write_legend(figure: "Figure", trace: Trace, panels: Panels) -> None:
    by = f"{trace.forecast.forecaster}, " if trace.forecast else ""
    more = f"; {panels.left_out} more not shown" if panels.left_out else ""
    handles = list(_handles(trace, panels))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 4 if isinstance(panels.shown[0], Lines) else 3),
        frameon=False,
        fontsize=8,
        title=f"{_shortened(f'{by}forecast {trace.id} of {trace.question.ref}', TITLE_WIDTH)}{more}",
        title_fontproperties={"size": 7.5},
        alignment="left",
    )


def _handles(trace: Trace, panels: Panels) -> "Iterator[Line2D]":
    from matplotlib.lines import Line2D

    first = panels.shown[0]
    what = "" if isinstance(first, Lines) else "median of "
    for line, colour in zip(first.lines[:TRIALS_NAMED], cycle(COLOURS), strict=False):
        ended = line.end or "not ended"
        marker = _ending(line.end) | {"linestyle": "-"}
        yield Line2D([], [], color=colour, label=f"{what}trial {line.trial} ({ended})", **marker)
    if len(first.lines) > TRIALS_NAMED:
        yield Line2D([], [], linestyle="none", label=f"and {len(first.lines) - TRIALS_NAMED} more trials")
    if isinstance(first, Lines):
        answer = Line2D([], [], color=INK, linestyle=":", label="forecast")
    else:
        of = " of the mean trial" if len(trace.trials) > 1 else ""
        yield Line2D([], [], color=BAND, alpha=0.36, linewidth=7, label=f"{LEVELS[1]:.0%} to {LEVELS[-2]:.0%}{of}")
        yield Line2D([], [], color=BAND, alpha=0.14, linewidth=7, label=f"{LEVELS[0]:.0%} to {LEVELS[-1]:.0%}{of}")
        answer = Line2D([], [], color=INK, linewidth=3, marker="o", markerfacecolor="white", label="forecast")
    if first.answer is not None:
        yield answer
    if first.crowd is not None:
        yield Line2D([], [], color=GREY, linestyle="--", label="crowd")


def _shortened(text: str, width: int) -> str:
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= width else f"{flat[: width - 3].rstrip()}..."
