"""Where the tools of one trial are used: the question, the guards, and what reads pages."""

from dataclasses import dataclass, field
from datetime import datetime

from bot.config.schema import ResearchSection
from bot.desk.leaks.blocks import Blocks
from bot.desk.notebook import Notebook
from bot.desk.parts import PageReader
from bot.desk.record import Record
from bot.desk.troubles import Troubles
from bot.desk.untrusted import plain, quoted
from bot.domain.question import Question
from bot.errors import FoxcastError
from bot.ports import Fetcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of a trial.

    ``cutoff`` is None where nothing is guarded; ``backdated`` says that the world has gone on since the cutoff;
    ``content`` that a model judges texts by what they tell.
    """

    cutoff: datetime | None
    backdated: bool
    content: bool
    blocks: Blocks

    @property
    def fresh_pages(self) -> bool:
        """Whether pages may be used as they are now."""
        return self.content or not self.backdated


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What all tools of a trial share; data is asked for as known before ``bound``."""

    question: Question
    section: ResearchSection
    guards: Guards
    bound: datetime
    notebook: Notebook
    record: Record
    fetcher: Fetcher
    reader: PageReader
    troubles: Troubles = field(default_factory=Troubles)

    def warn(self, event: str, who: str, why: FoxcastError) -> None:
        """Log trouble with what the tools work with, once a day."""
        self.troubles.tell(event, who=who, why=why, now=self.record.clock.now())

    def shown(self, text: str, limit: int) -> str:
        """Return foreign text cleaned, cut and without blocked addresses, as it may be shown."""
        return self.guards.blocks.redacted(plain(text, limit))

    def quoted(self, text: str, label: str, limit: int) -> str:
        """Return the same in its fence."""
        # The remark that a text was cut comes on top of the limit.
        return quoted(self.shown(text, limit), label, 2 * limit + 100)
