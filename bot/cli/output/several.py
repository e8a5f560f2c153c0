"""Forecasts of one question by several forecasters, side by side with what each of them took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.agent.ballot import distance
from bot.agent.start import Anchor, starting_point
from bot.cli.output.beliefs import in_order, words
from bot.cli.output.console import Column, Kind, heading, table
from bot.cli.output.ends import ending
from bot.cli.output.forecast import Made, shortly, whether_it_leaves
from bot.cli.output.forecast import as_plain as made_as_plain
from bot.domain.forecast import Trial
from bot.domain.prediction import Binary, Prediction
from bot.domain.question import Question
from bot.domain.step import Usage
from bot.store.codec import PREDICTIONS, QUESTION

COLUMNS = (
    Column("forecaster"),
    Column("answer", Kind.TEXT),
    Column("moved", Kind.NUMBER),
    Column("confidence"),
    Column("steps", Kind.NUMBER),
    Column("calls", Kind.NUMBER),
    Column("tokens", Kind.NUMBER),
    Column("USD", Kind.NUMBER),
    Column("seconds", Kind.NUMBER),
    Column("end"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """What one of several forecasters came to: ``made``, or None with the reason; ``seconds`` is how long that took."""

    name: str
    made: Made | None
    why: str = ""
    seconds: float = 0.0

    @property
    def trials(self) -> list[Trial]:
        """The trials of the forecast."""
        records = () if self.made is None else self.made.found.trace.trials
        return [record.trial for record in records if record.trial is not None]

    @property
    def usage(self) -> Usage:
        """What all trials took."""
        return sum((trial.usage for trial in self.trials), Usage())

    @property
    def steps(self) -> int:
        """How many steps all trials took."""
        return sum(trial.steps for trial in self.trials)

    @property
    def confidence(self) -> str:
        """How sure the trials were, each word once, by how many said so."""
        return _counted([str(trial.belief.confidence) for trial in self.trials if trial.belief is not None])

    @property
    def ends(self) -> str:
        """How the trials ended, each word once, by how many did."""
        return _counted([ending(trial) for trial in self.trials])

    def moved(self, start: Prediction) -> float:
        """Return how far the answer is from where it started: of yes or no signed, else the largest difference."""
        said: Mapping[str, Prediction] = {} if self.made is None else self.made.forecast.predictions
        first = next(iter(said.values()), None)
        if len(said) == 1 and isinstance(first, Binary) and isinstance(start, Binary):
            return first.probability - start.probability
        return distance(dict.fromkeys(said, start), said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """All of them, in the order in which they were named."""

    question: Question
    asides: Sequence[Aside]

    @property
    def start(self) -> Anchor:
        """What answers are compared with: the crowd's estimate, where there is one, else even odds."""
        return starting_point(self.question)


def print_several(console: Console, several: Several) -> None:
    """Print all of it for a person."""
    question, start = several.question, several.start
    heading(console, f"{len(several.asides)} forecasters on {question.ref}")
    console.print(Text(question.title, style="bold"))
    beginning = "crowd" if start.kind == "crowd" else "even odds"
    rows = [(beginning, words(start.prediction, question.shape), *["-"] * 8)]
    rows += [_row(aside, aside.made, start) for aside in several.asides if aside.made is not None]
    console.print(table(COLUMNS, rows))
    console.print(f"moved: from {start.text if start.kind == 'crowd' else 'even odds'}")
    for aside in several.asides:
        if aside.made is None:
            console.print(f"{aside.name} is left out: {aside.why}")
    for aside in several.asides:
        if aside.made is not None:
            console.print(f"forecast {aside.made.forecast.id} by {aside.name}; {whether_it_leaves(aside.made)}")


def as_plain(several: Several) -> dict[str, Any]:
    """Return all of it as JSON values: of each forecaster what ``foxcast forecast`` says, with a summary."""
    start = several.start
    told = {
        "question": QUESTION.plain(several.question),
        "start": {"kind": start.kind, **PREDICTIONS.plain({"prediction": start.prediction})},
        "forecasts": {
            aside.name: {**made_as_plain(aside.made), "summary": _summary(aside, start)}
            for aside in several.asides
            if aside.made is not None
        },
        "left_out": {aside.name: aside.why for aside in several.asides if aside.made is None},
    }
    plain: dict[str, Any] = in_order(told, several.question.shape)
    return plain


def _row(aside: Aside, made: Made, start: Anchor) -> tuple[str, ...]:
    usage, moved = aside.usage, aside.moved(start.prediction)
    signed = isinstance(start.prediction, Binary) and len(made.forecast.predictions) == 1
    return (
        aside.name,
        shortly(made.forecast.predictions, made),
        f"{moved:+.3f}" if signed else f"{moved:.3f}",
        aside.confidence,
        str(aside.steps),
        str(usage.calls),
        f"{usage.tokens_in + usage.tokens_out:,}",
        f"{usage.cost_usd:.4f}",
        f"{aside.seconds:.1f}",
        aside.ends,
    )


def _summary(aside: Aside, start: Anchor) -> dict[str, Any]:
    usage = aside.usage
    return {
        "moved": aside.moved(start.prediction),
        "confidence": aside.confidence,
        "steps": aside.steps,
        "calls": usage.calls,
        "tokens": usage.tokens_in + usage.tokens_out,
        "cost_usd": usage.cost_usd,
        "seconds": aside.seconds,
        "end": aside.ends,
    }


def _counted(said: Sequence[str]) -> str:
    if len(said) <= 1:
        return said[0] if said else "-"
    counts = {word: said.count(word) for word in dict.fromkeys(said)}
    return ", ".join(f"{count} {word}" for word, count in counts.items())
