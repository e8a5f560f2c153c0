"""One question on paper: what is asked, what was thought step by step, what was decided, what happened."""

from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console
from rich.text import Text

from bot.cli.dossier import Case, Dossier
from bot.cli.output.beliefs import in_order, shown
from bot.cli.output.console import Column, Kind, heading, indented, table
from bot.cli.output.figures import in_short, moment, predictions
from bot.cli.output.marks import mark_cells, mark_columns, outcome_words
from bot.cli.output.plain import plain
from bot.cli.output.trace import print_trial
from bot.domain.forecast import Forecast
from bot.domain.prediction import CurveShape, Prediction
from bot.domain.question import Question
from bot.domain.score import BRIER, CHOICE_BRIER
from bot.domain.submission import Decision, Hold, Send
from bot.store.codec import FORECAST, QUESTION, RESOLUTION, STEP, TRIAL
from bot.store.questions import QuestionState

TEXT_SHOWN = 600
FILED_BY = {"category": "category", "creator": "creator_name"}
TARGETS = (Column("target"), Column("resolves (UTC)"))


def print_dossier(console: Console, found: Dossier) -> None:
    """Print all of it for a person; each forecast on the grid, and with the options, for which it was made."""
    _print_question(console, found.question, found.state)
    if found.excluded:
        heading(console, "Left out")
        console.print(f"{found.excluded}: it is neither forecast nor bet on")
    elif not found.cases:
        heading(console, "Not forecast yet")
        console.print("forecast what is due with: foxcast run --once")
    for case in found.cases:
        _print_case(console, found, case)
    if len(found.history) > len(found.cases):
        heading(console, "All forecasts")
        columns = (*map(Column, ("made (UTC)", "id", "forecaster", "forecast")), Column("why", Kind.TEXT))
        rows = [
            (moment(one.made_at), one.id, one.forecaster, in_short(one.predictions, _each(found, one)), one.why)
            for one in found.history
        ]
        console.print(table(columns, rows))


def _each(found: Dossier, forecast: Forecast) -> Callable[[Prediction], str]:
    return partial(shown, shape=found.versions[forecast.version].shape)


def _print_question(console: Console, question: Question, state: QuestionState) -> None:
    console.print(Text(question.title, style="bold"))
    about = [str(question.ref), state.value, *(part for part in (question.source, question.family) if part)]
    console.print(", ".join(about))
    if question.url:
        console.print(question.url)
    filed = {"tags": question.tags, "tournaments": question.tournaments}
    filed |= {name: (question.facts.get(fact, ""),) for name, fact in FILED_BY.items()}
    for name, under in filed.items():
        if any(under):
            console.print(f"{name}: {plain(', '.join(under))}")
    for name, at in (("opens", question.opens_at), ("closes", question.closes_at), ("known up to", question.as_of)):
        if at is not None:
            console.print(f"{name} {moment(at)} UTC")
    if question.crowd is not None:
        console.print(f"crowd: {shown(question.crowd.prediction, question.shape)} at {moment(question.crowd.at)} UTC")
    for text in (question.background, question.criteria):
        if text.strip():
            words = text.strip() if len(text) <= TEXT_SHOWN else f"{text.strip()[:TEXT_SHOWN]} ..."
            console.print()
            indented(console, words, by=2, style="dim")


def _print_case(console: Console, found: Dossier, case: Case) -> None:
    forecast = case.forecast
    heading(console, f"{forecast.forecaster}, forecast {forecast.id} (revision {forecast.revision}, {forecast.why})")
    console.print(f"made {moment(forecast.made_at)} UTC with what was known until {moment(forecast.cutoff)} UTC")
    if forecast.fitted:
        console.print(f"parameters {forecast.fitted[:12]}")
    if changes := found.changes(forecast.version):
        indented(console, f"the question has changed since: {'; '.join(changes)}", by=0)
    question = case.trace.question
    # Quantiles are too long for a line of their own width.
    kind = Kind.TEXT if isinstance(question.shape, CurveShape) else Kind.NUMBER
    columns = (*TARGETS, Column("forecast", kind), Column("outcome"), *mark_columns(question.shape))
    console.print(table(columns, [_target(found, case, target.key) for target in question.targets]))
    for record in case.trace.trials:
        print_trial(console, record, partial(shown, shape=question.shape), several=len(case.trace.trials) > 1)
    if forecast.raw != forecast.predictions:
        each = partial(shown, shape=question.shape)
        console.print(f"calibrated from {predictions(forecast.raw, each)} to {predictions(forecast.predictions, each)}")
    for row in case.decisions:
        console.print(f"decision {moment(row.at)} UTC: {_decision(row.decision)}")
    for intent in case.intents:
        detail = f" ({intent.detail})" if intent.detail else ""
        console.print(f"intent {intent.intent.id}: {intent.state}{detail}, {intent.mode}")


def _target(found: Dossier, case: Case, key: str) -> tuple[str, ...]:
    target, resolution = case.trace.question.target(key), found.outcomes.get(key)
    return (
        key,
        moment(target.resolves_at),
        shown(case.forecast.predictions[key], case.trace.question.shape),
        outcome_words(resolution.outcome if resolution else None, case.trace.question.shape),
        *mark_cells(found.marks(case, key), case.trace.question.shape),
    )


def _decision(decision: Decision) -> str:
    match decision:
        case Send(mode=mode, why=why):
            return f"send in mode {mode}: {why}"
        case Hold(why=why, until=None):
            return f"hold: {why}"
        case Hold(why=why, until=until):
            return f"hold: {why}; asked again from {moment(until)} UTC on"


def as_plain(found: Dossier) -> dict[str, Any]:
    """Return all of it as JSON values; under ``versions`` is what each forecast of an earlier version was made for."""
    older = {
        one: question for one, question in found.versions.items() if question.as_stated != found.question.as_stated
    }
    told = {
        "question": QUESTION.plain(found.question),
        "excluded": found.excluded or None,
        "state": found.state.value,
        "versions": {
            one: {"question": QUESTION.plain(question), "changes": list(found.changes(one))}
            for one, question in older.items()
        },
        "forecasts": [_case_plain(found, case) for case in found.cases],
        "history": [FORECAST.plain(forecast) for forecast in found.history],
        "outcomes": {target: RESOLUTION.plain(resolution) for target, resolution in found.outcomes.items()},
    }
    plain: dict[str, Any] = in_order(told, found.question.shape)
    return plain


def _case_plain(found: Dossier, case: Case) -> dict[str, Any]:
    scores = {target: found.marks(case, target) for target in case.forecast.predictions}
    return {
        **FORECAST.plain(case.forecast),
        "trials": [
            {
                "number": record.number,
                "trial": None if record.trial is None else TRIAL.plain(record.trial),
                "steps": [
                    {"number": one.number, "at": one.at.isoformat(), **STEP.plain(one.step)} for one in record.steps
                ],
            }
            for record in case.trace.trials
        ],
        "decisions": [{"at": row.at.isoformat(), "decision": _decision(row.decision)} for row in case.decisions],
        "intents": [
            {"id": row.intent.id, "state": row.state.value, "mode": row.mode.value, "detail": row.detail}
            for row in case.intents
        ],
        "brier": {target: marks.get(BRIER, marks.get(CHOICE_BRIER)) for target, marks in scores.items()},
        "scores": scores,
    }
