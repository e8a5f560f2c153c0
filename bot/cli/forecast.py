"""``foxcast forecast``: one question now, step by step before your eyes, by this process or by the daemon that runs."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bot.app import App, Records, open_app, open_records
from bot.cli.agree import agree_to
from bot.cli.beside import Beside as Following
from bot.cli.beside import newest_attempt
from bot.cli.call import Call
from bot.cli.exits import ExitCode
from bot.cli.explain import explanation_of
from bot.cli.here import Here, converses, is_current, shared, tried
from bot.cli.interrupt import Terminated, run_until_told
from bot.cli.leaving import TokenFile
from bot.cli.options import spread
from bot.cli.output.console import PlainConsole, emit, stdout
from bot.cli.output.deliver import require_writable
from bot.cli.output.forecast import Beside, Made, as_plain, print_made
from bot.cli.output.live import View
from bot.cli.output.plain import plain
from bot.cli.output.several import Aside, Several, print_several
from bot.cli.output.several import as_plain as several_as_plain
from bot.cli.session import equipped
from bot.cli.wanted import Sources, Wanted, chosen, free_ones, remark_on, require_future, several
from bot.clock import SystemClock
from bot.config.model import Config
from bot.domain.question import Question
from bot.errors import InstanceLocked, Unavailable
from bot.jobs.attend import record_open, require_open
from bot.limits import limits_of
from bot.members import with_members
from bot.ports import Clock
from bot.registry import Registry

app = typer.Typer(add_completion=False)

NAME_HELP = (
    "A question (venue:key, a key, a unique part of it, its venue's name for it), an address, or a .toml or .json file."
)
# Typer keeps the lines of a paragraph as they are, and takes what stands in brackets for a style.
_WORDS = r"""Forecast one question now, and show every step.

It is kept in the ledger, apart from what is submitted; with --submit it comes
before the gate in the next pass, as those of the daemon do.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is forecast, by whom, and how it is told."""

    name: Annotated[str, typer.Argument(metavar="ID|URL|FILE", help=NAME_HELP)]
    forecaster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who forecasts; else the first that asks models, else the first.")
    ] = None
    beside: Annotated[
        str | None,
        typer.Option("--with", metavar="NAME,NAME", help="Forecast with each of these, and show them side by side."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what it is expected to cost.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw how the belief moved, as .svg or .png.")] = (
        None
    )
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Where a daemon runs: only ask it, and do not wait.")] = (
        False
    )
    submit: Annotated[
        bool, typer.Option("--submit", help="Have it come before the gate in the next pass, so that it may leave.")
    ] = False
    token_file: TokenFile = None


@app.command(help=HELP)
@spread(Options)
def forecast(ctx: typer.Context, options: Options) -> None:
    """Forecast one question now, and show every step."""
    from bot.cli.output.plot import draw, require_drawable

    if options.beside is not None and (options.forecaster is not None or options.plot is not None):
        message = "it names all that forecast, and none of them is drawn: leave out --forecaster and --plot"
        raise typer.BadParameter(message, param_hint="--with")
    if options.plot is not None:
        require_drawable(options.plot)
        require_writable(options.plot, "--plot")
    config, registry = equipped(ctx)
    order = _Order(config, registry, SystemClock(), options)
    try:
        made = run_until_told(order.made() if options.beside is None else order.several(options.beside))
    except (KeyboardInterrupt, Terminated) as end:
        how = "ended by SIGTERM" if isinstance(end, Terminated) else "interrupted"
        again = ctx.ensure_object(Call).again
        typer.echo(f"foxcast: {how}; what was answered is on record, go on with: {again}", err=True)
        raise
    if isinstance(made, Several):
        if options.as_json:
            emit(several_as_plain(made))
        else:
            print_several(stdout(), made)
    elif made is not None:
        if options.plot is not None:
            draw(made.found.trace, options.plot)
        _tell(ctx, options, made)
    if line := _failed(made):
        # What was made is on record; it is made of fewer trials than wanted, or by fewer forecasters.
        typer.echo(plain(f"foxcast: warning: {line}"), err=True)
        raise typer.Exit(ExitCode.TRIALS_FAILED)


def _failed(made: Several | Made | None) -> str:
    """Return in one line what failed though there is a forecast; "" where nothing did."""
    if isinstance(made, Several):
        told = [(aside.name, aside.made.failed if aside.made else aside.why) for aside in made.asides]
        return "; ".join(f"{name}: {why}" for name, why in told if why)
    return made.failed if made is not None else ""


def _tell(ctx: typer.Context, options: Options, made: Made) -> None:
    if options.as_json:
        emit(as_plain(made))
    else:
        print_made(stdout(), made)
        closer = ctx.ensure_object(Call).next("explain", made.forecast.id)
        # A command that is broken into lines cannot be copied.
        stdout().print(f"look closer with: {closer}", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Terms:
    """Whether a person has agreed to what it may cost, and until when things are known, where not until now."""

    agreed: bool = False
    known_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Order:
    config: Config
    registry: Registry
    clock: Clock
    options: Options

    async def made(self) -> Made | None:
        """Forecast here, or, where a daemon runs, ask that one; None where it was only asked."""
        wanted = await self._wanted()
        name = chosen(self.config, self.registry, wanted.question, asked=self.options.forecaster)
        view = self._view(wanted.question, name)
        if remark := remark_on(self.config, self.registry, wanted.question, name, asked=self.options.forecaster):
            view.say(remark)
        return await self._by(wanted, name, view, _Terms())

    async def several(self, names: str) -> Several | None:
        """Forecast with each of them in turn; one that fails is left out with its reason.

        Raises Unavailable where all of them fail.
        """
        wanted = await self._wanted()
        asides: dict[str, Aside] = {}
        listed = several(self.config, self.registry, wanted.question, names)
        terms = _Terms(agreed=await self._agree(listed), known_until=self.clock.now())
        # Members first: what they have just said is not asked for again by whoever builds on them.
        for name in (one for one in with_members(self.config, self.registry, listed) if one in listed):
            view = self._view(wanted.question, name)
            view.say(f"{name} forecasts")
            if self.config.forecaster(name).clairvoyant:
                view.say(remark_on(self.config, self.registry, wanted.question, name, asked=name) or "")
            began = self.clock.monotonic()
            made, why = await tried(self._by(wanted, name, view, terms))
            if why:
                view.say(f"{name} is left out: {why}")
            asides[name] = Aside(name=name, made=made, why=why, seconds=self.clock.monotonic() - began)
        if not any(aside.made or aside.why for aside in asides.values()):
            # All of them were only asked for.
            return None
        if not any(aside.made for aside in asides.values()):
            reasons = "; ".join(f"{name}: {asides[name].why or 'asked for'}" for name in listed)
            message = f"no forecaster produced an answer: {reasons}"
            raise Unavailable(message)
        return Several(question=wanted.question, asides=[asides[name] for name in listed])

    async def _wanted(self) -> Wanted:
        return await Sources(config=self.config, registry=self.registry, clock=self.clock).find(self.options.name)

    async def _by(self, wanted: Wanted, name: str, view: View, terms: "_Terms") -> Made | None:
        while True:
            try:
                return await self._here(wanted, name, view, terms)
            except InstanceLocked:
                made, over = await self._beside(wanted, name, view)
                if over:
                    return made
                view.say("the other Foxcast has ended; the forecast goes on here")

    async def _agree(self, names: Sequence[str]) -> bool:
        """Ask once whether all of them may cost what they are expected to cost together.

        False where a daemon runs, which asks by itself; should that end, each forecast here is asked about.
        """
        try:
            async with self._opened(names) as opened:
                await self._require_payable(opened, opened.seats)
        except InstanceLocked:
            return False
        return True

    def _opened(self, names: Sequence[str]) -> AbstractAsyncContextManager[App]:
        only = with_members(self.config, self.registry, names)
        return open_app(self.config, self.registry, clock=self.clock, only=only)

    async def _require_payable(self, opened: App, names: Iterable[str]) -> None:
        seats = [opened.seats[name] for name in names]
        if any(seat.asks for seat in seats):
            await opened.spending.look()
        above_usd = self.config.llm.budget.ask_above_usd
        await agree_to(opened.gateway, seats, yes=self.options.yes, above_usd=above_usd)

    async def _here(self, wanted: Wanted, name: str, view: View, terms: "_Terms") -> Made:
        free = () if self.options.beside else free_ones(self.config, self.registry, but=name)
        async with self._opened((name, *free)) as opened:
            ledger, now = opened.ledger, self.clock.now()
            if wanted.fresh:
                await record_open(ledger, wanted.question, now=now)
            question = await ledger.questions.get(wanted.question.ref)
            await require_open(ledger, question, name, now=now)
            require_future(question, now)
            if not terms.agreed:
                await self._require_payable(opened, with_members(self.config, self.registry, (name,)))
            until = shared(terms.known_until, now)
            here = Here(
                opened,
                question,
                lambda one: view if one == name else self._view(question, one),
                until,
                submit=self.options.submit,
            )
            made = await here.forecast(name)
            beside = [await here.beside(one) for one in free]
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
                submit=self.options.submit,
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
            steps=limits_of(self.config, self.registry, name).steps,
            live=not converses(self.config, self.registry),
        )


def _console(*, as_json: bool) -> Console:
    """Return where steps are shown: JSON has stdout for itself, and what is no terminal needs no steps beside it."""
    if not as_json:
        return stdout()
    return PlainConsole(stderr=True, markup=False, highlight=False, quiet=not sys.stderr.isatty())


async def _recorded(records: Records, names: tuple[str, ...], question: Question) -> list[Beside]:
    found = [(name, await records.ledger.forecasts.latest(question.ref, name)) for name in names]
    return [Beside(name=name, forecast=one) for name, one in found if one is not None and is_current(one, question)]


async def _told(records: Records, made: str, beside: list[Beside]) -> Made:
    found = await explanation_of(records, made)
    return Made(found=found, forecast=await records.ledger.forecasts.get(made), beside=tuple(beside))
