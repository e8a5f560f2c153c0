"""A forecast made by this process.

Watched step by step, paid for after a confirmation, after the forecasters that it builds on.
"""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from bot.app import App
from bot.cli.forecast_progress import ForecastView
from bot.cli.forecast_result import FreeForecast
from bot.config.schema import Config
from bot.desk.desk import cutoff_of
from bot.desk.workshop import Workshop, is_backdated
from bot.domain.forecast import Forecast
from bot.domain.question import Question
from bot.errors import (
    BudgetExhausted,
    ConfigError,
    ContextExceeded,
    FoxcastError,
    QuotaExhausted,
    Rejected,
    ServerUnreachable,
    StoreError,
    Unauthorized,
    Unavailable,
)
from bot.jobs.sitting import ASKED_FOR, NoAnswer, Seat, begin
from bot.llm.roles import models_of, provider_of
from bot.outfit import no_search
from bot.registry import Registry
from bot.store.codec import version_of

T = TypeVar("T")

# Well before the tools of a desk would take the moment for one long past.
MAX_SHARED_CUTOFF_AGE = timedelta(hours=1)

# What the failure of trials is told as.
FAILURE_TYPES: Mapping[str, type[FoxcastError]] = {
    kind.__name__: kind
    for kind in (
        *(ConfigError, Unauthorized, QuotaExhausted, Unavailable, ServerUnreachable),
        *(Rejected, BudgetExhausted, ContextExceeded),
    )
}


@dataclass(frozen=True, slots=True)
class LocalForecast:
    """One question in an open Foxcast; ``view_of`` makes the view of a forecaster.

    Nothing after ``known_until`` informs a forecast, where that is given. Unless it is to ``submit`` the forecast never
    leaves.
    """

    app: App
    question: Question
    view_for: Callable[[str], ForecastView]
    known_until: datetime | None = None
    submit: bool = False

    async def forecast(self, name: str) -> str:
        """Forecast, after those that it builds on, and return the id; raises why too many trials failed.

        A member that is there as it would be made now is not made again; one that fails is left out.
        """
        opened, seat, question = self.app, self.app.seats[name], self.question
        view = self.view_for(name)
        for member in seat.members:
            await self._member(member, view)
        _report_missing_search(opened, seat, question, view)
        with view.live_display():
            return await self._forecast(seat, view)

    async def forecast_free(self, name: str) -> FreeForecast:
        """Forecast with a free forecaster, unless what it said can only be repeated; its failure is no trouble."""
        opened, seat, question = self.app, self.app.seats[name], self.question
        ledger, now = opened.ledger, opened.clock.now()
        known = await ledger.forecasts.latest(question.ref, name)
        if known is not None and is_for_current_version(known, question) and known.cutoff == cutoff_of(question, now):
            return FreeForecast(name=name, forecast=known)
        sitting = await begin(opened.means, seat, question, ASKED_FOR, apart=not self.submit)
        made, why = await result_or_failure(sitting.forecast())
        if made is None:
            await ledger.forecasts.fail(sitting.running.id, why=why, at=opened.clock.now())
        return FreeForecast(name=name, forecast=made, why=why)

    async def _forecast(self, seat: Seat, view: ForecastView) -> str:
        opened = self.app
        means = dataclasses.replace(opened.means, watch=view)
        sitting = await begin(
            means, seat, self.question, ASKED_FOR, known_until=self.known_until, apart=not self.submit
        )
        if sitting.running.trials:
            view.print_status(f"forecast {sitting.running.id} was cut off; it goes on")
        view.show_recorded([record for record in sitting.running.trials if record.trial is not None])
        try:
            return (await sitting.forecast()).id
        except NoAnswer as nothing:
            forecasts = opened.ledger.forecasts
            await forecasts.fail(sitting.running.id, why=str(nothing), at=opened.clock.now())
            raise _failure_cause(nothing) from nothing

    async def _member(self, name: str, view: ForecastView) -> None:
        opened, question = self.app, self.question
        known = await opened.ledger.forecasts.latest(question.ref, name)
        oldest = cutoff_of(question, self.known_until or opened.clock.now()) - opened.means.policy.min_gap
        if known is not None and is_for_current_version(known, question) and known.cutoff >= oldest:
            return
        view.print_status(f"{name} forecasts first")
        made, why = await result_or_failure(self.forecast(name))
        if made is None:
            view.print_status(f"{name} is left out: {why}")


def shared_cutoff(known_until: datetime | None, now: datetime) -> datetime | None:
    """Return until when forecasts of one command know things; None, until now, once the world has gone on since."""
    return known_until if known_until is not None and now - known_until <= MAX_SHARED_CUTOFF_AGE else None


async def result_or_failure(work: Awaitable[T]) -> tuple[T | None, str]:
    """Return what comes of work, or None and why nothing did; a ledger that takes nothing any more ends everything."""
    try:
        return await work, ""
    except StoreError:
        raise
    except (NoAnswer, FoxcastError) as error:
        return None, str(error)


def asks_person(config: Config, registry: Registry) -> bool:
    """Say whether a person plays a role, and is asked on this terminal."""
    named = {provider_of(model) for model in models_of(config.llm)}
    return any(spec.converses for spec in registry.models if spec.name in named)


def is_for_current_version(made: Forecast, question: Question) -> bool:
    """Say whether a forecast is of the question as it stands."""
    return made.version == version_of(question)


def _report_missing_search(opened: App, seat: Seat, question: Question, view: ForecastView) -> None:
    """Say it where an earlier moment stands in the way of searches; that there are none at all is a warning."""
    workshop, now = opened.means.benches, opened.clock.now()
    if not seat.asks or seat.clairvoyant or not isinstance(workshop, Workshop) or not workshop.engines:
        return
    backdated = is_backdated(question, cutoff_of(question, now), now)
    if backdated and (why := no_search(workshop, backdated=True)) is not None:
        view.print_status(why)


def _failure_cause(nothing: NoAnswer) -> FoxcastError:
    """Return the error of the first trial that failed, with the reasons of all of them."""
    name = nothing.details[0].partition(": ")[0] if nothing.details else ""
    return FAILURE_TYPES.get(name, Unavailable)(str(nothing))
