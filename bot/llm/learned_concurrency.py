"""What was learned about how many requests each model may get at the same time, kept in the ledger across restarts."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

import structlog

from bot.config.schema import ProviderSection
from bot.core.interfaces import Clock
from bot.llm.adaptive_limit import AdaptiveLimit, LimitReason
from bot.llm.background_tasks import BackgroundTasks
from bot.llm.request_queue import ModelQueue
from bot.llm.roles import provider_name
from bot.store.model_concurrency import ModelConcurrency, ModelConcurrencyStore

log = structlog.get_logger(__name__)
# Limits change with every round of answers; only so often are they recorded.
SAVE_INTERVAL = timedelta(seconds=2)


class LearnedConcurrency:
    """The limits of all models of one process."""

    def __init__(self, store: ModelConcurrencyStore, *, clock: Clock, tasks: BackgroundTasks) -> None:
        """Start with nothing learned; see ``load_limits``."""
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._saved: dict[str, tuple[int, LimitReason]] = {}
        self._saved_at: datetime | None = None

    async def load_limits(self, sections: Mapping[str, ProviderSection]) -> Mapping[str, Mapping[str, AdaptiveLimit]]:
        """Return the limits that were learned, by provider and model."""
        limits: dict[str, dict[str, AdaptiveLimit]] = {}
        for learned in await self._store.load():
            if (section := sections.get(provider_name(learned.model))) is not None:
                limits.setdefault(provider_name(learned.model), {})[learned.model] = AdaptiveLimit(
                    ceiling=section.concurrency, start=learned.concurrency, reason=_known_reason(learned.reason)
                )
        return limits

    @property
    def is_due(self) -> bool:
        """Whether the limits may be recorded again."""
        # A clock that was set back must not stop the recording.
        return self._saved_at is None or not timedelta() <= self._clock.now() - self._saved_at < SAVE_INTERVAL

    def save_changed(
        self, queues: Iterable[tuple[str, ModelQueue]], *, other_reason: LimitReason | None = None, now: bool = False
    ) -> None:
        """Record the limits that changed, in the background and not too often; ``now`` for the last time.

        ``other_reason`` says why no model gets more requests, whatever its limit.
        """
        if not now and not self.is_due:
            return
        self._saved_at = at = self._clock.now()
        changed = []
        for model, queue in queues:
            limit, reason = queue.limit, other_reason or queue.reason
            if self._saved.get(model) != (limit.limit, reason):
                self._saved[model] = limit.limit, reason
                changed.append(
                    ModelConcurrency(model=model, at=at, concurrency=limit.limit, ceiling=limit.ceiling, reason=reason)
                )
        if changed:
            self._tasks.start_task(self._store.save(changed))


def _known_reason(text: str) -> LimitReason:
    """Return a recorded reason; one of another version counts as none."""
    return next((reason for reason in LimitReason if reason == text), LimitReason.NOTHING)
