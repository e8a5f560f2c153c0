"""The steps of a trial told in full: what each did, saw and cost, and what it changed in the belief."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from bot.cli.output.beliefs import moves
from bot.cli.output.console import indented
from bot.cli.output.explanation import Explanation
from bot.cli.output.figures import argument
from bot.domain.belief import Belief, Evidence
from bot.domain.step import Action, Step, Usage
from bot.errors import unnamed
from bot.lab.chain import Chain
from bot.store.trials import LoggedStep, TrialRecord

T = TypeVar("T")

ARGUMENT_SHOWN = 200
OBSERVATION_SHOWN = 400
DIGEST_SHOWN = 12


def print_steps(console: Console, found: Explanation, record: TrialRecord, *, full: bool) -> None:
    """Print one trial, step by step, and how it ended."""
    paper = _Paper(console, found, record.number, full)
    before: Belief | None = None
    for logged in record.steps:
        paper.step(logged, before)
        before = logged.step.belief
    if record.trial is not None:
        total = cost_of(record.trial.usage)
        console.print(f"in all: {record.trial.steps} steps{', ' if total else ''}{total}")
        if record.trial.detail:
            console.print(f"detail: {unnamed(record.trial.detail)}")


def cost_of(usage: Usage) -> str:
    """Return what was consumed in a line, "" for nothing."""
    if usage == Usage():
        return ""
    tokens_in, cached, tokens_out = counted_tokens(usage)
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return f"{calls}, {tokens_in} tokens in ({cached} cached), {tokens_out} out, {usage.cost_usd:.4f} USD"


def counted_tokens(usage: Usage) -> tuple[str, str, str]:
    """Return tokens in, the share of them that was cached, and tokens out."""
    share = usage.tokens_cached / usage.tokens_in if usage.tokens_in else 0.0
    return f"{usage.tokens_in:,}", f"{share:.0%}", f"{usage.tokens_out:,}"


@dataclass(frozen=True, slots=True)
class _Paper:
    console: Console
    found: Explanation
    trial: int
    full: bool

    @property
    def _chain(self) -> Chain:
        return self.found.chain

    def step(self, logged: LoggedStep, before: Belief | None) -> None:
        step = logged.step
        self.console.print(Text(f"{logged.number}. {self._action(step.action)}", style="cyan"))
        seen = self._cut(step.observation.text, OBSERVATION_SHOWN)
        if seen.strip():
            indented(self.console, seen, style="dim")
        for remark in [remark for remark in step.remarks if remark not in seen]:
            indented(self.console, remark, style="yellow")
        self._belief(step.belief, before)
        self._reasons(step.belief, before)
        self._costs(step)

    def _belief(self, belief: Belief, before: Belief | None) -> None:
        lines = moves(before.predictions if before else None, belief.predictions, self.found.trace.question.shape)
        sure = str(belief.confidence)
        if before is not None and before.confidence is not belief.confidence:
            sure = f"{before.confidence} -> {sure}"
        if len(lines) == 1:
            indented(self.console, f"belief: {lines[0]} ({sure} confidence)")
        else:
            indented(self.console, f"belief ({sure} confidence):")
            for line in lines:
                indented(self.console, line, by=5)
        if belief.anchor and (before is None or before.anchor != belief.anchor):
            indented(self.console, f"anchor: {belief.anchor}")
        if belief.reason and (before is None or before.reason != belief.reason):
            indented(self.console, f"reason: {belief.reason}")

    def _reasons(self, belief: Belief, before: Belief | None) -> None:
        sides = (
            ("+", "green", belief.evidence_for, before.evidence_for if before else ()),
            ("-", "red", belief.evidence_against, before.evidence_against if before else ()),
        )
        for sign, style, now, then in sides:
            for evidence in now if self.full else _new(now, then):
                indented(self.console, f"{sign} {self._evidence(evidence)}", style=style)
            for evidence in _new(then, now):
                indented(self.console, f"taken back: {sign} {self._evidence(evidence)}", style="dim")
        for question in _new(belief.open_questions, before.open_questions if before and not self.full else ()):
            indented(self.console, f"? {question}")

    def _evidence(self, evidence: Evidence) -> str:
        moved = "" if evidence.log_odds is None else f"{evidence.log_odds:+.2f} log-odds: "
        address = self._chain.address(self.trial, evidence.source)
        place = f"{evidence.source} {address}" if address else evidence.source
        remark = self.found.sources.remark(self.trial, evidence.source)
        return f"{moved}{evidence.text}{f' [{place}]' if place else ''}{remark}"

    def _costs(self, step: Step) -> None:
        models = dict.fromkeys(call.answer.model for call in self._chain.calls_of(self.trial, step))
        if cost := ", ".join(filter(None, (*models, cost_of(step.usage)))):
            indented(self.console, cost, style="dim")
        if step.observation.documents:
            indented(self.console, f"rests on {', '.join(self._documents(step))}", style="dim")

    def _documents(self, step: Step) -> Iterator[str]:
        for document in step.observation.documents:
            yield f"{self._chain.kind(document)} {document if self.full else document[:DIGEST_SHOWN]}"

    def _action(self, action: Action) -> str:
        if not action.arguments:
            return action.name
        told = (f"{name}={self._cut(argument(value), ARGUMENT_SHOWN)}" for name, value in action.arguments.items())
        return f"{action.name}({', '.join(told)})"

    def _cut(self, text: str, length: int) -> str:
        if self.full:
            return text
        flat = " ".join(text.split())
        return flat if len(flat) <= length else f"{flat[:length].rstrip()} ..."


def _new(now: Sequence[T], then: Sequence[T]) -> list[T]:
    return [item for item in now if item not in then]
