"""All tools that a trial could use with what is there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bot.desk.leaks.blocks import is_data
from bot.desk.parts import Calculator, Engine, Gauge, Shelf
from bot.desk.tools.calculate import Calculate
from bot.desk.tools.lookup import LookupUrl
from bot.desk.tools.market import MarketHistory, price_gauge
from bot.desk.tools.own import EarlierForecasts
from bot.desk.tools.related import QuestionHistory, RelatedQuestions
from bot.desk.tools.scene import Scene
from bot.desk.tools.search import WebSearch, usable
from bot.desk.tools.series import Reading, SeriesTool, names_of
from bot.desk.tools.shelves import ShelfContents, ShelfSection
from bot.desk.tools.summary import SummarizeResults
from bot.desk.tools.tool import Instrument
from bot.domain.inquiry import Charge
from bot.domain.prediction import BinaryShape
from bot.domain.question import Question
from bot.store.forecasts import Forecasts
from bot.store.related import Related


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What there is to make tools of; ``summarised`` says whether a model summarises."""

    engines: Sequence[Engine]
    gauges: Mapping[str, Gauge]
    shelves: Mapping[str, Shelf]
    calculator: Calculator | None = None
    forecasts: Forecasts
    related: Related
    charge: Charge
    summarised: bool


def toolbox(scene: Scene, parts: Parts) -> dict[str, Instrument]:
    """Return the tools by name, in the order in which they are offered."""
    return {instrument.tool.name: instrument for instrument in _instruments(scene, parts)}


def _instruments(scene: Scene, parts: Parts) -> Iterator[Instrument]:
    yield from _series(scene, parts.gauges)
    for shelf in parts.shelves.values():
        yield ShelfContents(scene, shelf)
        yield ShelfSection(scene, shelf)
    engines = usable(parts.engines, scene.section.search, backdated=scene.guards.backdated)
    if engines:
        yield WebSearch(scene, engines)
        yield SummarizeResults(scene=scene, summarised=parts.summarised)
    if scene.guards.fresh_pages:
        yield LookupUrl(scene)
    yield EarlierForecasts(scene, parts.forecasts, parts.related, parts.charge)
    yield RelatedQuestions(scene, parts.related, parts.forecasts, parts.charge)
    yield QuestionHistory(scene, parts.related)
    if parts.calculator is not None:
        yield Calculate(scene, parts.calculator)


def _series(scene: Scene, gauges: Mapping[str, Gauge]) -> Iterator[Instrument]:
    question = scene.question
    prices = None if is_data(question) else price_gauge(question, gauges)
    if prices is not None:
        yield MarketHistory(scene, prices)
    if not gauges:
        return
    yield SeriesTool(reading=Reading.HISTORY, scene=scene, gauges=gauges)
    if is_data(question) and isinstance(question.shape, BinaryShape) and _has_series(question, gauges):
        yield SeriesTool(reading=Reading.MODEL, scene=scene, gauges=gauges)
        yield SeriesTool(reading=Reading.COMBO, scene=scene, gauges=gauges)


def _has_series(question: Question, gauges: Mapping[str, Gauge]) -> bool:
    return any(question.source in gauge.spec.serves and names_of(gauge, question) for gauge in gauges.values())
