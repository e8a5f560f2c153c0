"""Series, prices, shelves and earlier forecasts, each as known at the cutoff."""

import dataclasses
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from statsmodels.regression.linear_model import OLS
from statsmodels.tools import add_constant

from bot.core.predictions import (
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    CurvePrediction,
    CurveShape,
    Prediction,
    QuestionShape,
)
from bot.core.questions import CrowdForecast, Question, Target
from bot.core.research import SeriesModel, TimeSeries
from bot.core.values import Json
from bot.stats import time_series
from bot.testing.research import FakeDataSource, FakePageSource
from plugins.data import dbnomics, fred, yahoo
from tests.recorded_forecasts import record_forecast
from tests.unit.forecasting.research_fixture import (
    CHARGE,
    CUTOFF,
    ResearchFixture,
    data_question,
    level,
    market,
    names,
    passage,
)

SEASONS = SeriesModel(window=365, unit="days", trust=0.4, trend_share=0.3, seasonal=True)


def rising(days: int) -> TimeSeries:
    end = CUTOFF.date()
    dates = tuple(end - timedelta(days=days - k) for k in range(days))
    values = tuple(10.0 + 0.5 * k + (1.0 if k % 2 else -1.0) for k in range(days))
    return TimeSeries(name="LEVEL", unit="", source="", dates=dates, values=values)


@pytest.mark.parametrize(
    ("model", "window", "trust"),
    [(SeriesModel(), 60, 0.1), (SeriesModel(window=30, trust=0.5), 30, 0.5)],
)
async def test_the_model_of_a_series_is_the_shrunk_tail_of_a_least_squares_line(
    research: ResearchFixture, model: SeriesModel, window: int, trust: float
) -> None:
    """Against statsmodels; one year of data is too short for earlier years to speak, so the line stands alone."""
    from scipy.stats import norm

    series = rising(200)
    research.add_data_source(FakeDataSource({"LEVEL": series}, series_of_questions=["LEVEL"]), model=model)
    days = (7, 30)
    targets = tuple(Target(key=f"d{day}", resolves_at=CUTOFF + timedelta(days=day)) for day in days)
    context = await research.open_trial(data_question(targets=targets))
    result = await context.use_tool("series_model", {})
    assert isinstance(result.data, dict)
    probabilities = result.data["probabilities"]
    assert isinstance(probabilities, dict)
    x = [float((day - CUTOFF.date()).days) for day in series.dates[-window:]]
    fit = OLS(list(series.values[-window:]), add_constant(x)).fit()
    spread = float((fit.resid**2).mean() ** 0.5)
    for day in days:
        ahead = float(fit.params[0] + fit.params[1] * day)
        expected = trust * norm.sf((series.values[-1] - ahead) / spread) + (1 - trust) * 0.5
        assert probabilities[f"d{day}"] == pytest.approx(expected, abs=1e-9)


async def test_a_series_with_seasons_counts_the_same_days_of_other_years(research: ResearchFixture) -> None:
    """Equation 19 of the BLF paper by hand, on a series whose value is the day of the year."""
    dates = tuple(CUTOFF.date() - timedelta(days=k) for k in range(4 * 365, 0, -1))
    values = tuple(float(day.timetuple().tm_yday) for day in dates)
    series = TimeSeries(name="HEAT", unit="", source="", dates=dates, values=values)
    research.add_data_source(FakeDataSource({"HEAT": series}, series_of_questions=["HEAT"]), model=SEASONS)
    target = Target(key="year", resolves_at=datetime(2027, 2, 28, tzinfo=UTC))
    context = await research.open_trial(data_question(targets=(target,)))
    result = await context.use_tool("series_model", {})
    # The reference is 28 February, day 59; counted are days 49 to 69 of the year.
    near = [value for value in values if 49 <= value <= 69]
    expected = (sum(value > 59 for value in near) + 1) / (len(near) + 2)
    assert isinstance(result.data, dict)
    probabilities = result.data["probabilities"]
    assert isinstance(probabilities, dict)
    assert probabilities["year"] == pytest.approx(expected)


@pytest.mark.parametrize("model", [SeriesModel(), dataclasses.replace(SEASONS, shows_season=True)])
async def test_the_season_is_shown_where_the_source_has_seasons_and_not_for_prices(
    research: ResearchFixture, model: SeriesModel
) -> None:
    research.add_data_source(FakeDataSource({"LEVEL": level(800)}, series_of_questions=["LEVEL"]), model=model)
    text = (await (await research.open_trial(data_question())).use_tool("series_combo", {})).observation.text
    shown = re.findall(r"^2026-03-08: [01]\.\d{3} \((.*)\)$", text, re.MULTILINE)
    parts = [re.sub(r" [01]\.\d{3}", "", part) for part in shown]
    assert parts == (["season, line, line and earlier years"] if model.shows_season else ["line"])


async def test_the_29th_of_february_works_as_cutoff_and_as_date_of_a_question(research: ResearchFixture) -> None:
    leap = datetime(2028, 2, 29, tzinfo=UTC)
    dates = tuple(date(2026, 1, 1) + timedelta(days=k) for k in range(900))
    series = TimeSeries(name="LEVEL", unit="", source="", dates=dates, values=tuple(float(d.month) for d in dates))
    for trial, model in enumerate((SEASONS, SeriesModel()), 1):
        name = f"tides_{trial}"
        research.add_data_source(FakeDataSource({"LEVEL": series}, series_of_questions=["LEVEL"]), name, model=model)
        targets = (Target(key="a", resolves_at=leap), Target(key="b", resolves_at=leap.replace(year=2032)))
        context = await research.open_trial(
            data_question(source=name, as_of=leap, targets=targets),
            cutoff=leap,
            charge=dataclasses.replace(CHARGE, trial=trial),
        )
        result = await context.use_tool("series_combo", {"source": name})
        assert isinstance(result.data, dict)
        assert isinstance(result.data["probabilities"], dict)
        assert set(result.data["probabilities"]) == {"a", "b"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "NONE"}, "there is no such thing"),
        ({"name": "BROKEN"}, "could not be read"),
        ({"until": "1 March"}, "YYYY-MM-DD"),
        ({"until": "1990-01-01"}, "knows no value"),
        ({"source": "other"}, "source is none of tides"),
    ],
)
async def test_a_series_that_cannot_be_had_is_a_failure_that_says_why(
    research: ResearchFixture, arguments: dict[str, Json], says: str
) -> None:
    endless = dataclasses.replace(level(), values=(float("nan"),) * 400)
    research.add_data_source(FakeDataSource({"LEVEL": level(), "BROKEN": endless}, series_of_questions=["LEVEL"]))
    result = await (await research.open_trial(data_question())).use_tool("series_history", arguments)
    assert result.failed
    assert says in result.observation.text


async def test_a_long_history_is_thinned_out_but_for_its_end(research: ResearchFixture) -> None:
    research.add_data_source(FakeDataSource({"LEVEL": level(5000)}, series_of_questions=["LEVEL"]))
    text = (await (await research.open_trial(data_question())).use_tool("series_history", {})).observation.text
    rows = re.findall(r"^\d{4}-\d\d-\d\d,", text, re.MULTILINE)
    assert 60 < len(rows) <= 121
    last = [f"{CUTOFF.date() - timedelta(days=k)}," for k in range(60, 0, -1)]
    assert rows[-60:] == last


async def test_prices_of_a_market_come_from_the_gauge_that_serves_its_venue_or_source(
    research: ResearchFixture,
) -> None:
    for trial, serves in enumerate(("lantern", "almanac"), 1):
        research.data_sources.clear()
        prices = FakeDataSource(
            {"lamp": dataclasses.replace(level(10, beyond=1), name="lamp")}, series_of_questions=["lamp"]
        )
        research.add_data_source(prices, "prices", serves=serves)
        context = await research.open_trial(charge=dataclasses.replace(CHARGE, trial=trial))
        result = await context.use_tool("market_history", {})
        assert "2026-02-28,28" in result.observation.text
        assert prices.asked == [("lamp", CUTOFF)]
    research.data_sources.clear()
    research.add_data_source(prices, "prices", serves="another")
    assert "market_history" not in names(await research.open_trial(charge=dataclasses.replace(CHARGE, trial=3)))


async def test_a_shelf_shows_headings_first_and_then_a_section(research: ResearchFixture) -> None:
    pages = FakePageSource({("Lamp", ""): passage("", "Intro."), ("Lamp", "History"): passage("History", "Old.")})
    research.add_page_source(pages)
    context = await research.open_trial()
    assert "History" in (await context.use_tool("fetch_lexicon_toc", {"page": "Lamp"})).observation.text
    assert (
        "Intro." in (await context.use_tool("fetch_lexicon_section", {"page": "Lamp", "heading": ""})).observation.text
    )
    assert (await context.use_tool("fetch_lexicon_toc", {"page": "None"})).failed
    assert {before for _, before in pages.asked} == {CUTOFF}


async def forecast(research: ResearchFixture, question: Question, who: str, days: int, said: Prediction) -> None:
    at = CUTOFF + timedelta(days=days)
    await record_forecast(research.ledger, question, {"outcome": said}, at, who)


async def test_earlier_forecasts_are_those_of_this_forecaster_before_the_cutoff(research: ResearchFixture) -> None:
    question = market()
    assert "earlier_forecasts" not in names(await research.open_trial(question))
    await research.ledger.questions.record([question], seen_at=CUTOFF)
    for who, days, probability in (("thinker", -2, 0.25), ("other", -2, 0.9), ("thinker", 1, 0.99)):
        await forecast(research, question, who, days, BinaryPrediction(probability))
    context = await research.open_trial(question, charge=dataclasses.replace(CHARGE, trial=2))
    text = (await context.use_tool("earlier_forecasts", {})).observation.text
    assert "2026-02-27: outcome: 0.250" in text
    assert "0.9" not in text


@pytest.mark.parametrize(
    ("shape", "said", "shown"),
    [
        (ChoiceShape(options=("red", "blue")), ChoicePrediction({"red": 0.7, "blue": 0.3}), "blue 0.300, red 0.700"),
        (
            CurveShape(grid=(0.0, 10.0, 20.0, 30.0)),
            CurvePrediction((0.0, 0.2, 0.6, 1.0)),
            "10% below 5, 50% below 17.5, 90% below 27.5",
        ),
    ],
)
async def test_earlier_forecasts_of_other_shapes_are_told_in_short(
    research: ResearchFixture, shape: QuestionShape, said: Prediction, shown: str
) -> None:
    question = market(shape=shape, crowd=None)
    await research.ledger.questions.record([question], seen_at=CUTOFF)
    await forecast(research, question, "thinker", -2, said)
    context = await research.open_trial(question, charge=dataclasses.replace(CHARGE, trial=2))
    assert shown in (await context.use_tool("earlier_forecasts", {})).observation.text


class Unsure(FakeDataSource):
    """Fails to say what a question is about."""

    def series_names(self, question: Question) -> Sequence[str]:
        message = "bug"
        raise RuntimeError(message)


async def test_a_source_that_fails_to_name_a_series_stops_nothing(research: ResearchFixture) -> None:
    research.add_data_source(Unsure({"LEVEL": level()}), serves="almanac")
    context = await research.open_trial()
    assert "has no series for this question" in (await context.use_tool("series_history", {})).observation.text
    assert "no prices" in (await context.use_tool("market_history", {})).observation.text
    assert not (await context.use_tool("series_history", {"name": "LEVEL"})).failed


async def test_prices_that_all_come_from_after_the_cutoff_are_counted_and_not_shown(research: ResearchFixture) -> None:
    research.add_data_source(
        FakeDataSource({"lamp": level(0, beyond=3)}, series_of_questions=["lamp"]), serves="almanac"
    )
    context = await research.open_trial()
    assert (await context.use_tool("market_history", {})).failed
    assert context.caught.clamped == 3


@pytest.mark.parametrize(
    ("series", "targets", "says"),
    [
        (level(), (Target(),), "a date of the question is not known"),
        (dataclasses.replace(level(), values=(float("inf"),) * 400), (Target(resolves_at=CUTOFF),), "cannot say"),
    ],
)
async def test_where_the_model_of_a_series_cannot_say_anything_it_says_so(
    research: ResearchFixture, series: TimeSeries, targets: tuple[Target, ...], says: str
) -> None:
    research.add_data_source(FakeDataSource({"LEVEL": series}, series_of_questions=["LEVEL"]))
    result = await (await research.open_trial(data_question(targets=targets))).use_tool("series_model", {})
    assert result.failed
    assert says in result.observation.text


async def test_a_page_without_headings_and_a_section_that_is_not_there_are_told(research: ResearchFixture) -> None:
    research.add_page_source(FakePageSource({("Lamp", ""): passage("", "Intro.")}))
    context = await research.open_trial()
    assert "no headings" in (await context.use_tool("fetch_lexicon_toc", {"page": "Lamp"})).observation.text
    result = await context.use_tool("fetch_lexicon_section", {"page": "Lamp", "heading": "None"})
    assert result.failed
    assert "no such thing" in result.observation.text


async def test_the_crowd_of_a_later_day_moves_no_price_that_is_shown(research: ResearchFixture) -> None:
    """Prices end before the day of the cutoff, whatever the question says of the crowd."""
    late = CrowdForecast(prediction=BinaryPrediction(0.97), at=CUTOFF + timedelta(days=60))
    prices = FakeDataSource({"lamp": level(10, beyond=30, name="lamp")}, series_of_questions=["lamp"])
    research.add_data_source(prices, serves="almanac")
    cutoff = CUTOFF - timedelta(hours=5)
    context = await research.open_trial(market(as_of=cutoff, crowd=late), cutoff=cutoff)
    result = await context.use_tool("market_history", {})
    assert re.findall(r"^(\S+),\d", result.observation.text, re.MULTILINE)[-1] == "2026-02-27"
    assert prices.asked == [("lamp", cutoff)]
    assert "97" not in result.observation.text


@pytest.mark.parametrize("wrong", [{"window": 0}, {"trust": 1.1}, {"trend_share": -0.1}, {"trust": float("nan")}])
def test_a_model_of_series_with_weights_that_are_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="weights from 0 to 1"):
        SeriesModel(**wrong)


def test_the_sources_that_come_with_us_are_extrapolated_as_the_paper_does() -> None:
    """The constants stand beside the formulas, where they are held against those of the published code."""
    published = {
        "fred": (time_series.ECONOMIC_SERIES, False, True),
        "yahoo": (time_series.DAILY_PRICES, False, False),
        "dbnomics": (time_series.SEASONAL_SERIES, True, True),
    }
    for plugin in (fred, yahoo, dbnomics):
        (spec,) = plugin.foxcast_data_sources()
        line, seasonal, shown = published[spec.name]
        seasons = {"seasonal": seasonal, "shows_season": shown}
        assert dataclasses.asdict(spec.model) == {**dataclasses.asdict(line), **seasons}
        if spec.name == "yahoo":
            assert spec.model == SeriesModel()
