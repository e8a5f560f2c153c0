"""Builds the forecast context of a run: learning, calibration and the reforecast policy."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from bot.app.plugin_factory import PluginFactory
from bot.app.venues import question_forecasters, venue_forecasters
from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import CalibrationMode, Config
from bot.core.interfaces import Clock, RoundArchive
from bot.forecasting.calibration import IdentityCalibrator, PerForecasterCalibrator, PredictionCalibrator
from bot.forecasting.forecast_run import ForecastContext
from bot.forecasting.pair_judge import JUDGE_ROLE
from bot.forecasting.parameter_fitting import ForecasterTraining, ParameterFitter
from bot.forecasting.peers import PeerToolFactory
from bot.forecasting.reforecast_policy import ReforecastPolicy
from bot.forecasting.services import ModelGateway
from bot.forecasting.tool_factory import ToolFactory
from bot.forecasting.tuned_shrinkage import ShrinkageTuner
from bot.jobs.question_pairs import PairingContext
from bot.plugin_system.registry import Registry
from bot.store.ledger import Ledger
from bot.store.question_pairs import PairUse


def build_forecast_context(
    factory: PluginFactory,
    forecasters: Iterable[str],
    ledger: Ledger,
    archives: Sequence[RoundArchive],
    tool_factory: ToolFactory | None,
) -> ForecastContext:
    """Return what every forecast of a run has in common."""
    config, registry, clock = factory.config, factory.registry, factory.clock
    trainings = {name: forecaster_training(config, registry, name) for name in forecasters}
    return ForecastContext(
        ledger=ledger,
        parameter_fitter=ParameterFitter(
            ledger=ledger, archives=archives, trainings=trainings, clock=clock, pair_use=PairUse(config.pairs.use)
        ),
        calibrator=_build_calibrator(config, ledger, clock),
        policy=reforecast_policy(config),
        clock=clock,
        shrinkage=ShrinkageTuner(ledger=ledger, clock=clock),
        random=factory.random,
        resources=tool_factory,
        # A forecaster that failed to renew its forecast once still counts.
        peer_resources=PeerToolFactory(
            ledger,
            clock,
            max_age=2 * reforecast_policy(config).stale_after,
            pair_use=PairUse(config.pairs.use),
        ),
        # A forecast that only a person requested, of their own question or by another forecaster, is made once.
        renews=lambda question, name: name in question_forecasters(config, registry, question),
    )


def build_pairing_context(
    config: Config, registry: Registry, forecasting: ForecastContext, venues: Iterable[str], models: ModelGateway | None
) -> PairingContext:
    """Return what the job works with that matches questions of these venues."""
    pairs = config.pairs
    return PairingContext(
        ledger=forecasting.ledger,
        clock=forecasting.clock,
        policy=forecasting.policy,
        forecasters={name: venue_forecasters(config, registry, name) for name in venues},
        fits=lambda name, question: name in question_forecasters(config, registry, question),
        use=PairUse(pairs.use),
        max_questions=pairs.questions,
        judged_per_pass=pairs.judged_per_pass,
        models=models if JUDGE_ROLE in config.llm.roles else None,
    )


def forecaster_training(config: Config, registry: Registry, name: str) -> ForecasterTraining:
    """Return how a forecaster learns."""
    spec = registry.forecasters[name]
    learner = spec.learner(load_plugin_settings(spec, config)) if spec.learner else None
    return ForecasterTraining(learner=learner, shipped_parameters=spec.shipped_parameters())


def reforecast_policy(config: Config) -> ReforecastPolicy:
    """Return the reforecast policy."""
    policy = config.policy
    return ReforecastPolicy(
        stale_after=timedelta(hours=policy.stale_after_h),
        near_close=tuple(timedelta(hours=hours) for hours in policy.near_close_h),
        price_move=policy.price_move,
        min_gap=timedelta(hours=policy.min_gap_h),
    )


def _build_calibrator(config: Config, ledger: Ledger, clock: Clock) -> PredictionCalibrator:
    """Return the common calibrator, except for the forecasters that have their own setting."""
    modes = {name: table.calibration for name, table in config.forecasters.items() if table.calibration is not None}
    if CalibrationMode.GATED not in {config.calibration.use, *modes.values()}:
        return IdentityCalibrator()
    from bot.forecasting.gated_calibration import GatedCalibrator  # noqa: PLC0415 - numpy, which identity does not need

    calibrators: dict[CalibrationMode, PredictionCalibrator] = {
        CalibrationMode.IDENTITY: IdentityCalibrator(),
        CalibrationMode.GATED: GatedCalibrator(ledger=ledger, clock=clock),
    }
    return PerForecasterCalibrator(
        default=calibrators[config.calibration.use], overrides={name: calibrators[mode] for name, mode in modes.items()}
    )
