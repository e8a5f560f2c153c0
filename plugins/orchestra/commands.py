"""``foxcast orchestra``: what an orchestra did, move by move, with the report of its run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import typer

from bot.api import explain_forecast, require_forecaster_kind
from plugins.orchestra.account import HEADING
from plugins.orchestra.crew import ORCHESTRATOR
from plugins.orchestra.tools import own_tools

Found = Mapping[str, Any]

LINE_CHARS = 300


def orchestra(
    ctx: typer.Context,
    forecast: Annotated[str, typer.Argument(metavar="FORECAST", help="The id of a forecast by an orchestra.")],
    *,
    whole: Annotated[bool, typer.Option("--whole", help="Show all that each move brought.")] = False,
) -> None:
    """Show who made which move in a forecast, how each subagent ended, and what was left of the budgets."""
    typer.echo("\n".join(transcript(by_an_orchestra(explain_forecast(ctx, forecast)), whole=whole)))


def by_an_orchestra(found: Found) -> Found:
    """Return what is on record of a forecast where an orchestra made it, under whatever name; raises ConfigError."""
    require_forecaster_kind(found, "an orchestra", keys=("subagents",), is_played=partial(_is_played, found))
    return found


def _is_played(found: Found) -> bool:
    """Say, of a forecast whose settings were not kept, whether its moves are an orchestra's."""
    steps = [step for trial in found["trials"] for step in trial["steps"]]
    own = {tool.name for tool in own_tools()}
    return not steps or any(
        step["action"]["name"] in own or HEADING in step["observation"].get("text", "") for step in steps
    )


def transcript(found: Found, *, whole: bool = False) -> Iterator[str]:
    """Yield the lines of one forecast: each trial's moves, then its report."""
    yield _seen(found["question"]["title"])
    for trial in found["trials"]:
        yield f"\ntrial {trial['number']}"
        account = ""
        for step in trial["steps"]:
            text, _, reported = _seen(step["observation"].get("text", "")).partition(HEADING)
            account = reported or account
            yield from _told(step, text if whole else "")
        if account:
            yield f"\n{HEADING}{account}"


def _told(step: Found, text: str) -> Iterator[str]:
    arguments = dict(step["action"].get("arguments", {}))
    who = arguments.pop("agent", ORCHESTRATOR)
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    did = _line(f"{who}: {step['action']['name']}({given})")
    yield f"{step['number']:>4}  {did}"
    yield from (f"      * {_line(remark)}" for remark in step.get("remarks", ()))
    yield from (f"      | {line}" for line in text.strip().splitlines())


def _line(text: str) -> str:
    flat = " ".join(_seen(text).split())
    return flat if len(flat) <= LINE_CHARS else f"{flat[:LINE_CHARS]} ..."


def _seen(text: str) -> str:
    # What models and pages wrote must not move the cursor of whoever reads it.
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)
