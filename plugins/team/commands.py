"""``foxcast team``: what a team did, joint step by joint step, and how efficient teams were beside how right."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from bot.api import explain_forecast, require_forecaster_kind

Found = Mapping[str, Any]

_SETTLED = re.compile(r"^evidence: (\d+) of (\d+) sub-goals|^sub-goal \S+ settled by \S+ \((\d+) of (\d+)\)")
_TEXT_CHARS = 400
_COLUMNS = "{:<14}{:>12}{:>9}{:>7}{:>10}{:>9}{:>10}{:>9}  {}"
_HEAD = ("forecast", "efficiency", "settled", "steps", "messages", "tokens", "USD", "Brier", "question")


def team(
    ctx: typer.Context,
    forecasts: Annotated[list[str], typer.Argument(metavar="FORECAST...", help="The ids of forecasts by a team.")],
) -> None:
    """Show what a team did; of several forecasts, efficiency and score in a table."""
    found = [by_a_team(explain_forecast(ctx, name)) for name in forecasts]
    typer.echo("\n".join(transcript(found[0]) if len(found) == 1 else table(found)))


def by_a_team(found: Found) -> Found:
    """Return what is on record of a forecast where a team made it, under whatever name; raises ConfigError."""
    steps = (step for trial in found["trials"] for step in trial["steps"])
    # Each step of a team is somebody's.
    is_played = partial(all, ("agent" in _arguments(step) for step in steps))
    require_forecaster_kind(found, "a team", keys=("members", "goals"), is_played=is_played)
    return found


def transcript(found: Found) -> Iterator[str]:
    """Yield the lines of one forecast: who did what, what came of it, and what there is to remark."""
    yield _seen(found["question"]["title"])
    for trial in found["trials"]:
        yield f"\ntrial {trial['number']}"
        for step in trial["steps"]:
            yield from _told(step)
    yield ""
    yield from table([found])


def table(found: Sequence[Found]) -> Iterator[str]:
    """Yield a line for each forecast, with the share of sub-goals settled beside its Brier score."""
    yield _COLUMNS.format(*_HEAD)
    for one in found:
        steps = [step for trial in one["trials"] for step in trial["steps"]]
        settled, of = _settled(one)
        usages = [step.get("usage", {}) for step in steps]
        tokens = sum(usage.get("tokens_in", 0) + usage.get("tokens_out", 0) for usage in usages)
        briers = [score for score in one["brier"].values() if isinstance(score, int | float)]
        yield _COLUMNS.format(
            one["id"][:12],
            f"{settled / of:.2f}" if of else "-",
            f"{settled}/{of}" if of else "-",
            len(steps),
            sum(step["action"]["name"] == "send_message" for step in steps),
            tokens,
            f"{one['spent_usd']:.4f}",
            f"{sum(briers) / len(briers):.3f}" if briers else "-",
            _seen(one["question"]["title"])[:60],
        ).rstrip()


def _told(step: Found) -> Iterator[str]:
    arguments = dict(_arguments(step))
    who = _seen(str(arguments.pop("agent", "?")))
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items())
    yield f"  {step['number']:>3}  {who}: {step['action']['name']}({_cut(given)})"
    seen = step["observation"].get("text", "").splitlines()
    for line in (*seen[:1], *(line for line in seen[1:] if line.startswith("recorded: "))):
        yield f"       {_cut(line)}"
    for remark in step.get("remarks", ()):
        yield f"       * {_cut(remark)}"


def _arguments(step: Found) -> Found:
    # What stands at its default is left out of the record.
    given: Found = step["action"].get("arguments", {})
    return given


def _settled(found: Found) -> tuple[int, int]:
    """Return how many sub-goals were settled in all trials, of how many; 0 of 0 where nothing on record tells."""
    settled = of = 0
    for trial in found["trials"]:
        remarks = [remark for step in trial["steps"] for remark in step.get("remarks", ())]
        counts = [told for remark in remarks if (told := _SETTLED.match(remark))]
        if counts:
            some, all_of_them = (int(count) for count in counts[-1].groups() if count is not None)
            settled, of = settled + some, of + all_of_them
    return settled, of


def _cut(text: str) -> str:
    flat = " ".join(_seen(text).split())
    return flat if len(flat) <= _TEXT_CHARS else f"{flat[:_TEXT_CHARS]} ..."


def _seen(text: str) -> str:
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)
