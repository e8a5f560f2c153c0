"""The bench of one trial: the tools that are allowed now, the models, and the record that both go through."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from bot.desk.leaks.caught import Caught
from bot.desk.notebook import NOTE, Notebook
from bot.desk.opening import OPENING, Opening
from bot.desk.record import Record, digest_of
from bot.desk.take import Take
from bot.desk.tools.tool import Cannot, Instrument, Outcome, misfit
from bot.desk.untrusted import plain
from bot.desk.voices import Voices
from bot.domain.conduct import Conduct
from bot.domain.prompt import Answer, Dialect, Prompt, Tool
from bot.domain.research import SourcePolicy
from bot.domain.step import Json, Observation, ToolResult
from bot.errors import ContractError
from bot.ids import digest
from bot.store.codec import Form, clean
from bot.store.documents import Documents

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use of a tool as it is on record: result, note (plain, as it is read later), and the exchanges beneath."""

    result: ToolResult
    note: Mapping[str, Any]
    names: tuple[str, ...] = ()


USE: Form[Use] = Form("use of a tool", Use)
_NOTHING = digest_of({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialBench:
    """Implements ``bot.desk.desk.Bench``; ``final_seconds`` of the trial are kept for its final answer."""

    opening: Opening
    instruments: Mapping[str, Instrument]
    notebook: Notebook
    record: Record
    voices: Voices
    documents: Documents
    final_seconds: float = 0.0

    @property
    def policy(self) -> SourcePolicy:
        """How questions of this source are worked on."""
        return self.opening.policy

    @property
    def tools(self) -> Sequence[Tool]:
        """What may be used now."""
        return self.opening.offered(self.notebook)

    @property
    def all_tools(self) -> Sequence[Tool]:
        """All tools that may be offered at any time of the trial; constant, also when the trial is resumed."""
        return self.opening.tools

    @property
    def seconds_left(self) -> float:
        """How long models can still be asked."""
        return max(0.0, self.voices.until - self.voices.clock.monotonic())

    def is_late(self, place: str) -> bool:
        """Say whether there is only time for the final answer left; a yes is on record, and the same ever after."""
        asked = digest_of({"place": place})
        if self.record.holds("time", asked):
            return True
        if self.record.sealed or self.seconds_left > self.final_seconds:
            return False
        self._open()
        self.record.at_once("time", asked, lambda: True)
        return True

    @property
    def caught(self) -> Caught:
        """What the guards caught so far."""
        return self.notebook.caught

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        """Use a tool; whatever is wrong with the call comes as a failed result too."""
        self._open()
        told = await self.record.through("tool", _asked(tool, arguments), lambda _: self._used(tool, arguments))
        use = USE.value(told.plain)
        self.record.count(use.names)
        self.notebook.add(tool, use.note)
        result = use.result
        documents = dict.fromkeys((*result.observation.documents, told.digest))
        observation = Observation(text=result.observation.text, documents=tuple(documents))
        return ToolResult(observation=observation, usage=result.usage, data=result.data, failed=result.failed)

    def dialect(self, role: str) -> Dialect:
        """Return how the role is to be asked, the same throughout the trial."""
        return self.voices.dialect(role)

    async def ask(self, role: str, prompt: Prompt, *, seed: int | None = None) -> Answer:
        """Ask the model in a role."""
        self._open()
        return (await self.voices.ask(role, prompt, seed=seed)).answer

    async def keep(self, text: str) -> str:
        """Put a text on record and return its digest."""
        content = clean(text).encode()
        return digest(content) if self.record.sealed else await self.documents.put(content, "text/plain")

    async def grade(self, conduct: Conduct) -> None:
        """Pass on how a model did; a replay grades nobody."""
        if self.voices.models is not None and not self.record.sealed:
            await self.voices.models.grade(conduct, self.voices.charge)

    def _open(self) -> None:
        # On record before the first exchange, and not for trials that use nothing.
        if not self.record.sealed and not self.record.holds("desk", _NOTHING):
            self.record.at_once("desk", _NOTHING, lambda: OPENING.plain(self.opening))

    async def _used(self, tool: str, arguments: Mapping[str, Json]) -> object:
        take = Take(self.voices, self.documents)
        try:
            outcome = await self._outcome(tool, arguments, take)
        except Cannot as cannot:
            outcome = Outcome(text=str(cannot), failed=True, note=cannot.note)
        if outcome.note.caught != Caught():
            log.info("left out", tool=tool, scope=self.record.scope, **dataclasses.asdict(outcome.note.caught))
        result = ToolResult(
            observation=Observation(text=outcome.text, documents=tuple(dict.fromkeys(take.rests_on))),
            usage=take.usage,
            data=outcome.data,
            failed=outcome.failed,
        )
        return USE.plain(Use(result=result, note=NOTE.plain(outcome.note), names=tuple(take.names)))

    async def _outcome(self, tool: str, arguments: Mapping[str, Json], take: Take) -> Outcome:
        # A tool that the trial began with may not be configured any more.
        offered = {offer.name: offer for offer in self.tools if offer.name in self.instruments}
        if tool not in offered:
            message = f"{self._why_not(str(tool))} {_available(offered)}"
            raise Cannot(message)
        if why := misfit(arguments, offered[tool].parameters):
            message = f"{tool} was not used: {why}. {_available(offered)}"
            raise Cannot(message)
        return await self.instruments[tool].run(arguments, take)

    def _why_not(self, tool: str) -> str:
        if all(tool != there.name for there in self.all_tools):
            return f"There is no tool {plain(tool, 60)!r}."
        if (why := self.opening.obstacle(tool, self.notebook)) is not None:
            return f"{tool} cannot be used now: {why}."
        return f"{tool} cannot be used any more: it is no longer configured."


def _available(offered: Mapping[str, Tool]) -> str:
    calls = (f"{name}({', '.join(map(str, _names(tool)))})" for name, tool in offered.items())
    return f"Available now: {', '.join(calls) or 'no tool'}."


def _names(tool: Tool) -> list[str]:
    properties = tool.parameters["properties"]
    return list(properties) if isinstance(properties, dict) else []


def _asked(tool: str, arguments: object) -> str:
    try:
        return digest_of({"tool": tool, "arguments": dict(arguments) if isinstance(arguments, Mapping) else arguments})
    except ContractError:
        # Nested beyond what can be written down: refused in the same words whatever it is.
        return digest_of({"tool": tool, "unreadable": True})
