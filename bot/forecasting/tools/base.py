"""What every tool shares: the context it runs in, its guards, and how failures are described."""

from dataclasses import dataclass, field
from datetime import datetime

from bot.config.schema import ResearchSection
from bot.core.errors import AuthenticationError, FoxcastError, MalformedDataError, NotFoundError, RequestRejectedError
from bot.core.interfaces import PageFetcher
from bot.core.questions import Question
from bot.forecasting.failures import DailyWarnings
from bot.forecasting.leak_guard.blocked_addresses import BlockedAddresses
from bot.forecasting.recording import TrialRecording
from bot.forecasting.services import PageTextReader
from bot.forecasting.trial_memory import TrialMemory
from bot.forecasting.untrusted_text import clean_text, fence_text


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakGuards:
    """The guards of a trial.

    ``cutoff`` is None if nothing is guarded; ``backdated`` says that the cutoff is in the past; ``judges_content``
    that a model judges texts by their content.
    """

    cutoff: datetime | None
    backdated: bool
    judges_content: bool
    blocks: BlockedAddresses

    @property
    def allows_current_pages(self) -> bool:
        """Whether pages may be used as they are now."""
        return self.judges_content or not self.backdated


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What all tools of a trial share; data is asked for as known before ``data_before``."""

    question: Question
    section: ResearchSection
    guards: LeakGuards
    data_before: datetime
    memory: TrialMemory
    record: TrialRecording
    fetcher: PageFetcher
    reader: PageTextReader
    warnings: DailyWarnings = field(default_factory=DailyWarnings)

    def warn(self, event: str, who: str, why: FoxcastError) -> None:
        """Log a failure of a service that the tools use, once a day."""
        self.warnings.warn_once(event, who=who, why=why, now=self.record.clock.now())

    def clean(self, text: str, limit: int) -> str:
        """Return foreign text cleaned, cut and without blocked addresses, as it may be shown."""
        return self.guards.blocks.redact(clean_text(text, limit))

    def fence(self, text: str, label: str, limit: int) -> str:
        """Return the same in its fence."""
        # The remark that a text was cut comes on top of the limit.
        return fence_text(self.clean(text, limit), label, 2 * limit + 100)


def describe_failure(error: FoxcastError) -> str:
    """Say in neutral words for the model what failed; the record has the details."""
    match error:
        case NotFoundError():
            return "there is no such thing there"
        case RequestRejectedError():
            return "it was refused"
        case MalformedDataError():
            return "what came could not be read"
        case AuthenticationError():
            return "there is no access"
        case _:
            return "it cannot be reached now"
