"""What went wrong in one pass of forecasts: each trouble told once, and who could not work for want of credentials."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from bot.desk.failures import failures_in_words, reason_of
from bot.domain.forecast import Trial
from bot.domain.step import Step
from bot.errors import QuotaExhausted, Unauthorized, unnamed
from bot.store.schedule import Claim

log = structlog.get_logger(__name__)

_REFUSED = tuple(f"{kind.__name__}: " for kind in (Unauthorized, QuotaExhausted))


@dataclass(slots=True)
class Mishaps:
    """Who made a forecast in this pass, whose credentials were refused, why trials failed, and what was told.

    It watches the forecasts of the pass (``bot.jobs.sitting.Watch``).
    """

    _able: set[str] = field(default_factory=set)
    _refused: dict[str, str] = field(default_factory=dict)
    _failed: list[str] = field(default_factory=list)
    _told: set[tuple[str, str]] = field(default_factory=set)

    def step(self, trial: int, number: int, step: Step, /) -> None:
        """Let a step pass."""

    def ended(self, trial: Trial, /) -> None:
        """Keep why a trial failed."""
        if not trial.counts:
            self._failed.append(reason_of(trial))

    def made(self, forecaster: str) -> None:
        """Keep that a forecaster could work."""
        self._able.add(forecaster)

    def refused(self, forecaster: str, details: Sequence[str]) -> None:
        """Keep it where every trial of a question failed for want of credentials, as what each trial said tells."""
        if details and all(detail.startswith(_REFUSED) for detail in details):
            self._refused.setdefault(forecaster, unnamed(details[0]))

    def tell(self, claim: Claim, *, until: datetime, why: str, trouble: Exception | None) -> None:
        """Log a forecast that was put off: what befell another one of the same forecaster before is no warning."""
        key = (claim.forecaster, why)
        known = key in self._told or claim.forecaster in self._refused
        self._told.add(key)
        (log.debug if known else log.warning)(
            "forecast postponed",
            question=str(claim.ref),
            forecaster=claim.forecaster,
            until=until.isoformat(timespec="seconds"),
            why=why,
            exc_info=trouble,
        )

    def settle(self, said: str) -> str:
        """Return what the pass did, with the trials that failed and why, in one line.

        Raises Unauthorized, with what the pass did, where a forecaster made nothing for want of credentials. One that
        could work as well, with another model for instance, gets a warning.
        """
        unable = {name: why for name, why in self._refused.items() if name not in self._able}
        for name in self._refused.keys() - unable.keys():
            log.warning("credentials refused for some forecasts", forecaster=name, why=self._refused[name])
        if unable:
            message = "; ".join([said, *(f"{name} made none: {why}" for name, why in unable.items())])
            raise Unauthorized(message)
        failed = failures_in_words(self._failed)
        return f"{said}; {failed}" if failed else said
