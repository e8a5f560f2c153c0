"""What came of ``foxcast forecast``: the answer beside others, the evidence, the trials, and what to do next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.cli.output.beliefs import in_order, shown, words
from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.ends import ending, reasons
from bot.cli.output.explain import unheard_in_words
from bot.cli.output.explanation import Explanation
from bot.cli.output.explanation import as_plain as explanation_as_plain
from bot.cli.output.figures import in_short, moment
from bot.cli.output.steps import cost_of
from bot.desk.failures import failures_in_words, reason_of
from bot.domain.belief import Evidence
from bot.domain.forecast import Forecast
from bot.domain.prediction import CurveShape, Prediction
from bot.domain.step import Usage
from bot.store.codec import FORECAST, PREDICTIONS

DIGEST_SHOWN = 12
TRIALS = (
    Column("trial"),
    Column("end"),
    Column("answer", Kind.TEXT),
    Column("confidence"),
    Column("steps", Kind.NUMBER),
    Column("tokens", Kind.NUMBER),
    Column("USD", Kind.NUMBER),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What a free forecaster says of the same question; ``forecast`` is None where it says nothing, and ``why``."""

    name: str
    forecast: Forecast | None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A forecast that was asked for, explained, and what stands beside it."""

    found: Explanation
    forecast: Forecast
    beside: tuple[Beside, ...] = ()

    @property
    def failed(self) -> str:
        """How many of its trials failed and why, in one line; "" where none did."""
        trials = [record.trial for record in self.found.trace.trials if record.trial is not None]
        return failures_in_words(reason_of(trial) for trial in trials if not trial.counts)


def print_made(console: Console, made: Made) -> None:
    """Print all of it for a person."""
    question, forecast = made.found.trace.question, made.forecast
    heading(console, f"{forecast.forecaster} on {question.ref}")
    console.print(Text(question.title, style="bold"))
    _print_evidence(console, made)
    _print_trials(console, made)
    heading(console, "Answer")
    _print_making(console, made)
    _print_answer(console, made)
    console.print()
    console.print(
        f"forecast {forecast.id}, made {moment(forecast.made_at)} UTC ({forecast.why}); {whether_it_leaves(made)}"
    )


def whether_it_leaves(made: Made) -> str:
    """Say what becomes of it, as the ledger has it: the daemon may have been at a forecast of its own just then."""
    return "nothing was submitted" if made.found.trace.apart else "it comes before the gate in the next pass"


def as_plain(made: Made) -> dict[str, Any]:
    """Return all of it as JSON values: what ``foxcast explain`` says, with what stands beside it."""
    crowd = made.found.trace.question.crowd
    told = {
        **explanation_as_plain(made.found),
        "crowd": None if crowd is None else PREDICTIONS.plain({"crowd": crowd.prediction})["crowd"],
        "beside": {
            one.name: {"why": one.why, "forecast": None if one.forecast is None else FORECAST.plain(one.forecast)}
            for one in made.beside
        },
        "failed": made.failed or None,
    }
    plain: dict[str, Any] = in_order(told, made.found.trace.question.shape)
    return plain


def _print_evidence(console: Console, made: Made) -> None:
    for title, sign, style in (("For", "+", "green"), ("Against", "-", "red")):
        lines = [*_evidence(made, "evidence_for" if sign == "+" else "evidence_against")]
        if lines:
            heading(console, title)
        for line in lines:
            indented(console, f"{sign} {line}", by=1, style=style)


def _evidence(made: Made, side: str) -> Iterator[str]:
    """Yield the reasons that the trials ended with, each once, with its source and the trials that gave it."""
    given: dict[str, list[int]] = {}
    for record in made.found.trace.trials:
        belief = record.trial.belief if record.trial else None
        for evidence in getattr(belief, side) if belief else ():
            given.setdefault(_sourced(made, record.number, evidence), []).append(record.number)
    several = len(made.found.trace.trials) > 1
    for line, numbers in given.items():
        yield f"{line} (trial {', '.join(map(str, numbers))})" if several else line


def _sourced(made: Made, trial: int, evidence: Evidence) -> str:
    source, found = evidence.source, made.found
    if remark := found.sources.remark(trial, source):
        return f"{evidence.text} [{source}]{remark}"
    place = found.chain.address(trial, source) or source
    return f"{evidence.text} [{place}]" if place else evidence.text


def _print_trials(console: Console, made: Made) -> None:
    trace = made.found.trace
    heading(console, "Trials")
    rows, total = [], Usage()
    for trial in [record.trial for record in trace.trials if record.trial is not None]:
        total += trial.usage
        belief = trial.belief
        rows.append(
            (
                str(trial.number),
                ending(trial),
                "-" if belief is None else shortly(belief.predictions, made),
                "-" if belief is None else str(belief.confidence),
                str(trial.steps),
                f"{trial.usage.tokens_in + trial.usage.tokens_out:,}",
                f"{trial.usage.cost_usd:.4f}",
            )
        )
    console.print(table(TRIALS, rows))
    for line in reasons(record.trial for record in trace.trials if record.trial):
        console.print(line)
    if cost := cost_of(total):
        console.print(f"in all {cost}")
    for line in unheard_in_words(made.found.chain):
        console.print(line)


def shortly(predictions: Mapping[str, Prediction], made: Made) -> str:
    """Return predictions of the question in a few words."""
    shape = made.found.trace.question.shape
    if isinstance(shape, CurveShape) and len(predictions) == 1:
        return words(next(iter(predictions.values())), shape)
    return in_short(predictions, partial(shown, shape=shape))


def _print_making(console: Console, made: Made) -> None:
    how, forecast = made.found.pooled, made.forecast
    if how is not None:
        counted = ", ".join(map(str, how.counted))
        pool = f"{how.pool} of the trials {counted}" if how.pool else f"trial {counted} as it is"
        console.print(f"aggregate: {pool}: {shortly(forecast.raw, made)}")
        for number, why in how.left_out.items():
            console.print(f"left out: trial {number}, {why}")
    if forecast.raw == forecast.predictions:
        console.print("calibration: changes nothing")
    else:
        digest = (forecast.calibration or "")[:DIGEST_SHOWN]
        console.print(f"calibration {digest}: {shortly(forecast.predictions, made)}")


def _print_answer(console: Console, made: Made) -> None:
    question, forecast = made.found.trace.question, made.forecast
    answered = [one for one in made.beside if one.forecast is not None]
    names = [forecast.forecaster, *(["crowd"] if question.crowd else []), *(one.name for one in answered)]
    columns = (Column("for"), *(Column(name, Kind.TEXT) for name in names))
    crowd: Sequence[Prediction] = [question.crowd.prediction] if question.crowd else []
    rows = []
    for key, said in forecast.predictions.items():
        others = [one.forecast.predictions[key] for one in answered if one.forecast is not None]
        rows.append((key, *(words(each, question.shape) for each in (said, *crowd, *others))))
    console.print(table(columns, rows))
    if question.crowd is not None:
        console.print(f"the crowd is that of {moment(question.crowd.at)} UTC")
    for one in made.beside:
        if one.forecast is None:
            console.print(f"{one.name} says nothing: {one.why}")
