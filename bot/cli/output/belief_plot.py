"""Plots of how beliefs moved over the steps of a forecast, as SVG or PNG.

The same forecast always gives the same file. Characters that the plot font lacks are drawn with other installed fonts,
or as escapes.
"""

import io
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from rich.cells import cell_len

from bot.core.distributions import clamped_quantile
from bot.core.errors import ConfigError
from bot.core.forecasts import TrialEnd
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import SINGLE_TARGET
from bot.core.redaction import redact_known_secrets
from bot.store.forecasts import ForecastTrace
from bot.store.trials import TrialRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry
    from matplotlib.lines import Line2D
    from matplotlib.text import Text


log = structlog.get_logger(__name__)

DEFAULT_FONT = "DejaVu Sans"
# This font has a box for every character.
LAST_RESORT_FONT = "Last Resort"
REGULAR_WEIGHT = 400
LINE_WIDTH, MAX_TITLE_LINES = 88, 2

MAX_OPTIONS_SHOWN = 6


MAX_PANELS_SHOWN = 12


QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLine:
    """The belief of one trial after each of its steps, as a probability or a median, and how it ended."""

    trial: int
    end: TrialEnd | None
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbabilityPanel:
    """A panel of probabilities over steps, with those of the crowd and the forecast if there are any."""

    title: str
    lines: tuple[TrialLine, ...]
    crowd: float | None
    answer: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantilePanel:
    """A panel of the quantiles of the mean belief of all trials after each step, and the medians of each trial.

    ``crowd`` is the median of the crowd, ``answer`` the quantiles of the forecast; values beyond the grid are drawn at
    its end.
    """

    title: str
    unit: str
    rows: tuple[tuple[float, ...], ...]
    lines: tuple[TrialLine, ...]
    crowd: float | None
    answer: tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotPanels:
    """All panels of a plot; ``left_out`` counts the panels without room."""

    shown: tuple[ProbabilityPanel | QuantilePanel, ...]
    left_out: int = 0


def plot_panels(trace: ForecastTrace) -> PlotPanels:
    """Return the panels of a forecast: one for each target, or for each option of a choice."""
    every = tuple(_all_panels(trace))
    options = len(trace.question.shape.options) if isinstance(trace.question.shape, ChoiceShape) else 0
    hidden = max(0, options - MAX_OPTIONS_SHOWN) * len(trace.question.targets)
    return PlotPanels(shown=every[:MAX_PANELS_SHOWN], left_out=hidden + max(0, len(every) - MAX_PANELS_SHOWN))


def _all_panels(trace: ForecastTrace) -> Iterator[ProbabilityPanel | QuantilePanel]:
    records = [record for record in trace.trials if record.steps]
    crowd = trace.question.crowd.prediction if trace.question.crowd else None
    for target in [target.key for target in trace.question.targets]:
        title = "" if target == SINGLE_TARGET else target
        answer = trace.forecast.predictions[target] if trace.forecast else None
        match trace.question.shape:
            case CurveShape() as shape:
                curves = {record.number: _curves_of_target(record, target) for record in records}
                ends = {record.number: record.end for record in records}
                yield _quantile_panel(title, curves, shape, ends=ends, others=(crowd, answer))
            case ChoiceShape(options=options):
                last = [record.steps[-1].step.belief.predictions[target] for record in records]
                for option in _likeliest_options(options, [answer] if answer else last):
                    named = f"{title}: {option}" if title else option
                    yield _probability_panel(named, records, target, option=option, others=(crowd, answer))
            case _:
                yield _probability_panel(title, records, target, option="", others=(crowd, answer))


def _probability_panel(
    title: str,
    records: Sequence[TrialRecord],
    target: str,
    *,
    option: str,
    others: tuple[Prediction | None, Prediction | None],
) -> ProbabilityPanel:
    crowd, answer = (_option_probability(one, option) if one else None for one in others)
    lines = (
        TrialLine(
            trial=record.number,
            end=record.end,
            values=tuple(
                _option_probability(logged.step.belief.predictions[target], option) for logged in record.steps
            ),
        )
        for record in records
    )
    return ProbabilityPanel(title=title, lines=tuple(lines), crowd=crowd, answer=answer)


def _option_probability(prediction: Prediction, option: str) -> float:
    match prediction:
        case BinaryPrediction(probability=probability):
            return probability
        case ChoicePrediction(probabilities=options):
            return options[option]
        case _:
            message = f"a {prediction.kind} prediction has no probability of its own"
            raise TypeError(message)


def _likeliest_options(options: Sequence[str], predictions: Sequence[Prediction]) -> list[str]:
    """Return the likeliest options, as many as are shown, in the order of the question."""
    shares: Mapping[str, float] = {
        option: sum(_option_probability(prediction, option) for prediction in predictions) for option in options
    }
    chosen = {*sorted(options, key=lambda option: -shares[option])[:MAX_OPTIONS_SHOWN]}
    return [option for option in options if option in chosen]


def _curves_of_target(record: TrialRecord, target: str) -> list[CurvePrediction]:
    found = (logged.step.belief.predictions[target] for logged in record.steps)
    return [curve for curve in found if isinstance(curve, CurvePrediction)]


def _quantile_panel(
    title: str,
    trials: Mapping[int, Sequence[CurvePrediction]],
    shape: CurveShape,
    *,
    ends: Mapping[int, TrialEnd | None],
    others: tuple[Prediction | None, Prediction | None],
) -> QuantilePanel:
    crowd, answer = others
    longest = max((len(curves) for curves in trials.values()), default=0)
    # A trial that has ended keeps its last belief.
    means = [_mean_curve([curves[min(step, len(curves) - 1)] for curves in trials.values()]) for step in range(longest)]
    medians = {
        number: tuple(clamped_quantile(curve, shape, 0.5) for curve in curves) for number, curves in trials.items()
    }
    return QuantilePanel(
        title=title,
        unit=shape.unit,
        rows=tuple(_curve_quantiles(curve, shape) for curve in means),
        lines=tuple(TrialLine(trial=number, end=ends[number], values=values) for number, values in medians.items()),
        crowd=clamped_quantile(crowd, shape, 0.5) if isinstance(crowd, CurvePrediction) else None,
        answer=_curve_quantiles(answer, shape) if isinstance(answer, CurvePrediction) else None,
    )


def _mean_curve(curves: Sequence[CurvePrediction]) -> CurvePrediction:
    means = [sum(values) / len(values) for values in zip(*(curve.cdf for curve in curves), strict=True)]
    # Rounding may make the mean of increasing curves decrease in the last digit.
    running, top = [], 0.0
    for mean in means:
        top = min(1.0, max(top, mean))
        running.append(top)
    return CurvePrediction(tuple(running))


def _curve_quantiles(curve: CurvePrediction, shape: CurveShape) -> tuple[float, ...]:
    return tuple(clamped_quantile(curve, shape, level) for level in QUANTILE_LEVELS)


FILE_FORMATS = {".svg": "svg", ".png": "png"}


INSTALL_COMMAND = "make plots (in a copy of the repository), else pip install 'foxcast[plots]'"


# Distinct for most kinds of colour blindness. Source: M. A. Petroff, arXiv 2107.02270, ten colours.
TRIAL_COLOURS = (
    "#3f90da",
    "#bd1f01",
    "#832db6",
    "#94a4a2",
    "#a96b59",
    "#e76300",
    "#717581",
    "#92dadd",
    "#ffa90e",
    "#b9ac70",
)


END_MARKERS: Mapping[TrialEnd | None, str] = {
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


MAX_TRIALS_NAMED = 8


MAX_STEPS_NAMED = 12


TITLE_WIDTH, TITLE_LINES, NAME_WIDTH = 88, 2, 44


CROWD_COLOUR, FORECAST_COLOUR = "#6b6b6b", "#222222"


BAND_COLOUR = "#6b6b6b"


DAY_S = 86_400.0


# Trials with equal beliefs are drawn side by side.
TRIAL_OFFSET = 0.05


MATPLOTLIB_SETTINGS: Mapping[Any, Any] = {
    "font.family": DEFAULT_FONT,
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "axes.axisbelow": True,
    # Dollar signs in a title are not a formula.
    "text.parse_math": False,
    # Text stays searchable and accessible, and ids are deterministic.
    "svg.fonttype": "none",
    "svg.hashsalt": "foxcast",
}


def require_plot_file(path: Path) -> None:
    """Raise ConfigError if the plot cannot be drawn: neither .svg nor .png, or matplotlib is not installed."""
    if path.suffix.lower() not in FILE_FORMATS:
        message = f"{path}: a plot is an .svg or .png file; name a file with that ending"
        raise ConfigError(message)
    if find_spec("matplotlib") is None:
        message = f"plots need matplotlib, which is not installed; install it with: {INSTALL_COMMAND}"
        raise ConfigError(message)


def draw_beliefs(trace: ForecastTrace, path: Path) -> None:
    """Draw how the belief of a forecast moved; raises ConfigError if there is nothing to draw or the file fails."""
    require_plot_file(path)
    panels = plot_panels(trace)
    if not any(panel.lines if isinstance(panel, ProbabilityPanel) else panel.rows for panel in panels.shown):
        message = f"forecast {trace.id} has no recorded step, so there is nothing to draw"
        raise ConfigError(message)
    write_figure(lambda: _build_figure(trace, panels), path)


def write_figure(build: Callable[[], "Figure"], path: Path) -> None:
    """Draw a figure with the settings of all plots and write it; raises ConfigError if the file fails."""
    require_plot_file(path)
    content = _render_figure(build, FILE_FORMATS[path.suffix.lower()])
    try:
        path.write_bytes(content)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise ConfigError(message) from error


def _render_figure(build: Callable[[], "Figure"], file_format: str) -> bytes:
    import matplotlib as mpl  # half a second, and an extra

    with mpl.rc_context(), warnings.catch_warnings():
        # An .svg may hold characters of scripts that the font does not have.
        warnings.filterwarnings("ignore", message="Glyph")
        mpl.rcdefaults()
        mpl.rcParams.update(MATPLOTLIB_SETTINGS)
        figure = build()
        if file_format == "png":
            # An .svg contains text, drawn with the fonts of the viewer.
            apply_fallback_fonts(figure)
        file = io.BytesIO()
        undated = {"Date": None} if file_format == "svg" else {"Software": None}
        figure.savefig(file, format=file_format, dpi=150, metadata=undated)
    return file.getvalue()


def _build_figure(trace: ForecastTrace, panels: PlotPanels) -> "Figure":
    from matplotlib.figure import Figure

    count = len(panels.shown)
    columns = 1 if count == 1 else 2 if count <= 4 else 3
    rows = -(-count // columns)
    width, height = (8.0, 4.2) if columns == 1 else (4.4 * columns, 2.9 * rows)
    figure = Figure(figsize=(width, height + 1.3))
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.06)
    shared = any(isinstance(panel, ProbabilityPanel) for panel in panels.shown)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=shared).ravel()
    for axes, panel in zip(grid, panels.shown, strict=False):
        _draw_panel(axes, panel)
    for axes in grid[count:]:
        axes.set_axis_off()
    for axes in grid[max(0, count - columns) : count]:
        axes.set_xlabel("step")
        axes.tick_params(labelbottom=True)
    if shared:
        grid[0].set_ylim(*_probability_range([panel for panel in panels.shown if isinstance(panel, ProbabilityPanel)]))
    _write_title(figure, trace)
    _write_legend(figure, trace, panels)
    return figure


def _draw_panel(axes: "Axes", panel: ProbabilityPanel | QuantilePanel) -> None:
    if panel.title:
        axes.set_title(_shorten_text(panel.title, NAME_WIDTH), loc="left")
    if isinstance(panel, ProbabilityPanel):
        _draw_probabilities(axes, panel)
    else:
        _draw_quantiles(axes, panel)


def _draw_probabilities(axes: "Axes", panel: ProbabilityPanel) -> None:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    if panel.crowd is not None:
        axes.axhline(panel.crowd, color=CROWD_COLOUR, linestyle="--", linewidth=1.3, zorder=1)
    if panel.answer is not None:
        axes.axhline(panel.answer, color=FORECAST_COLOUR, linestyle=":", linewidth=1.5, zorder=1)
    _draw_trials(axes, panel.lines)
    longest = max((len(line.values) for line in panel.lines), default=1)
    axes.set_xlim(0.7, max(2, longest) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))


def _draw_trials(axes: "Axes", lines: Sequence[TrialLine], *, scale: float = 1.0) -> None:
    for place, (line, colour) in enumerate(zip(lines, cycle(TRIAL_COLOURS), strict=False)):
        offset = min(TRIAL_OFFSET, 0.3 / len(lines)) * (place - (len(lines) - 1) / 2)
        steps = [step + offset for step in range(1, len(line.values) + 1)]
        values = [value * scale for value in line.values]
        axes.plot(steps, values, color=colour, linewidth=1.6, marker=".", markersize=4, alpha=0.9)
        axes.plot(steps[-1], values[-1], color=colour, **_end_marker_style(line.end))


def _end_marker_style(end: TrialEnd | None) -> dict[str, Any]:
    return {
        "marker": END_MARKERS[end],
        "markersize": 7.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.8,
        "linestyle": "none",
        "zorder": 5,
        "clip_on": False,
    }


def _draw_quantiles(axes: "Axes", panel: QuantilePanel) -> None:
    scale = 1.0 / DAY_S if panel.unit == "date" else 1.0
    rows = [[value * scale for value in row] for row in panel.rows]
    steps: Sequence[float] = range(1, len(rows) + 1)
    if len(rows) == 1:
        # A band needs two points.
        rows, steps = rows * 2, (0.8, 1.2)
    low, below, _, above, high = zip(*rows, strict=True)
    axes.fill_between(steps, low, high, color=BAND_COLOUR, alpha=0.14, linewidth=0)
    axes.fill_between(steps, below, above, color=BAND_COLOUR, alpha=0.22, linewidth=0)
    _draw_trials(axes, panel.lines, scale=scale)
    last = len(panel.rows) + 1
    if panel.crowd is not None:
        axes.axhline(panel.crowd * scale, color=CROWD_COLOUR, linestyle="--", linewidth=1.3)
    if panel.answer is not None:
        ends = [value * scale for value in panel.answer]
        axes.plot([last, last], [ends[0], ends[-1]], color=FORECAST_COLOUR, linewidth=1.2)
        axes.plot([last, last], [ends[1], ends[-2]], color=FORECAST_COLOUR, linewidth=5, solid_capstyle="butt")
        axes.plot([last], [ends[2]], color="white", marker="o", markersize=5, markeredgecolor=FORECAST_COLOUR)
    axes.set_xlim(0.6, last + 0.4)
    named = range(1, last, -(-last // MAX_STEPS_NAMED))
    end = {} if panel.answer is None else {last: "forecast"}
    axes.set_xticks([*named, *end], [*map(str, named), *end.values()])
    if panel.unit == "date":
        axes.yaxis_date("UTC")
    elif panel.unit:
        axes.set_ylabel(_shorten_text(panel.unit, NAME_WIDTH))


def _probability_range(panels: Sequence[ProbabilityPanel]) -> tuple[float, float]:
    """Return the range of the probability axis: 0 to 1, unless all values are close to one end."""
    values = [value for panel in panels for line in panel.lines for value in line.values]
    values += [value for panel in panels for value in (panel.crowd, panel.answer) if value is not None]
    for edge in (0.05, 0.2, 0.5):
        if max(values) <= 0.9 * edge:
            return -0.02 * edge, edge
        if min(values) >= 1.0 - 0.9 * edge:
            return 1.0 - edge, 1.0 + 0.02 * edge
    return -0.02, 1.02


def _write_title(figure: "Figure", trace: ForecastTrace) -> None:
    title = " ".join(redact_known_secrets(replace_invisible(trace.question.title)).split())
    # Some scripts have characters of double width and no spaces.
    width = max(1, TITLE_WIDTH * len(title) // max(1, cell_len(title)))
    lines = textwrap.wrap(title, min(width, TITLE_WIDTH)) or [str(trace.question.ref)]
    if len(lines) > TITLE_LINES:
        lines = [*lines[: TITLE_LINES - 1], f"{lines[TITLE_LINES - 1].rstrip()} ..."]
    figure.suptitle("\n".join(lines), x=0.02, ha="left", fontsize=11, fontweight="bold")


def _write_legend(figure: "Figure", trace: ForecastTrace, panels: PlotPanels) -> None:
    by = f"{trace.forecast.forecaster}, " if trace.forecast else ""
    more = f"; {panels.left_out} more not shown" if panels.left_out else ""
    handles = list(_legend_handles(trace, panels))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 4 if isinstance(panels.shown[0], ProbabilityPanel) else 3),
        frameon=False,
        fontsize=8,
        title=f"{_shorten_text(f'{by}forecast {trace.id} of {trace.question.ref}', TITLE_WIDTH)}{more}",
        title_fontproperties={"size": 7.5},
        alignment="left",
    )


def _legend_handles(trace: ForecastTrace, panels: PlotPanels) -> "Iterator[Line2D]":
    from matplotlib.lines import Line2D

    first = panels.shown[0]
    what = "" if isinstance(first, ProbabilityPanel) else "median of "
    for line, colour in zip(first.lines[:MAX_TRIALS_NAMED], cycle(TRIAL_COLOURS), strict=False):
        ended = line.end or "not ended"
        marker = _end_marker_style(line.end) | {"linestyle": "-"}
        yield Line2D([], [], color=colour, label=f"{what}trial {line.trial} ({ended})", **marker)
    if len(first.lines) > MAX_TRIALS_NAMED:
        yield Line2D([], [], linestyle="none", label=f"and {len(first.lines) - MAX_TRIALS_NAMED} more trials")
    if isinstance(first, ProbabilityPanel):
        answer = Line2D([], [], color=FORECAST_COLOUR, linestyle=":", label="forecast")
    else:
        of = " of the mean trial" if len(trace.trials) > 1 else ""
        yield Line2D(
            [],
            [],
            color=BAND_COLOUR,
            alpha=0.36,
            linewidth=7,
            label=f"{QUANTILE_LEVELS[1]:.0%} to {QUANTILE_LEVELS[-2]:.0%}{of}",
        )
        yield Line2D(
            [],
            [],
            color=BAND_COLOUR,
            alpha=0.14,
            linewidth=7,
            label=f"{QUANTILE_LEVELS[0]:.0%} to {QUANTILE_LEVELS[-1]:.0%}{of}",
        )
        answer = Line2D(
            [], [], color=FORECAST_COLOUR, linewidth=3, marker="o", markerfacecolor="white", label="forecast"
        )
    if first.answer is not None:
        yield answer
    if first.crowd is not None:
        yield Line2D([], [], color=CROWD_COLOUR, linestyle="--", label="crowd")


def _shorten_text(text: str, width: int) -> str:
    flat = " ".join(redact_known_secrets(replace_invisible(text)).split())
    return flat if len(flat) <= width else f"{flat[: width - 3].rstrip()}..."


def apply_fallback_fonts(figure: "Figure", fonts: "Iterable[FontEntry] | None" = None) -> None:
    """Set fonts that have the characters of every text of a figure; characters that no font has become escapes.

    ``fonts`` are the fonts that may be used; default: all installed fonts.
    """
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    foreign = missing_characters(DEFAULT_FONT, {character for text in texts for character in text.get_text()} - {"\n"})
    if not foreign:
        return
    families = [DEFAULT_FONT, *_fallback_families(foreign, fontManager.ttflist if fonts is None else fonts)]
    uncovered = set(foreign)
    for family in families:
        uncovered = missing_characters(family, uncovered)
    for text in texts:
        text.set_fontfamily(families)
    if uncovered:
        _escape_characters(figure, texts, uncovered)
        log.warning("no installed font has these characters, so they are drawn as escapes", count=len(uncovered))


def missing_characters(family: str, characters: Collection[str]) -> set[str]:
    """Return the characters that a font lacks."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont(family))
    return {character for character in characters if not font.get_char_index(ord(character))}


def _fallback_families(characters: Collection[str], fonts: "Iterable[FontEntry]") -> Iterator[str]:
    """Yield regular families, in alphabetical order, until all characters are covered that can be."""
    left = set(characters)
    regular = {font.name for font in fonts if font.weight == REGULAR_WEIGHT and font.style == "normal"}
    for family in sorted(regular):
        if not left:
            return
        rest = left if LAST_RESORT_FONT in family else missing_characters(family, left)
        if rest != left:
            yield family
        left = rest


def _escape_characters(figure: "Figure", texts: "Iterable[Text]", uncovered: AbstractSet[str]) -> None:
    title = figure.get_suptitle()
    for text in texts:
        shown = text.get_text()
        if uncovered.isdisjoint(shown):
            continue
        escaped = "".join(_escape_character(one) if one in uncovered else one for one in shown.replace("\n", " "))
        lines = MAX_TITLE_LINES if shown == title else 1
        text.set_text(textwrap.fill(escaped, LINE_WIDTH, max_lines=lines, placeholder=" ..."))


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
