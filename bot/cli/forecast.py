"""``foxcast forecast``: one question now, step by step before your eyes, by this process or by the daemon that runs."""

import dataclasses
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bot.app import App, Bay, Records, open_app, open_records
from bot.cli.agree import agree
from bot.cli.beside import Beside as Following
from bot.cli.beside import newest_attempt
from bot.cli.call import Call
from bot.cli.explain import explanation_of
from bot.cli.interrupt import Terminated, run_until_told
from bot.cli.leaving import TokenFile
from bot.cli.options import spread
from bot.cli.output.console import PlainConsole, emit, stdout
from bot.cli.output.forecast import Beside, Made, as_plain, print_made
from bot.cli.output.live import View
from bot.cli.session import equipped
from bot.cli.wanted import Sources, Wanted, chosen, free_ones, remark_on, require_future
from bot.clock import SystemClock
from bot.config.model import Config
from bot.config.plugin_settings import settings_of
from bot.desk.desk import cutoff_of
from bot.desk.workshop import Workshop, is_backdated
from bot.domain.forecast import Forecast
from bot.domain.question import Question
from bot.errors import (
    ConfigError,
    FoxcastError,
    InstanceLocked,
    Rejected,
    StoreError,
    Unauthorized,
    Unavailable,
    unnamed,
)
from bot.jobs.attend import require_open
from bot.jobs.sitting import ASKED_FOR, NoAnswer, Seat, begin
from bot.outfit import no_search
from bot.ports import Clock
from bot.registry import Registry
from bot.store.codec import version_of
from bot.store.forecasts import Trace

app = typer.Typer(add_completion=False)

NAME_HELP = (
    "A question (venue:key, a key, a unique part of it, its venue's name for it), an address, or a .toml or .json file."
)
# Typer keeps the lines of a paragraph as they are, and takes what stands in brackets for a style.
_WORDS = r"""Forecast one question now, and show every step.

It is kept in the ledger as those of the daemon are; nothing is submitted.
Where a daemon runs, it makes the forecast, and you see the same. What Ctrl-C
or a crash cuts off goes on where it was when you call again within the hour,
and what was paid is not paid twice.

A question of your own is a FILE, such as this one in TOML (JSON has the same
keys). Everything but the title may be left out:

title = "When will the bridge open?" and also key, criteria, background, url,
source. The question is called file:KEY, without a key after its title.

closes_at = 2026-12-31 or 2026-12-31T18:00:00Z. With as_of = ... nothing that
came later is used.

targets = \[2026-12-01, 2027-03-01] are the dates to answer for, each by itself;
or a table \[\[targets]] for each, with key and resolves_at.

\[shape] kind = "binary", or "choice" with options = \["A", "B"], or "number" or
"date" with grid = \[...] or with range = \[LOW, HIGH] and points = 201. Both may
have open_lower = true and open_upper = true, and a number its unit.

\[crowd] is what others believe: probability = 0.3, probabilities = {A = 0.6,
B = 0.4}, quantiles = {"0.1" = 2, "0.5" = 5, "0.9" = 9} or cdf = \[...]; with at
and explanation.

\[facts] is whatever else is known, as texts by name."""
HELP = "\n\n".join(" ".join(part.split()) for part in _WORDS.split("\n\n"))
# What the failure of every trial is told as.
CAUSES: tuple[type[FoxcastError], ...] = (ConfigError, Unauthorized, Rejected, Unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is forecast, by whom, and how it is told."""

    name: Annotated[str, typer.Argument(metavar="ID|URL|FILE", help=NAME_HELP)]
    forecaster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who forecasts; else the first that asks models, else the first.")
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what it is expected to cost.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw how the belief moved, as .svg or .png.")] = (
        None
    )
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Where a daemon runs: only ask it, and do not wait.")] = (
        False
    )
    token_file: TokenFile = None


@app.command(help=HELP)
@spread(Options)
def forecast(ctx: typer.Context, options: Options) -> None:
    """Forecast one question now, and show every step."""
    from bot.cli.output.plot import draw, require_drawable

    if options.plot is not None:
        require_drawable(options.plot)
    config, registry = equipped(ctx)
    again = shlex.join([ctx.ensure_object(Call).program, "forecast", options.name])
    try:
        made = run_until_told(_Order(config, registry, SystemClock(), options).made())
    except (KeyboardInterrupt, Terminated) as end:
        how = "ended by SIGTERM" if isinstance(end, Terminated) else "interrupted"
        typer.echo(f"foxcast: {how}; what was answered is on record, go on with: {again}", err=True)
        raise
    if made is None:
        return
    if options.plot is not None:
        draw(made.found.trace, options.plot)
    if options.as_json:
        emit(as_plain(made))
    else:
        print_made(stdout(), made)
        stdout().print(f"look closer with: {ctx.ensure_object(Call).program} explain {made.forecast.id}")
    if made.cut_short is not None:
        # The forecast is made and on record, of what was learned until then: a warning, and no failure.
        typer.echo(f"foxcast: warning: no trial came to its end: {unnamed(made.cut_short)}", err=True)


@dataclass(frozen=True, slots=True)
class _Order:
    config: Config
    registry: Registry
    clock: Clock
    options: Options

    async def made(self) -> Made | None:
        """Forecast here, or, where a daemon runs, ask that one; None where it was only asked."""
        wanted = await Sources(config=self.config, registry=self.registry, clock=self.clock).find(self.options.name)
        venue = wanted.question.ref.venue
        name = chosen(self.config, self.registry, venue, asked=self.options.forecaster)
        view = self._view(wanted.question, name)
        if remark := remark_on(self.config, self.registry, venue, name, asked=self.options.forecaster):
            view.say(remark)
        while True:
            try:
                return await self._here(wanted, name, view)
            except InstanceLocked:
                made, over = await self._beside(wanted, name, view)
                if over:
                    return made
                view.say("the other Foxcast has ended; the forecast goes on here")

    async def _here(self, wanted: Wanted, name: str, view: View) -> Made:
        free = free_ones(self.config, self.registry, but=name)
        async with open_app(self.config, self.registry, clock=self.clock, only=(name, *free)) as opened:
            ledger, now = opened.ledger, self.clock.now()
            if wanted.fresh:
                await ledger.questions.record([wanted.question], seen_at=now)
            question = await ledger.questions.get(wanted.question.ref)
            await require_open(ledger, question, name, now=now)
            seat = opened.seats[name]
            require_future(question, now)
            await _require_payable(opened, seat, yes=self.options.yes)
            _say_no_search(opened, seat, question, view)
            with view.shown():
                made = await _forecast(opened, seat, question, view)
            beside = [await _free(opened, opened.seats[one], question) for one in free]
            return await _told(Records(config=self.config, folder=opened.folder, ledger=ledger), made, beside)

    async def _beside(self, wanted: Wanted, name: str, view: View) -> tuple[Made | None, bool]:
        """Return the forecast that the daemon made, and whether that is the end of it."""
        async with open_records(self.config) as records:
            following = Following(
                records=records,
                clock=self.clock,
                wanted=wanted,
                forecaster=name,
                view=view,
                before=await newest_attempt(records, wanted, name),
            )
            request = await following.ask(token_file=self.options.token_file)
            if self.options.no_wait:
                typer.echo(f"forecast of {wanted.question.ref} by {name} asked for", err=True)
                return None, True
            with view.shown():
                made = await following.follow(request)
            if made is None:
                return None, False
            beside = await _recorded(records, free_ones(self.config, self.registry, but=name), wanted.question)
            return await _told(records, made, beside), True

    def _view(self, question: Question, name: str) -> View:
        trials = self.config.forecaster(name).trials or self.registry.forecasters[name].trials
        return View(
            console=_console(as_json=self.options.as_json),
            question=question,
            trials=trials,
            steps=_most_steps(self.config, self.registry, name),
        )


def _most_steps(config: Config, registry: Registry, name: str) -> int:
    spec, allowed = registry.forecasters[name], config.limits.steps
    return allowed if spec.steps is None else min(allowed, spec.steps(settings_of(spec, config)))


def _console(*, as_json: bool) -> Console:
    """Return where steps are shown: JSON has stdout for itself, and what is no terminal needs no steps beside it."""
    if not as_json:
        return stdout()
    return PlainConsole(stderr=True, markup=False, highlight=False, quiet=not sys.stderr.isatty())


async def _require_payable(opened: App, seat: Seat, *, yes: bool) -> None:
    bay = Bay(seat=seat, random=opened.means.random, workshop=None, gateway=opened.gateway)
    if seat.asks:
        await opened.spending.look()
    await agree(bay, 1, yes=yes, above_usd=opened.config.llm.budget.ask_above_usd)


def _say_no_search(opened: App, seat: Seat, question: Question, view: View) -> None:
    """Say it where an earlier moment stands in the way of searches; that there are none at all is a warning."""
    workshop, now = opened.means.benches, opened.clock.now()
    if not seat.asks or seat.clairvoyant or not isinstance(workshop, Workshop) or not workshop.engines:
        return
    backdated = is_backdated(question, cutoff_of(question, now), now)
    if backdated and (why := no_search(workshop, backdated=True)) is not None:
        view.say(why)


async def _forecast(opened: App, seat: Seat, question: Question, view: View) -> str:
    """Forecast and return the id; raises why the first trial failed where none has an answer."""
    sitting = await begin(dataclasses.replace(opened.means, watch=view), seat, question, ASKED_FOR)
    if sitting.running.trials:
        view.say(f"forecast {sitting.running.id} was cut off; it goes on")
    view.recall([record for record in sitting.running.trials if record.trial is not None])
    try:
        return (await sitting.forecast()).id
    except NoAnswer as nothing:
        forecasts = opened.ledger.forecasts
        await forecasts.fail(sitting.running.id, why=str(nothing), at=opened.clock.now())
        raise _cause(await forecasts.trace(sitting.running.id)) from nothing


def _cause(trace: Trace) -> FoxcastError:
    details = [record.trial.detail for record in trace.trials if record.trial is not None]
    first = details[0] if details else ""
    name, _, text = first.partition(": ")
    kind: Callable[[str], FoxcastError] = {one.__name__: one for one in CAUSES}.get(name, Unavailable)
    return kind(text if name in {one.__name__ for one in CAUSES} else f"no trial has an answer: {first}")


async def _free(opened: App, seat: Seat, question: Question) -> Beside:
    """Forecast with a free forecaster, unless what it said can only be repeated; its failure is no trouble."""
    ledger, now = opened.ledger, opened.clock.now()
    known = await ledger.forecasts.latest(question.ref, seat.name)
    if known is not None and _is_current(known, question) and known.cutoff == cutoff_of(question, now):
        return Beside(name=seat.name, forecast=known)
    sitting = await begin(opened.means, seat, question, ASKED_FOR)
    try:
        return Beside(name=seat.name, forecast=await sitting.forecast())
    except NoAnswer as nothing:
        why = str(nothing)
    except StoreError:
        raise
    except FoxcastError as error:
        why = str(error)
    await ledger.forecasts.fail(sitting.running.id, why=why, at=opened.clock.now())
    return Beside(name=seat.name, forecast=None, why=why)


async def _recorded(records: Records, names: tuple[str, ...], question: Question) -> list[Beside]:
    found = [(name, await records.ledger.forecasts.latest(question.ref, name)) for name in names]
    return [Beside(name=name, forecast=one) for name, one in found if one is not None and _is_current(one, question)]


def _is_current(made: Forecast, question: Question) -> bool:
    return made.version == version_of(question)


async def _told(records: Records, made: str, beside: list[Beside]) -> Made:
    found = await explanation_of(records, made)
    return Made(found=found, forecast=await records.ledger.forecasts.get(made), beside=tuple(beside))
