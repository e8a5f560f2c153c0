"""How much a forecast loses with the days: questions are followed day by day, in the time in which they are open.

Each forecast is made by the real engine on its day and recorded, so that a forecaster finds its earlier ones. What one
loses that renews its forecasts less often follows from the daily ones; the rules of a forecaster of its own are run.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from bot.app.app import open_app
from bot.core.clock import SystemClock
from bot.core.concurrency import map_concurrently
from bot.core.errors import ConfigError
from bot.core.forecasts import Trial
from bot.core.light_dataclass import dataclass
from bot.core.predictions import BinaryPrediction
from bot.core.questions import Question
from bot.forecasting.forecast_run import ConfiguredForecaster, ForecastContext, NoAnswerError, begin_forecast
from bot.forecasting.tool_factory import ToolFactory
from bot.plugin_system.registry import load_registry
from bot.simulator.laboratory.answers import costs_of_trials
from bot.simulator.laboratory.forecaster_comparison import BLEND, VARIANTS
from bot.simulator.laboratory.forecaster_variants import ForecasterVariant
from bot.simulator.laboratory.questions import LaboratoryQuestion
from bot.simulator.laboratory.score_table import AnswerLine
from bot.simulator.laboratory.trial_runner import (
    FORECASTER_NAME,
    ROUNDING_PLACES,
    LaboratoryServers,
    NewsPageFetcher,
    NewsPageReader,
    require_no_broken_plugins,
    write_config,
)

SOLO = "solo"
# For so many days a forecast is used, where it is not renewed every day.
KEPT_DAYS = (2, 3, 7)
# Why these forecasts are begun: a person who asks for one gets a new one, whatever the rules are.
_REASON = "followed"
# Whatever the price does, it never moves so far.
_NO_SHIFT = 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedForecasts:
    """What a variant answered to each case, in their order, None where it failed, and what its trials cost."""

    name: str
    answers: Sequence[float | None]
    trials: Sequence[Sequence[Trial]]
    seconds: float = 0.0

    @property
    def progress(self) -> str:
        """What it took, in a line."""
        calls = sum(trial.usage.calls for trials in self.trials for trial in trials)
        return f"{len(self.answers)} forecasts, {calls} calls, {self.seconds:.0f} s"

    @property
    def seconds_per_step(self) -> float:
        """How long a step took, on the mean."""
        return self.seconds / max(1, sum(trial.steps for trials in self.trials for trial in trials))


def staleness_variants(names: Collection[str], *, hides_crowd: bool = False) -> list[ForecasterVariant]:
    """Return what is run: each forecaster anew every day, and the rules of solo. Raises ConfigError for a name."""
    known = [name for name in VARIANTS if name != BLEND]
    if strange := [name for name in names if name not in known]:
        message = f"no forecast of {', '.join(strange)} can be followed; known: {', '.join(known)}"
        raise ConfigError(message)
    found = []
    for name in (name for name in known if name in names):
        settings = {"reuse_days": 0.0} if name == SOLO else {}
        found.append(ForecasterVariant(name=_daily_name(name), forecaster=name, settings=settings))
    if SOLO in names:
        rules: Mapping[str, Mapping[str, float]] = {
            "as shipped": {},
            "repeats for 3 days whatever the price": {"reuse_days": 3.0, "price_shift": _NO_SHIFT},
            "repeats for 7 days whatever the price": {"reuse_days": 7.0, "price_shift": _NO_SHIFT},
        }
        found += [
            ForecasterVariant(name=f"{SOLO}, {words}", forecaster=SOLO, settings=settings, reference=_daily_name(SOLO))
            for words, settings in rules.items()
        ]
    return [replace(variant, hides_crowd=hides_crowd) for variant in found]


async def follow_forecasts(
    servers: LaboratoryServers, setup: ForecasterVariant, cases: Sequence[LaboratoryQuestion]
) -> FollowedForecasts:
    """Let time pass, and forecast each case on its day; the cases are in the order of their days."""
    config = write_config(servers, setup)
    registry = require_no_broken_plugins(load_registry(config))
    found: list[tuple[float | None, Sequence[Trial]]] = []
    watch = SystemClock()
    began = watch.monotonic()
    async with open_app(config, registry, clock=servers.clock, only=(FORECASTER_NAME,)) as app:
        context = _with_press(app.forecast_context, servers)
        forecast = partial(_forecast_question, context, app.forecasters[FORECASTER_NAME])
        for day, today in groupby(cases, key=lambda case: case.day):
            moment = servers.world.calendar.moment_of(day)
            await servers.clock.sleep(max(0.0, (moment - servers.clock.now()).total_seconds()))
            asked = [replace(case.question, crowd=None) if setup.hides_crowd else case.question for case in today]
            await app.ledger.questions.record(asked, seen_at=servers.clock.now())
            found += await map_concurrently(forecast, asked, places=ROUNDING_PLACES)
    answers, trials = zip(*found, strict=True)
    return FollowedForecasts(name=setup.name, answers=answers, trials=trials, seconds=watch.monotonic() - began)


def staleness_lines(
    found: Sequence[FollowedForecasts], variants: Sequence[ForecasterVariant], cases: Sequence[LaboratoryQuestion]
) -> Iterator[AnswerLine]:
    """Yield the answers of every day, what they would be if each were used longer, and those of rules."""
    references = {variant.name: variant.reference for variant in variants}
    for one in found:
        reference = references[one.name]
        yield _answer_line(one, one.name, range(len(cases)), reference)
        for days in KEPT_DAYS if reference is None else ():
            yield _answer_line(
                one, f"{one.name.partition(',')[0]}, every {days} days", kept_forecasts(cases, days), one.name
            )


def kept_forecasts(cases: Sequence[LaboratoryQuestion], days: int) -> list[int]:
    """Return for each case the place of the forecast that stands for it, if each is used for so many days."""
    sources: list[int] = []
    newest: dict[str, int] = {}
    for place, case in enumerate(cases):
        key = case.simulated_question.key
        # Half a day of tolerance: days are sums of fractions.
        if key not in newest or case.day - cases[newest[key]].day > days - 0.5:
            newest[key] = place
        sources.append(newest[key])
    return sources


def _daily_name(name: str) -> str:
    return f"{name}, every day"


def _with_press(context: ForecastContext, servers: LaboratoryServers) -> ForecastContext:
    """Return the context with the pages of the simulated press in place of the web."""
    factory = context.resources
    if not isinstance(factory, ToolFactory):
        return context
    fetcher, reader = NewsPageFetcher(servers.news_server), NewsPageReader(servers.news_server)
    return replace(context, resources=replace(factory, fetcher=fetcher, reader=reader))


async def _forecast_question(
    context: ForecastContext, forecaster: ConfiguredForecaster, question: Question
) -> tuple[float | None, Sequence[Trial]]:
    """Return the probability of yes, None if the forecast failed, and the trials."""
    run = await begin_forecast(context, forecaster, question, _REASON)
    try:
        (prediction,) = (await run.run()).predictions.values()
    except NoAnswerError:
        prediction = None
    trace = await context.ledger.forecasts.trace(run.running.id)
    # Beliefs cannot be sent to another process, and only what trials cost counts here.
    trials = [replace(one.trial, belief=None, prior=None) for one in trace.trials if one.trial is not None]
    return prediction.probability if isinstance(prediction, BinaryPrediction) else None, trials


def _answer_line(one: FollowedForecasts, name: str, sources: Sequence[int], reference: str | None) -> AnswerLine:
    """Return a line of these forecasts in place of those of each case; each of them is paid for once."""
    made = sorted({*sources})
    trials = [trial for place in made for trial in one.trials[place]]
    failed = sum(one.answers[place] is None for place in made)
    notes = [f"{failed} of {len(made)} forecasts failed and count as even odds"] if failed else []
    notes += [] if name == one.name else ["from the daily forecasts, without new calls"]
    answers = (one.answers[place] for place in sources)
    return AnswerLine(
        name=name,
        part="staleness",
        answers=[0.5 if answer is None else answer for answer in answers],
        reference=reference,
        use=costs_of_trials(trials, seconds_per_step=one.seconds_per_step),
        note="; ".join(notes),
    )
