"""What a team did, joint step by joint step, and ``foxcast team``: how efficient teams were and how right."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import Annotated

import typer

from bot.api import (
    ForecastExplanation,
    Step,
    TranscriptEntry,
    TranscriptFigure,
    TrialTranscript,
    explain_forecast,
    parsing,
    replace_invisible,
    require_forecaster_kind,
)
from plugins.team.team_run import AGENT, GOALS, SETTLED

_TEXT_CHARS = 400
_COLUMNS = "{:<14}{:>12}{:>9}{:>7}{:>10}{:>9}{:>10}{:>9}  {}"
_KIND_COLUMNS = "{:>7}{:>8}{:>12}{:>7}  {}"
# Members play the roles team_1, team_2, ..., which fall back to these.
_MEMBER_ROLES = ("team", "main")
_HEAD = ("forecast", "efficiency", "settled", "steps", "messages", "tokens", "USD", "Brier", "question")


def show_teams(
    ctx: typer.Context,
    forecasts: Annotated[list[str], typer.Argument(metavar="FORECAST...", help="The ids of forecasts by a team.")],
) -> None:
    """Show efficiency and score of forecasts by teams in a table, and their mean by size and mix of models."""
    found = [require_team_forecast(explain_forecast(ctx, name)) for name in forecasts]
    typer.echo("\n".join((*efficiency_table(found), "", *team_kind_table(found))))


def require_team_forecast(found: ForecastExplanation) -> ForecastExplanation:
    """Return what is on record of a forecast where a team made it, under whatever name; raises ConfigError."""
    steps = (step for trial in found.steps.values() for step in trial)
    # Each step of a team is somebody's.
    is_played = partial(all, (AGENT in step.action.arguments for step in steps))
    require_forecaster_kind(found, "a team", keys=("members", "goals"), is_played=is_played)
    return found


def team_transcript(steps: Sequence[Step]) -> TrialTranscript:
    """Return who did what, the results, and how many sub-goals were settled."""
    settled, of = _count_settled([steps])
    figures = (TranscriptFigure(name="sub-goals settled", value=f"{settled} of {of}"),) if of else ()
    return TrialTranscript(entries=tuple(_step_entry(*step) for step in enumerate(steps, 1)), figures=figures)


def efficiency_table(found: Sequence[ForecastExplanation]) -> Iterator[str]:
    """Yield a line for each forecast, with the share of sub-goals settled and its Brier score."""
    yield _COLUMNS.format(*_HEAD)
    for one in found:
        steps = [step for trial in one.steps.values() for step in trial]
        settled, of = _count_settled(one.steps.values())
        tokens = sum(step.usage.tokens_in + step.usage.tokens_out for step in steps)
        briers = one.brier_scores.values()
        yield _COLUMNS.format(
            one.trace.id[:12],
            f"{settled / of:.2f}" if of else "-",
            f"{settled}/{of}" if of else "-",
            len(steps),
            sum(step.action.name == "send_message" for step in steps),
            tokens,
            f"{one.chain.cost_usd:.4f}",
            f"{sum(briers) / len(briers):.3f}" if briers else "-",
            replace_invisible(one.trace.question.title)[:60],
        ).rstrip()


def team_kind_table(found: Sequence[ForecastExplanation]) -> Iterator[str]:
    """Yield a line for each size of team and mix of models: the mean share of sub-goals settled in a trial.

    A trial that did not come to its end does not count. The mean share is the Transport Rate of the paper. Source:
    docs/facts/source-systems.md#coela.
    """
    kinds: dict[tuple[int, str], list[tuple[float, int]]] = {}
    for one in {explained.trace.id: explained for explained in found}.values():
        models = sorted({call.answer.model for call in one.chain.calls if call.role.startswith(_MEMBER_ROLES)})
        for steps in one.steps.values():
            settled, of = _count_settled([steps])
            if of:
                members = len({str(step.action.arguments[AGENT]) for step in steps})
                kinds.setdefault((members, ", ".join(models) or "unknown"), []).append((settled / of, len(steps)))
    yield _KIND_COLUMNS.format("members", "trials", "efficiency", "steps", "models")
    for (members, mix), trials in sorted(kinds.items()):
        shares, steps_taken = zip(*trials, strict=True)
        mean_steps = f"{fmean(steps_taken):.1f}"
        yield _KIND_COLUMNS.format(
            members, len(trials), f"{fmean(shares):.2f}", mean_steps, replace_invisible(mix)
        ).rstrip()


def _step_entry(number: int, step: Step) -> TranscriptEntry:
    arguments = dict(step.action.arguments)
    who = str(arguments.pop(AGENT, "?"))
    for counted in (SETTLED, GOALS):
        arguments.pop(counted, None)
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    seen = step.observation.text.splitlines()
    kept = (*seen[:1], *(line for line in seen[1:] if line.startswith("recorded: ")))
    return TranscriptEntry(
        title=f"{number}. {who}: {step.action.name}({_shorten_line(given)})",
        text="\n".join(map(_shorten_line, kept)),
        detail=step.observation.text,
        speaker=who,
        remarks=tuple(map(_shorten_line, step.remarks)),
    )


def _count_settled(trials: Iterable[Sequence[Step]]) -> tuple[int, int]:
    """Return how many sub-goals were settled in all trials, of how many; 0 of 0 where no trial came to its end."""
    settled = of = 0
    for steps in trials:
        goals = next((step.action.arguments[GOALS] for step in steps if GOALS in step.action.arguments), None)
        if isinstance(goals, int):
            named = [step.action.arguments.get(SETTLED) for step in steps]
            settled += sum(len(one) for one in named if isinstance(one, list))
            of += goals
    return settled, of


def _shorten_line(text: str) -> str:
    return parsing.cut_line(text, _TEXT_CHARS)
