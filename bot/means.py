"""The means of forecasting that config chooses: who learns from what, who corrects, and when it is done again."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from bot.config.plugin_settings import load_plugin_settings
from bot.config.schema import CalibrationMode, Config
from bot.desk.peers import PeerBenches
from bot.desk.workshop import Workshop
from bot.jobs.calibrate import Calibrator, Chosen, Identity
from bot.jobs.learn import School, Teacher
from bot.jobs.policy import Reforecast
from bot.jobs.sitting import Means
from bot.outfit import Outfitter
from bot.ports import Archive, Clock
from bot.registry import Registry
from bot.store.ledger import Ledger
from bot.venues import forecasters_for


def means_of(
    outfitter: Outfitter, seats: Iterable[str], ledger: Ledger, archives: Sequence[Archive], workshop: Workshop | None
) -> Means:
    """Return what every forecast of a run has in common."""
    config, registry, clock = outfitter.config, outfitter.registry, outfitter.clock
    schools = {name: school_of(config, registry, name) for name in seats}
    return Means(
        ledger=ledger,
        teacher=Teacher(ledger=ledger, archives=archives, schools=schools, clock=clock),
        calibrator=_calibrator(config, ledger, clock),
        policy=policy_of(config),
        clock=clock,
        random=outfitter.random,
        benches=workshop,
        # One that failed to renew its forecast once still counts.
        peers=PeerBenches(ledger, clock, oldest=2 * policy_of(config).stale_after),
        # What only a person asked for, of a question of their own or of another forecaster, is forecast once.
        repeats=lambda question, name: name in forecasters_for(config, registry, question),
    )


def school_of(config: Config, registry: Registry, name: str) -> School:
    """Return how a forecaster learns."""
    spec = registry.forecasters[name]
    learner = spec.learner(load_plugin_settings(spec, config)) if spec.learner else None
    return School(learner=learner, shipped=spec.shipped())


def policy_of(config: Config) -> Reforecast:
    """Return when a question is forecast again."""
    policy = config.policy
    return Reforecast(
        stale_after=timedelta(hours=policy.stale_after_h),
        near_close=tuple(timedelta(hours=hours) for hours in policy.near_close_h),
        price_move=policy.price_move,
        min_gap=timedelta(hours=policy.min_gap_h),
    )


def _calibrator(config: Config, ledger: Ledger, clock: Clock) -> Calibrator:
    """Return the common calibrator, but for the forecasters that have a word of their own."""
    uses = {name: table.calibration for name, table in config.forecasters.items() if table.calibration is not None}
    if CalibrationMode.GATED not in {config.calibration.use, *uses.values()}:
        return Identity()
    from bot.jobs.gated import GatedCalibrator  # noqa: PLC0415 - numpy, which identity does not need

    calibrators: dict[CalibrationMode, Calibrator] = {
        CalibrationMode.IDENTITY: Identity(),
        CalibrationMode.GATED: GatedCalibrator(ledger=ledger, clock=clock),
    }
    return Chosen(
        common=calibrators[config.calibration.use], own={name: calibrators[use] for name, use in uses.items()}
    )
