"""Runs one forecaster over the questions.

The real tools, gateway and ledger, with simulated models and press, in virtual time.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bot.app.app import BacktestForecaster, open_backtest_forecaster
from bot.config.loader import load_config
from bot.config.schema import Config
from bot.core.beliefs import Step
from bot.core.clock import SeededRandom, SystemClock
from bot.core.concurrency import map_concurrently
from bot.core.errors import NotFoundError, PluginError, RequestRejectedError
from bot.core.forecasts import Trial
from bot.core.ids import derive_id
from bot.core.interfaces import Clock
from bot.core.language_models import CostAttribution
from bot.core.light_dataclass import dataclass
from bot.core.research import FetchedPage, PageText
from bot.evaluation.leak_audit import LeakAudit, LeakAuditRun, ModelLeakAuditor
from bot.forecasting.trial import StepLogger, TrialSettings, run_trial
from bot.forecasting.trial_tools import GuardedTrialContext, TrialContextFactory, hide_late_crowd
from bot.plugin_system.registry import Registry, load_registry
from bot.simulator.environment import MODEL_NAME, to_toml
from bot.simulator.fake_service import serve_service
from bot.simulator.laboratory.forecaster_variants import SIMULATED_MODELS, SOBER, ForecasterVariant
from bot.simulator.laboratory.questions import LaboratoryQuestion
from bot.simulator.models.model_service import STRICT, SimulatedModelServer
from bot.simulator.request_log import RateLimitChecker
from bot.simulator.world.news_server import NewsServer
from bot.simulator.world.simulated_world import SimulatedWorld

# The host of the press; nobody has such a domain.
NEWS_ORIGIN = "https://press.example"


_NEWS = f"{NEWS_ORIGIN}/news/"


@dataclass(frozen=True, slots=True)
class NewsPageFetcher:
    """Implements PageFetcher."""

    news_server: NewsServer

    async def fetch(self, url: str, *, refusal: Callable[[str], str | None]) -> FetchedPage:
        """Return the text of an article as it is now; raises NotFoundError for any other address."""
        if (why := refusal(url)) is not None:
            raise RequestRejectedError(why)
        article = self.news_server.news.article(url.removeprefix(_NEWS)) if url.startswith(_NEWS) else None
        if article is None or article.published > self.news_server.day:
            message = f"there is nothing at {url}"
            raise NotFoundError(message)
        version = article.at(self.news_server.day)
        return FetchedPage(
            url=url, content=f"{version.text} {version.hidden}".strip().encode(), media_type="text/plain"
        )


@dataclass(frozen=True, slots=True)
class NewsPageReader:
    """Reads fetched pages: title and date are those of the article."""

    news_server: NewsServer

    async def read(self, fetched: FetchedPage) -> PageText:
        """Return the page; raises NotFoundError for one that is not of the press."""
        article = self.news_server.news.article(fetched.url.removeprefix(_NEWS))
        if article is None:
            message = f"there is no article at {fetched.url}"
            raise NotFoundError(message)
        published = self.news_server.world.calendar.moment_of(article.published)
        return PageText(url=fetched.url, title=article.title, text=fetched.content.decode(), published_at=published)


# So many questions are worked on at once.
ROUNDING_PLACES = 8


# US dollars per million tokens: a stated price, so that costs can be compared.
PRICE_IN, PRICE_OUT = 1.0, 4.0


TRIAL_SECONDS, TRIAL_STEPS = 3600.0, 400


# The client of the model servers, as real configurations name it.
_PROVIDER = MODEL_NAME.partition(":")[0]


PLUGINS = ("sandbox", _PROVIDER)


# The name of every forecaster in its own configuration.
FORECASTER_NAME = "subject"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaboratoryServers:
    """What all forecasters of an experiment share: the world, its servers, and the folder of ledgers."""

    world: SimulatedWorld
    clock: Clock
    news_server: NewsServer
    press_url: str
    minds_url: str
    folder: Path
    plugins: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaboratoryRun:
    """The result of a forecaster: its trials by question, in the order of the cases, and the real seconds it took.

    ``sub_goal_rate`` is the share of sub-goals that were settled, for a forecaster that records them.
    """

    setup: ForecasterVariant
    trials: Sequence[Sequence[Trial]]
    seconds: float
    audit: LeakAudit | None = None
    sub_goal_rate: float | None = None

    @property
    def steps(self) -> int:
        """How many steps all trials took."""
        return sum(trial.steps for trials in self.trials for trial in trials)


@asynccontextmanager
async def open_laboratory(
    world: SimulatedWorld, clock: Clock, folder: Path, plugins: Sequence[str]
) -> AsyncIterator[LaboratoryServers]:
    """Serve the press and the models of a world while this is entered."""
    news_server = NewsServer(clock, world, origin=NEWS_ORIGIN)
    # The limits of a service that many share would cost virtual hours of waiting.
    news_server.rate_limit_checker = RateLimitChecker((), clock)
    model_server = SimulatedModelServer(clock, SIMULATED_MODELS, strict=STRICT)
    model_server.keep = False
    async with serve_service(news_server) as served_news, serve_service(model_server) as served_models:
        yield LaboratoryServers(
            world=world,
            clock=clock,
            news_server=news_server,
            press_url=served_news.url,
            minds_url=f"{served_models.url}/v1",
            folder=folder,
            plugins=plugins,
        )


async def run_forecaster(
    servers: LaboratoryServers, setup: ForecasterVariant, cases: Sequence[LaboratoryQuestion]
) -> LaboratoryRun:
    """Let a forecaster answer all cases."""
    config = write_config(servers, setup)
    registry = require_no_broken_plugins(load_registry(config))
    watch = SystemClock()
    began = watch.monotonic()
    async with open_backtest_forecaster(config, registry, FORECASTER_NAME, clock=servers.clock) as backtest:
        room = _ForecasterTrials(servers, setup, backtest, SeededRandom(servers.world.seed))
        trials = await map_concurrently(room.trials, cases, places=ROUNDING_PLACES)
        seconds = watch.monotonic() - began
        return LaboratoryRun(
            setup=setup,
            trials=trials,
            seconds=seconds,
            audit=await _audit_leaks(backtest, setup),
            sub_goal_rate=room.sub_goals.rate,
        )


async def _audit_leaks(backtest: BacktestForecaster, setup: ForecasterVariant) -> LeakAudit | None:
    """Let a model check all documents that were read, as ``foxcast leaks --backtests`` does."""
    if not setup.audits_leaks or backtest.tool_factory is None or backtest.gateway is None:
        return None
    return await LeakAuditRun(ledger=backtest.tool_factory.ledger, auditor=ModelLeakAuditor(backtest.gateway)).run()


@dataclass(slots=True)
class SubGoalCounter:
    """Counts sub-goals over trials: steps name those that they settled, and how many there are, as a team records."""

    settled: int = 0
    goals: int = 0

    @property
    def rate(self) -> float | None:
        """The share that was settled; None where no step named any."""
        return self.settled / self.goals if self.goals else None

    def start_trial(self) -> StepLogger:
        """Return what counts the steps of one trial."""
        is_counted = False

        async def log_step(_number: int, step: Step) -> None:
            nonlocal is_counted
            settled, goals = step.action.arguments.get("settled"), step.action.arguments.get("goals")
            if isinstance(settled, list):
                self.settled += len(settled)
            if isinstance(goals, int) and not is_counted:
                self.goals, is_counted = self.goals + goals, True

        return log_step


@dataclass(frozen=True, slots=True)
class _ForecasterTrials:
    servers: LaboratoryServers
    setup: ForecasterVariant
    backtest: BacktestForecaster
    random: SeededRandom
    sub_goals: SubGoalCounter = field(default_factory=SubGoalCounter)

    async def trials(self, case: LaboratoryQuestion) -> Sequence[Trial]:
        numbers = range(1, self.setup.trials + 1)
        # One after the other: what trials have in common is asked, and paid for, by the first.
        return await map_concurrently(partial(self._run_trial, case), numbers, places=1)

    async def _run_trial(self, case: LaboratoryQuestion, number: int) -> Trial:
        configured, question = self.backtest.forecaster, case.question
        cutoff = self.servers.world.calendar.moment_of(case.day)
        start = GuardedTrialContext(
            # The same for all forecasters: chance that they share is none of what they differ by.
            forecast=derive_id("lab", str(question.ref)),
            cutoff=cutoff,
            trial=number,
            fitted=None,
            random=self.random,
            limits=configured.limits,
        )
        context = await self._open_trial(case, start)
        asked = question if configured.clairvoyant else hide_late_crowd(question, cutoff)
        if self.setup.hides_crowd:
            asked = replace(asked, crowd=None)
        return await run_trial(
            configured.implementation,
            asked,
            context,
            TrialSettings(
                limits=configured.limits, log=self.sub_goals.start_trial(), write_waiting=context.write_waiting
            ),
        )

    async def _open_trial(self, case: LaboratoryQuestion, start: GuardedTrialContext) -> GuardedTrialContext:
        if self.backtest.tool_factory is None:
            return start
        news_server, question = self.servers.news_server, case.question
        factory: TrialContextFactory = replace(
            self.backtest.tool_factory, fetcher=NewsPageFetcher(news_server), reader=NewsPageReader(news_server)
        )
        charge = CostAttribution(
            scope=derive_id("lab", FORECASTER_NAME, str(question.ref)),
            ref=str(question.ref),
            venue=question.ref.venue,
            forecaster=FORECASTER_NAME,
            trial=start.trial,
        )
        return await factory.open_trial(
            question, start, charge=charge, guarded=not self.backtest.forecaster.clairvoyant
        )


def require_no_broken_plugins(registry: Registry) -> Registry:
    """Return the registry; raises PluginError where a plugin is broken, for nothing could be measured without it."""
    if registry.broken:
        message = "; ".join(f"{one.plugin.name} is broken: {one.reason}" for one in registry.broken)
        raise PluginError(message)
    return registry


def file_name_of(name: str) -> str:
    """Return a name as that of a file."""
    return "-".join(re.findall(r"\w+", name))


def write_config(servers: LaboratoryServers, setup: ForecasterVariant) -> Config:
    """Write the configuration of one forecaster and return it as loaded; the environment is ignored."""
    home = servers.folder / file_name_of(setup.name)
    home.mkdir(parents=True)
    path = home / "config.toml"
    path.write_text(to_toml(_config_tables(servers, setup)), encoding="utf-8")
    return load_config(path, {})


def _config_tables(servers: LaboratoryServers, setup: ForecasterVariant) -> Mapping[str, Any]:
    judges = {} if setup.filter is None else {"filter": setup.filter}
    roles = {**setup.models_by_role, **judges, **({"auditor": SOBER} if setup.audits_leaks else {})}
    served_models = {role: f"{_PROVIDER}:lab/{model}" for role, model in roles.items()}
    place = {"settings": {"base_url": servers.press_url}}
    table = {"trials": setup.trials, "clairvoyant": setup.clairvoyant, "uses": setup.forecaster}
    return {
        "seed": servers.world.seed,
        "plugins": [*PLUGINS, *servers.plugins],
        "log": {"level": "error"},
        "limits": {"steps": TRIAL_STEPS, "seconds": TRIAL_SECONDS},
        "research": {"filter": setup.filter is not None},
        "search": {"sandbox_news": place},
        "data": {"sandbox_series": place},
        "forecasters": {FORECASTER_NAME: {**table, "settings": dict(setup.settings)}},
        "models": {_PROVIDER: {"settings": {"endpoints": {"lab": {"base_url": servers.minds_url}}}}},
        "llm": {
            "roles": {role: {"model": model, "max_tokens": 4000} for role, model in served_models.items()},
            "models": {
                model: {"price_in": PRICE_IN, "price_out": PRICE_OUT} for model in sorted({*served_models.values()})
            },
            "budget": {"question_usd": 1e6, "day_usd": 1e6, "ask_above_usd": 1e6},
        },
    }


async def discard_step(number: int, step: Step) -> None:
    """Record nothing: the laboratory records it anyway."""
