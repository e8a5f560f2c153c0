"""Charts as inline SVG without styles or scripts: colours come from the classes of the stylesheet.

All texts are escaped. Coordinates are in pixels from the upper left corner, probabilities between 0 and 1.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from markupsafe import Markup

from bot.core.light_dataclass import dataclass

SERIES_COLOURS = 8
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 12.0, 10.0, 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """A line of a chart: its points (x, y), its name, and the class that gives it its colour.

    ``stepped``: a value holds until the next one.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: str
    stepped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """One direction of a chart: its range, and the places and texts of its ticks."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]

    def place(self, value: float, length: float) -> float:
        """Return the distance of a value from the low end on an axis of this length."""
        span = self.high - self.low
        return length / 2 if span <= 0 else length * (value - self.low) / span


PROBABILITY_AXIS = ChartAxis(low=0.0, high=1.0, ticks=[(share / 4, f"{25 * share}%") for share in range(5)])


def series_style(index: int) -> str:
    """Return the class of the colour of a series by its number."""
    return f"s{index % SERIES_COLOURS}"


def time_axis(moments: Sequence[datetime]) -> ChartAxis:
    """Return an axis of seconds since 1970 that spans the moments, with its days (or times of one day) as ticks."""
    low, high = min(moments), max(moments)
    pattern = "%d %b" if (high - low).total_seconds() > 2 * 86_400 else "%d %b %H:%M"
    count = 3
    ticks = {low + (high - low) * index / (count - 1) for index in range(count)}
    return ChartAxis(
        low=low.timestamp(),
        high=high.timestamp(),
        ticks=[(at.timestamp(), f"{at:{pattern}}") for at in sorted(ticks)],
    )


def number_axis(values: Sequence[float], *, from_zero: bool = False) -> ChartAxis:
    """Return an axis that spans the values with some room, with three ticks."""
    low, high = min(values), max(values)
    low = min(0.0, low) if from_zero else low
    room = (high - low or abs(high) or 1.0) * 0.08
    low, high = low if from_zero else low - room, high + room
    digits = 0 if high - low >= 20 else 2 if high - low >= 0.2 else 4
    ticks = [low + (high - low) * share for share in (0.0, 0.5, 1.0)]
    return ChartAxis(low=low, high=high, ticks=[(tick, f"{tick:,.{digits}f}") for tick in ticks])


def draw_sparkline(
    series: Sequence[ChartSeries], *, label: str, width: int = 132, height: int = 30, moments: Sequence[float] = ()
) -> Markup:
    """Return small lines over time without axes, and a dot at the end of each; "" without a point."""
    xs = [*moments, *(x for one in series for x, _ in one.points)]
    if not xs:
        return Markup("")
    axis = ChartAxis(low=min(xs), high=max(xs), ticks=())
    inner_width, inner_height = width - 8, height - 6
    parts = [Markup('<line class="rule" x1="4" x2="{}" y1="{}" y2="{}"/>').format(width - 4, height / 2, height / 2)]
    for one in series:
        placed = [
            (4 + axis.place(x, inner_width), 3 + inner_height - PROBABILITY_AXIS.place(y, inner_height))
            for x, y in one.points
        ]
        parts += _draw_line(placed, one, radius=2.2)
    return _wrap_svg(parts, label=label, width=width, height=height, style="spark")


def draw_chart(
    series: Sequence[ChartSeries],
    *,
    label: str,
    x_axis: ChartAxis,
    y_axis: ChartAxis,
    width: int = 700,
    height: int = 220,
    dots: bool = False,
) -> Markup:
    """Return lines with axes; ``dots`` marks each point."""
    inner_width, inner_height = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    parts = [*_draw_axes(x_axis, y_axis, width, height)]
    for one in series:
        placed = [
            (_LEFT + x_axis.place(x, inner_width), _TOP + inner_height - y_axis.place(y, inner_height))
            for x, y in one.points
        ]
        parts += _draw_line(placed, one, radius=2.6)
        if dots:
            parts += [_draw_dot(point, one, radius=1.8) for point in placed[:-1]]
    return _wrap_svg(parts, label=label, width=width, height=height, style="chart")


def draw_bars(values: Sequence[tuple[str, float]], *, label: str, width: int = 700, height: int = 150) -> Markup:
    """Return a bar for each value, which must not be negative, with its text and number as a tooltip; "" for none."""
    if not values:
        return Markup("")
    y_axis = number_axis([number for _, number in values], from_zero=True)
    step = (width - _LEFT - _RIGHT) / len(values)
    middles = [(index + 0.5) * step for index in range(len(values))]
    shown = {0, len(values) // 2, len(values) - 1}
    ticks = [(middles[index], values[index][0]) for index in sorted(shown)]
    x_axis = ChartAxis(low=0.0, high=width - _LEFT - _RIGHT, ticks=ticks)
    parts = [*_draw_axes(x_axis, y_axis, width, height)]
    inner_height = height - _TOP - _BOTTOM
    for middle, (text, number) in zip(middles, values, strict=True):
        tall = y_axis.place(number, inner_height)
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {:,.4g}</title></rect>"
            ).format(
                _LEFT + middle - 0.36 * step, _TOP + inner_height - tall, 0.72 * step, max(tall, 0.5), text, number
            )
        )
    return _wrap_svg(parts, label=label, width=width, height=height, style="chart")


def draw_calibration(bins: Sequence[tuple[int, float, float]], *, label: str, style: str, size: int = 260) -> Markup:
    """Return how often predictions came true against what they said.

    Each bin is a number of predictions, their mean, and the share that came true; a dot's area grows with the number.
    """
    parts = [*_draw_axes(PROBABILITY_AXIS, PROBABILITY_AXIS, size, size)]
    inner_width, inner_height = size - _LEFT - _RIGHT, size - _TOP - _BOTTOM
    parts.append(
        Markup('<line class="diagonal" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
            _LEFT, _TOP + inner_height, _LEFT + inner_width, _TOP
        )
    )
    most = max((count for count, _, _ in bins), default=1)
    for count, mean, rate in bins:
        x = _LEFT + mean * inner_width
        y = _TOP + (1 - rate) * inner_height
        parts.append(
            Markup('<circle class="{} dot" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>').format(
                style, x, y, 3 + 7 * (count / most) ** 0.5, f"{mean:.0%} said, {rate:.0%} came true, n {count}"
            )
        )
    return _wrap_svg(parts, label=label, width=size, height=size, style="chart square")


def draw_meter(share: float, *, label: str, width: int = 120, height: int = 8) -> Markup:
    """Return a bar that is filled to a share; from 80 % on it warns."""
    filled = min(1.0, max(0.0, share))
    level = "full" if share >= 1.0 else "high" if share >= 0.8 else "calm"
    parts = [
        Markup('<rect class="track" width="{}" height="{}" rx="4"/>').format(width, height),
        Markup('<rect class="fill {}" width="{:.1f}" height="{}" rx="4"/>').format(level, filled * width, height),
    ]
    return _wrap_svg(parts, label=label, width=width, height=height, style="meter")


def _wrap_svg(parts: Iterable[Markup], *, label: str, width: float, height: float, style: str) -> Markup:
    head = Markup('<svg class="{}" role="img" aria-label="{}" viewBox="0 0 {:g} {:g}" width="{:g}" height="{:g}">')
    return head.format(style, label, width, height, width, height) + Markup("").join(parts) + Markup("</svg>")


def _draw_axes(x_axis: ChartAxis, y_axis: ChartAxis, width: float, height: float) -> Iterable[Markup]:
    inner_width, inner_height = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    for value, text in y_axis.ticks:
        y = _TOP + inner_height - y_axis.place(value, inner_height)
        yield Markup('<line class="rule" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(_LEFT, width - _RIGHT, y, y)
        yield Markup('<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(
            _LEFT - 6, y + 3.5, text
        )
    for index, (value, text) in enumerate(x_axis.ticks):
        anchor = "start" if index == 0 else "end" if index == len(x_axis.ticks) - 1 else "middle"
        x = _LEFT + x_axis.place(value, inner_width)
        yield Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
            x, height - 6, anchor, text
        )


def _draw_line(placed: Sequence[tuple[float, float]], one: ChartSeries, *, radius: float) -> list[Markup]:
    if not placed:
        return []
    points = _as_steps(placed) if one.stepped else placed
    drawn = [_draw_dot(placed[-1], one, radius=radius)]
    if len(points) > 1:
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.insert(0, Markup('<polyline class="{} line" points="{}"/>').format(one.style, text))
    return drawn


def _draw_dot(point: tuple[float, float], one: ChartSeries, *, radius: float) -> Markup:
    return Markup('<circle class="{} dot" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}</title></circle>').format(
        one.style, *point, radius, one.name
    )


def _as_steps(placed: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    steps = [placed[0]]
    for x, y in placed[1:]:
        steps += [(x, steps[-1][1]), (x, y)]
    return steps
