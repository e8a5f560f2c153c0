"""Plots: what is drawn, as numbers; that the same gives the same file; and that strangers' text stays text."""

import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry, fontManager
from structlog.testing import capture_logs

from bot.cli.output.belief_plot import (
    ProbabilityPanel,
    QuantilePanel,
    apply_fallback_fonts,
    draw_beliefs,
    missing_characters,
    plot_panels,
    require_plot_file,
)
from bot.core.beliefs import Belief, Step, StepAction, StepObservation
from bot.core.errors import ConfigError
from bot.core.forecasts import TrialEnd
from bot.core.interfaces import TrialContext
from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
)
from bot.core.questions import CrowdForecast, Question, Target
from bot.store.forecasts import ForecastStart, ForecastTrace
from bot.testing.models import ScriptedModelProvider
from tests.unit.forecast_run_fixture import ForecastRunFixture, FunctionForecaster, open_forecast_runs, question

PNG = b"\x89PNG\r\n\x1a\n"
GRID = CurveShape(grid=(0.0, 10.0, 20.0), unit="points", open_upper=True)
DAYS = CurveShape(grid=(0.0, 86_400.0, 172_800.0), unit="date")


@pytest.fixture
async def forecast_runs(tmp_path: Path) -> AsyncIterator[ForecastRunFixture]:
    async with open_forecast_runs(tmp_path, ScriptedModelProvider()) as forecast_runs:
        yield forecast_runs


def playing(*beliefs: Callable[[int], Prediction]) -> FunctionForecaster:
    """Return a forecaster with a step for each belief, made from the number of the trial; trial 3 fails in the end."""

    async def script(asked: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        for belief in beliefs:
            predictions = {target.key: belief(context.trial) for target in asked.targets}
            yield Step(
                action=StepAction(name="think"), observation=StepObservation(), belief=Belief(predictions=predictions)
            )
        if context.trial == 3:
            message = "no more ink"
            raise RuntimeError(message)

    return FunctionForecaster(script)


async def traced(
    forecast_runs: ForecastRunFixture, asked: Question, player: FunctionForecaster, *, trials: int = 2
) -> ForecastTrace:
    forecast_runs.forecasters["plain"] = player
    forecast = await forecast_runs.forecast(asked, "plain", trials=trials)
    return await forecast_runs.ledger.forecasts.trace(forecast.id)


def binary(trial: int) -> BinaryPrediction:
    return BinaryPrediction(0.1 * trial)


def half(_: int) -> BinaryPrediction:
    return BinaryPrediction(0.5)


async def test_a_binary_question_has_a_line_for_each_trial_in_a_panel_for_each_target(
    forecast_runs: ForecastRunFixture,
) -> None:
    asked = question(targets=(Target(key="may"), Target(key="june")))
    panels = plot_panels(await traced(forecast_runs, asked, playing(half, binary), trials=3)).shown
    assert [panel.title for panel in panels] == ["may", "june"]
    (first, _) = panels
    assert isinstance(first, ProbabilityPanel)
    assert [(line.trial, line.values) for line in first.lines] == [
        (1, (0.5, 0.1)),
        (2, (0.5, 0.2)),
        (3, (0.5, pytest.approx(0.3))),
    ]
    assert [line.end for line in first.lines] == [TrialEnd.FINISHED, TrialEnd.FINISHED, TrialEnd.FAILED]
    assert first.crowd == 0.4
    # Of the two trials that finished: between the two.
    assert first.answer is not None
    assert 0.1 < first.answer < 0.2


async def test_a_choice_has_a_panel_for_each_of_its_six_likeliest_options(forecast_runs: ForecastRunFixture) -> None:
    names = tuple("abcdefgh")
    shares = dict(zip(names, (0.3, 0.02, 0.2, 0.1, 0.1, 0.1, 0.1, 0.08), strict=True))
    panels = plot_panels(
        await traced(
            forecast_runs,
            question(shape=ChoiceShape(options=names), crowd=None),
            playing(lambda _: ChoicePrediction(shares)),
        )
    )
    assert [panel.title for panel in panels.shown] == ["a", "c", "d", "e", "f", "g"]
    assert panels.left_out == 2


async def test_a_curve_has_a_fan_of_the_mean_trial_and_ended_trials_go_on(forecast_runs: ForecastRunFixture) -> None:
    asked = question(
        shape=GRID, crowd=CrowdForecast(prediction=CurvePrediction((0.0, 1.0, 1.0)), at=forecast_runs.clock.now())
    )
    player = playing(lambda _: CurvePrediction((0.0, 0.5, 1.0)), lambda trial: CurvePrediction((0.0, 0.5 / trial, 0.5)))
    (fan,) = plot_panels(await traced(forecast_runs, asked, player, trials=1)).shown
    assert isinstance(fan, QuantilePanel)
    # Straight between the points; what lies beyond the grid is drawn at its end.
    assert fan.rows[0] == pytest.approx((1.0, 5.0, 10.0, 15.0, 19.0))
    assert fan.rows[1] == pytest.approx((1.0, 5.0, 10.0, 20.0, 20.0))
    assert fan.crowd == pytest.approx(5.0)
    assert fan.answer == pytest.approx(fan.rows[1])
    (mean,) = plot_panels(await traced(forecast_runs, asked, player, trials=2)).shown
    assert isinstance(mean, QuantilePanel)
    # Of each trial its own medians: the second one reaches 0.5 at the end of the grid.
    assert [(line.trial, line.values) for line in mean.lines] == [(1, (10.0, 10.0)), (2, (10.0, 20.0))]
    assert [line.end for line in mean.lines] == [TrialEnd.FINISHED] * 2
    # The mean of 0.5 and 0.25 at ten: the lower quartile lies two thirds of the way.
    assert mean.rows[1][1] == pytest.approx(10.0 * 0.25 / 0.375)


async def test_the_picture_of_a_number_names_the_median_of_each_trial_and_the_bands(
    forecast_runs: ForecastRunFixture, tmp_path: Path
) -> None:
    draw_beliefs(
        await traced(forecast_runs, question(shape=GRID), playing(lambda _: CurvePrediction((0.0, 0.5, 1.0)))),
        tmp_path / "plot.svg",
    )
    drawn = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    for told in ("median of trial 1 (finished)", "median of trial 2 (finished)", "25% to 75% of the mean trial"):
        assert told in drawn


@pytest.mark.parametrize("suffix", [".svg", ".png", ".SVG"])
async def test_the_same_forecast_gives_the_same_file(
    forecast_runs: ForecastRunFixture, tmp_path: Path, suffix: str
) -> None:
    trace = await traced(forecast_runs, question(), playing(half, binary), trials=3)
    for name in ("one", "two"):
        draw_beliefs(trace, tmp_path / f"{name}{suffix}")
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.startswith(PNG) if suffix == ".png" else ET.fromstring(one).tag.endswith("svg")  # noqa: S314 - our own file


@pytest.mark.parametrize(
    "asked",
    [
        question(),
        question(targets=tuple(Target(key=key) for key in "abcde")),
        question(shape=ChoiceShape(options=("red", "green"))),
        question(shape=GRID),
        question(shape=DAYS),
    ],
    ids=["one", "many", "choice", "number", "date"],
)
async def test_every_shape_can_be_drawn(forecast_runs: ForecastRunFixture, tmp_path: Path, asked: Question) -> None:
    curve = CurvePrediction((0.0, 0.5, 1.0))
    answers: dict[str, Prediction] = {
        "binary": BinaryPrediction(0.5),
        "choice": ChoicePrediction({"red": 0.3, "green": 0.7}),
        "curve": curve,
    }
    trace = await traced(forecast_runs, asked, playing(lambda _: answers[asked.shape.kind]), trials=1)
    draw_beliefs(trace, tmp_path / "plot.svg")
    text = " ".join(ET.fromstring((tmp_path / "plot.svg").read_bytes()).itertext())  # noqa: S314 - our own file
    assert "Will there be rain?" in text
    assert trace.id in text
    assert "forecast" in text


async def test_a_title_is_no_formula_and_moves_no_cursor(forecast_runs: ForecastRunFixture, tmp_path: Path) -> None:
    asked = question(title="Will $A_{B close above $200, \x1b[31m<script> & 雨\u202e?")
    draw_beliefs(await traced(forecast_runs, asked, playing(half)), tmp_path / "plot.svg")
    text = " ".join(ET.fromstring((tmp_path / "plot.svg").read_bytes()).itertext())  # noqa: S314 - our own file
    assert "Will $A_{B close above $200, \ufffd[31m<script> & 雨\ufffd?" in text


async def test_trials_are_named_with_how_they_ended(forecast_runs: ForecastRunFixture, tmp_path: Path) -> None:
    draw_beliefs(await traced(forecast_runs, question(), playing(half, half), trials=3), tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    assert re.findall(r"trial \d \(\w+\)", text) == ["trial 1 (finished)", "trial 2 (finished)", "trial 3 (failed)"]
    assert "crowd" in text


@pytest.mark.parametrize("name", ["plot.pdf", "plot"])
def test_another_kind_of_file_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"\.svg or \.png"):
        require_plot_file(Path(name))


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'foxcast\[plots\]'"):
        require_plot_file(Path("plot.svg"))


async def test_a_file_that_cannot_be_written_is_named(forecast_runs: ForecastRunFixture, tmp_path: Path) -> None:
    trace = await traced(forecast_runs, question(), playing(half))
    with pytest.raises(ConfigError, match="nowhere"):
        draw_beliefs(trace, tmp_path / "nowhere" / "plot.svg")


async def test_a_forecast_without_a_step_cannot_be_drawn(forecast_runs: ForecastRunFixture, tmp_path: Path) -> None:
    asked, now = question(), forecast_runs.clock.now()
    await forecast_runs.record(asked)
    begun = await forecast_runs.ledger.forecasts.begin(
        ForecastStart(question=asked, forecaster="plain", cutoff=now, why="new", now=now)
    )
    with pytest.raises(ConfigError, match="no recorded step"):
        draw_beliefs(await forecast_runs.ledger.forecasts.trace(begun.id), tmp_path / "plot.svg")


@pytest.mark.parametrize("suffix", [".svg", ".png"])
async def test_any_script_can_be_drawn(forecast_runs: ForecastRunFixture, tmp_path: Path, suffix: str) -> None:
    asked = question(shape=ChoiceShape(options=("雨", "green")), title="東京で雨が降りますか" * 20)
    trace = await traced(forecast_runs, asked, playing(lambda _: ChoicePrediction({"雨": 0.3, "green": 0.7})), trials=1)
    draw_beliefs(trace, tmp_path / f"plot{suffix}")
    drawn = (tmp_path / f"plot{suffix}").read_bytes()
    assert drawn.startswith(PNG) or "東京で雨が降りますか" in drawn.decode()


def made_legible(title: str, text: str, fonts: Sequence[FontEntry] | None) -> tuple[str, str, list[str]]:
    """The title and the text of a figure in the end, and the fonts they are drawn with."""
    figure = Figure()
    head, body = figure.suptitle(title), figure.text(0, 0, text)
    apply_fallback_fonts(figure, fonts)
    return head.get_text(), body.get_text(), list(body.get_fontfamily())


def test_what_no_font_has_is_escaped_within_the_width_of_the_picture_and_that_is_said_once() -> None:
    with capture_logs() as logs:
        title, text, _ = made_legible("will 雨 fall? " * 40, "rain 雨", ())
    assert text == r"rain \u96e8"
    assert title.startswith(r"will \u96e8 fall?")
    assert len(title.splitlines()) == 2
    assert all(len(line) <= 88 for line in title.splitlines())
    assert [entry["count"] for entry in logs] == [1]


def test_what_another_font_has_is_drawn_with_it() -> None:
    # Comes with the library in STIX, and not in its usual font.
    fonts = [font for font in fontManager.ttflist if font.name == "STIXGeneral"]
    assert missing_characters("DejaVu Sans", {"\u2332"}) == {"\u2332"}
    with capture_logs() as logs:
        _, text, families = made_legible("title", "\u2332", fonts)
    assert (text, families, logs) == ("\u2332", ["DejaVu Sans", "STIXGeneral"], [])


def test_a_font_of_boxes_is_no_font() -> None:
    boxes = [font for font in fontManager.ttflist if "Last Resort" in font.name]
    _, text, families = made_legible("title", "雨", boxes)
    assert (text, families) == (r"\u96e8", ["DejaVu Sans"])
