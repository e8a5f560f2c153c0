"""The blend forecaster in the laboratory, on the answers that its members gave before."""

from collections.abc import Mapping, Sequence

from bot.app.app import open_backtest_forecaster
from bot.app.forecast_context import forecaster_training
from bot.core.beliefs import StepObservation, ToolResult
from bot.core.clock import SeededRandom
from bot.core.forecasts import Trial
from bot.core.ids import derive_id
from bot.core.interfaces import HistoryLearner
from bot.core.learning import FittedParameters, ResolvedForecast
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BinaryOutcome, Resolution
from bot.core.predictions import BinaryPrediction
from bot.core.values import Json
from bot.forecasting.aggregation import PEER_FORECASTS
from bot.forecasting.forecast_run import ConfiguredForecaster
from bot.forecasting.trial import TrialSettings, run_trial
from bot.forecasting.trial_tools import GuardedTrialContext
from bot.plugin_system.registry import load_registry
from bot.simulator.laboratory.forecaster_variants import ForecasterVariant
from bot.simulator.laboratory.questions import LaboratoryQuestion
from bot.simulator.laboratory.trial_runner import (
    FORECASTER_NAME,
    LaboratoryRun,
    LaboratoryServers,
    discard_step,
    require_no_broken_plugins,
    write_config,
)
from bot.store.serialization import PREDICTIONS

TARGET_KEY = "outcome"
# When an outcome is reported, in days after it is known.
OUTCOME_DELAY_DAYS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAnswers:
    """The members' answers, in the order of the cases."""

    cases: Sequence[LaboratoryQuestion]
    answers_by_member: Mapping[str, Sequence[float]]

    def answers_at(self, place: int) -> Json:
        """Return the members' answers to a question, in the form of the peer tool."""
        return [
            {"forecaster": name, "predictions": PREDICTIONS.plain({TARGET_KEY: BinaryPrediction(answers[place])})}
            for name, answers in self.answers_by_member.items()
        ]


@dataclass(frozen=True, kw_only=True)
class _MemberTrialContext(GuardedTrialContext):
    """Offers what the members said, and nothing else."""

    answers: Json = None

    async def use_tool(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        observation = StepObservation(text="what the members said")
        return ToolResult(observation=observation, data={"answers": self.answers}, failed=tool != PEER_FORECASTS)


async def run_blend(servers: LaboratoryServers, members: MemberAnswers) -> LaboratoryRun:
    """Let the blend answer all cases."""
    setup = ForecasterVariant(
        name="blend",
        forecaster="blend",
        settings={"members": [*members.answers_by_member]},
        models_by_role={},
        filter=None,
    )
    config = write_config(servers, setup)
    registry = require_no_broken_plugins(load_registry(config))
    learner = forecaster_training(config, registry, FORECASTER_NAME).learner
    assert isinstance(learner, HistoryLearner)  # noqa: S101 - it learns from what its members said
    async with open_backtest_forecaster(config, registry, FORECASTER_NAME, clock=servers.clock) as backtest:
        trials = [
            [
                await _run_trial(
                    servers, backtest.forecaster, members, place, _fit_weights(servers, learner, members, place)
                )
            ]
            for place in range(len(members.cases))
        ]
    return LaboratoryRun(setup=setup, trials=trials, seconds=0.0)


async def _run_trial(
    servers: LaboratoryServers,
    configured: ConfiguredForecaster,
    members: MemberAnswers,
    place: int,
    fitted: FittedParameters,
) -> Trial:
    case = members.cases[place]
    context = _MemberTrialContext(
        forecast=derive_id("lab", str(case.question.ref)),
        cutoff=servers.world.calendar.moment_of(case.day),
        trial=1,
        fitted=fitted,
        random=SeededRandom(servers.world.seed),
        limits=configured.limits,
        answers=members.answers_at(place),
    )
    return await run_trial(
        configured.implementation, case.question, context, TrialSettings(limits=configured.limits, log=discard_step)
    )


def _fit_weights(
    servers: LaboratoryServers, learner: HistoryLearner, members: MemberAnswers, place: int
) -> FittedParameters:
    """Return the weights that were known at the cutoff of a case."""
    at, before = servers.world.calendar.moment_of, servers.world.calendar.moment_of(members.cases[place].day)
    pasts = [
        ResolvedForecast(
            forecast=derive_id("lab", name, str(case.question.ref)),
            forecaster=name,
            question=case.question,
            prediction=BinaryPrediction(answers[other]),
            resolution=Resolution(
                ref=case.question.ref,
                target=TARGET_KEY,
                outcome=BinaryOutcome(float(case.outcome)),
                resolved_at=at(case.known_day + OUTCOME_DELAY_DAYS),
            ),
            cutoff=at(case.day),
        )
        for other, case in enumerate(members.cases)
        if at(case.known_day + OUTCOME_DELAY_DAYS) < before
        for name, answers in members.answers_by_member.items()
    ]
    payload = learner.fit_history(pasts, before=before)
    return FittedParameters(forecaster=FORECASTER_NAME, before=before, examples=len(pasts), payload=payload)
