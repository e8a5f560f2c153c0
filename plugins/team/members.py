"""The members of a team and what they know.

Their messages, their facts and search results, the board of sub-goals, and what each member believes.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import NamedTuple

from bot.api import (
    AnswerFormat,
    ChatSession,
    ConfidenceLevel,
    Evidence,
    FoxcastError,
    Json,
    Message,
    ShownSource,
    TargetPredictions,
    ToolDefinition,
)
from plugins.team.settings import SubGoal


@dataclass(frozen=True, slots=True)
class TeamMessage:
    """One message, and the joint step in which it was sent; a seed is one that exists before the work begins."""

    member: str
    text: str
    seed: bool = False
    joint_step: int = 0


@dataclass(slots=True, kw_only=True)
class TeamDialogue:
    """The dialogue so far. ``budget`` is how many messages may be sent, seeds not counted."""

    budget: int
    likeness: float
    seeds: tuple[TeamMessage, ...] = ()
    sent: list[TeamMessage] = field(default_factory=list)

    @property
    def left(self) -> int:
        """How many messages may still be sent."""
        return max(0, self.budget - len(self.sent))

    def last(self, count: int) -> Sequence[TeamMessage]:
        """Return the last dialogues, oldest first, after the seeds, which are always first.

        All messages of one joint step are one dialogue.
        """
        spoken = sorted({message.joint_step for message in self.sent})[-count:]
        return (*self.seeds, *(message for message in self.sent if message.joint_step in spoken))

    def repeats(self, text: str) -> bool:
        """Whether a message repeats an earlier one, by any member, in the same words or nearly so."""
        new = normalize_words(text)
        return any(new == old or self._alike(new, old) for old in map(_normalize_message, (*self.seeds, *self.sent)))

    def send(self, who: str, text: str, *, joint_step: int = 0) -> None:
        """Add a message. Raises ValueError for a repetition and for one beyond the budget."""
        if not self.left or self.repeats(text):
            message = "this message may not be sent"
            raise ValueError(message)
        self.sent.append(TeamMessage(who, text, joint_step=joint_step))

    def _alike(self, new: str, old: str) -> bool:
        matcher = difflib.SequenceMatcher(None, new, old, autojunk=False)
        # The quick bounds are upper ones and save most of the work.
        return (
            matcher.real_quick_ratio() >= self.likeness
            and matcher.quick_ratio() >= self.likeness
            and matcher.ratio() >= self.likeness
        )


def normalize_words(text: str) -> str:
    """Return the words of a text: in lower case, without punctuation."""
    return " ".join(re.sub(r"[^\w\s]", " ", text.casefold()).split())


def _normalize_message(message: TeamMessage) -> str:
    return normalize_words(message.text)


_ADDRESS = re.compile(r"https?://[^\s<>\"'()]+")

# The sides that a fact may speak for: of yes or no, of a number, of a date. Options are sides of their own.
FOR, AGAINST, HIGHER, LOWER, LATER, EARLIER = "for", "against", "higher", "lower", "later", "earlier"

QUESTION_SOURCE = "question"
SEARCH_TOOL, SUMMARISE_TOOL, LOOKUP_TOOL = "web_search", "summarize_results", "lookup_url"
_SHOWS_SOURCES = frozenset({SEARCH_TOOL, SUMMARISE_TOOL, LOOKUP_TOOL})
# The beginning of the names of tools that read pages of a reference work.
_PAGE_TOOL_PREFIX = "fetch_"
# The names of tools that list the headings of a page.
_HEADINGS_SUFFIX = "_toc"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFact:
    """One fact, its source, its finder, and the sub-goal that it settles ("" for none).

    ``speaks`` is the side that it speaks for: a word of ``evidence_sides``, or "".
    """

    text: str
    source: str
    member: str
    goal: str = ""
    speaks: str = ""

    @property
    def evidence(self) -> Evidence:
        """The fact as the ledger records it."""
        side = "" if self.speaks in {"", FOR, AGAINST} else f", for {self.speaks}"
        return Evidence(text=f"{self.text} ({self.member}{side})", source=self.source)

    def is_against(self, likely: str) -> bool:
        """Whether it speaks against the answer; ``likely`` is the likeliest option of a choice, else ""."""
        return self.speaks != likely if likely and self.speaks else self.speaks in {AGAINST, LOWER, EARLIER}


@dataclass(frozen=True, slots=True)
class UnreadResult:
    """A search result that was shown only as an excerpt; its title is in the words of others."""

    source: ShownSource
    goal: str

    @property
    def label(self) -> str:
        """Its name in the tool's answer."""
        return self.source.name


@dataclass(slots=True, kw_only=True)
class MemberMemory:
    """The memory of one member.

    ``calls_made`` are the tool calls so far, ``sources`` what its facts may name, ``pages`` the last page whose
    headings it saw, by the beginning of the name of the tool.
    """

    facts: list[MemberFact] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)
    unread: list[UnreadResult] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    calls_made: set[str] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    pages: dict[str, str] = field(default_factory=dict)

    def add_call(self, tool: str, arguments: Mapping[str, Json]) -> None:
        """Remember a tool call that begins, whatever its result."""
        self.calls_made.add(use_key(tool, arguments))
        if isinstance(query := arguments.get("query"), str):
            self.searched.append(query)
        if tool.endswith(_HEADINGS_SUFFIX) and isinstance(page := arguments.get("page"), str):
            self.pages[tool.removesuffix(_HEADINGS_SUFFIX)] = page

    def add_result(self, tool: str, shown: Sequence[ShownSource], goal: str, *, url: str = "") -> None:
        """Remember the result of a tool call: what can be cited from now on, and what can be read.

        ``url`` is the address that was read, if one was. Only search results and pages have names and addresses of
        their own; for any other tool the tool itself is cited, whatever its text says. An address that a page only
        mentions was not read, and is no source.
        """
        self.sources |= {tool, url} if url else {tool}
        if tool in _SHOWS_SOURCES or tool.startswith(_PAGE_TOOL_PREFIX):
            self.sources.update(source.name for source in shown)
        if tool == SEARCH_TOOL or tool.startswith(_PAGE_TOOL_PREFIX):
            for source in filter(lambda source: source.url, shown):
                # Unchanged, and in the spelling that is compared when a fact cites it.
                self.sources |= {source.url, *_find_addresses(source.url)}
        if tool == SEARCH_TOOL:
            known = {found.label for found in self.unread} | set(self.read)
            self.unread += [UnreadResult(source, goal) for source in shown if source.name not in known]

    def mark_read(self, labels: Iterable[str]) -> None:
        """Remove these from the unread results."""
        known = {*labels}
        self.read += [found.label for found in self.unread if found.label in known]
        self.unread = [found for found in self.unread if found.label not in known]

    def knows_source(self, source: str) -> bool:
        """Whether a fact may name this: something that was shown to the member."""
        named = {part for part in (source, *_find_addresses(source), *re.findall(r"[\w:.-]+", source)) if part}
        return bool(named & self.sources)


@dataclass(slots=True, kw_only=True)
class GoalBoard:
    """The sub-goals of the team: the owner of each, and the fact that settled it."""

    goals: tuple[SubGoal, ...]
    owner: dict[str, str] = field(default_factory=dict)
    settled: dict[str, MemberFact] = field(default_factory=dict)

    def share_out(self, names: Sequence[str]) -> None:
        """Deal the open sub-goals to these members in turn; those that one of them owns stay its own."""
        homeless = [goal for goal in self.open_goals() if self.owner.get(goal.name) not in names]
        held = {name: sum(self.owner.get(goal.name) == name for goal in self.open_goals()) for name in names}
        # The member with the fewest is first, in the order of the team.
        for goal, name in zip(homeless, cycle(sorted(names, key=lambda name: held[name])), strict=False):
            self.owner[goal.name] = name

    def open_goals(self) -> list[SubGoal]:
        """Return the open sub-goals, in their order."""
        return [goal for goal in self.goals if goal.name not in self.settled]

    def goals_for(self, who: str) -> list[SubGoal]:
        """Return what a member works on: its own open sub-goals, else those of the others."""
        return [goal for goal in self.open_goals() if self.owner.get(goal.name) == who] or self.open_goals()

    def settle(self, fact: MemberFact) -> bool:
        """Mark a sub-goal as settled by a fact; False if it does not exist, or was settled before."""
        if not fact.goal or not fact.source or fact.goal not in {goal.name for goal in self.open_goals()}:
            return False
        self.settled[fact.goal] = fact
        return True

    @property
    def efficiency(self) -> float:
        """The share of the sub-goals that were settled: the counterpart of the Transport Rate."""
        return len(self.settled) / len(self.goals)


def use_key(tool: str, arguments: Mapping[str, Json]) -> str:
    """Return the key of a tool call: calls that differ only in case and punctuation have the same."""
    normalized = {
        name: normalize_words(value) if isinstance(value, str) else value for name, value in arguments.items()
    }
    return f"{tool} {json.dumps(normalized, sort_keys=True)}"


def _find_addresses(text: str) -> list[str]:
    return [address.rstrip(".,;") for address in _ADDRESS.findall(text)]


@dataclass(frozen=True, slots=True)
class StatedBelief:
    """A member's stated belief, and why."""

    predictions: TargetPredictions
    confidence: ConfidenceLevel
    reason: str


@dataclass(frozen=True, slots=True)
class KnowledgeMarks:
    """How much there was to know at some moment: messages and settled sub-goals of others, facts of its own."""

    messages: int = 0
    settled: int = 0
    facts: int = 0


class MemberTools(NamedTuple):
    """The four tools that a member is ever asked to call: the same list in each of its requests."""

    message: ToolDefinition
    thoughts: ToolDefinition
    choice: ToolDefinition
    notes: ToolDefinition


@dataclass(slots=True, kw_only=True, eq=False)
class TeamMember:
    """One member. ``thinks`` says that it thinks aloud before it chooses; a person does not, and reads pages.

    ``opening`` begins its conversation in each joint step, which is made anew from memory, so that none grows long.
    ``left_because`` says why it no longer takes part ("" while it does), ``failure`` is the error if it could not
    be asked. ``pending_search`` is the number of the search whose results it is about to read, 0 for none.
    """

    name: str
    session: ChatSession
    answer_format: AnswerFormat
    question_text: str
    tools: MemberTools
    thinks: bool = True
    is_person: bool = False
    opening: Sequence[Message] = ()
    memory: MemberMemory = field(default_factory=MemberMemory)
    belief: StatedBelief | None = None
    left_because: str = ""
    failure: FoxcastError | None = None
    last: str = ""
    pending_search: int = 0
    marks_at_plan: KnowledgeMarks = field(default_factory=KnowledgeMarks)
    marks_at_belief: KnowledgeMarks = field(default_factory=KnowledgeMarks)

    @property
    def exact_tools(self) -> bool:
        """Whether its tools list only what is possible now: for a grammar, and for a person. Others keep the same."""
        return self.is_person or self.session.percent

    @property
    def active(self) -> bool:
        """Whether it still takes part."""
        return not self.left_because

    def leave(self, why: str, failure: FoxcastError | None = None) -> None:
        """Take no further part; the stated belief is kept."""
        if self.active:
            self.left_because, self.failure = why, failure
