"""`foxcast forecast`: forecast one question now and show every step.

In this process or through the running daemon.
"""

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bot.app.app import FoxcastApp, open_app
from bot.app.forecaster_requirements import trial_limits
from bot.cli.command_exit import ExitCode, TerminatedBySignal, run_until_terminated
from bot.cli.command_setup import load_config_and_plugins
from bot.cli.cost_confirmation import confirm_combined_cost
from bot.cli.forecast_local import LocalForecast, asks_person, is_for_current_version, result_or_failure, shared_cutoff
from bot.cli.forecast_progress import ForecastView
from bot.cli.forecast_result import (
    ComparedForecaster,
    ForecasterComparison,
    ForecastResult,
    FreeForecast,
    forecast_result_to_json,
    print_forecast_result,
    print_forecaster_comparison,
)
from bot.cli.forecast_result import forecaster_comparison_to_json as several_as_plain
from bot.cli.forecast_via_daemon import DaemonForecast as Following
from bot.cli.forecast_via_daemon import load_newest_attempt
from bot.cli.forecaster_choice import choose_forecaster, clairvoyance_remark, free_forecasters, parse_forecaster_list
from bot.cli.options import CommandInvocation, options_from_dataclass
from bot.cli.output.console import SafeConsole, print_json, stdout_console
from bot.cli.output.files import require_writable
from bot.cli.question_lookup import FoundQuestion, QuestionFinder, require_any_future_target
from bot.cli.signed_requests import TokenFileOption
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ServiceUnavailableError, StateFolderLockedError
from bot.core.interfaces import Clock
from bot.core.plain_text import replace_invisible
from bot.core.questions import Question
from bot.evaluation.explanation import load_explanation
from bot.jobs.operator_requests import record_open_question, require_open_question
from bot.plugin_system.registry import Registry, with_all_members
from bot.store.ledger import ReadOnlyState, open_read_only

app = typer.Typer(add_completion=False)

NAME_HELP = (
    "A question (venue:key, a key, a unique part of it, its venue's name for it), an address, or a .toml or .json file."
)
# Typer keeps the lines of a paragraph as they are, and takes what stands in brackets for a style.
_HELP_TEXT = r"""Forecast one question now and show every step.

The forecast is stored in the ledger and not submitted; with --submit the next
pass decides whether to submit it. If a daemon is running, it makes the
forecast, and you see the same. After Ctrl-C or a crash, run the command again
within an hour: it resumes, and model calls already paid are reused.

FILE describes a question of your own in TOML or JSON. Only the title is
required:

title = "When will the bridge open?" and also key, criteria, background, url,
source. The question is called file:KEY, without a key after its title.

closes_at = 2026-12-31 or 2026-12-31T18:00:00Z. With as_of = ... no later
information is used.

targets = \[2026-12-01, 2027-03-01] are the dates to answer for, one by one;
or a table \[\[targets]] for each, with key and resolves_at.

\[shape] kind = "binary", or "choice" with options = \["A", "B"], or "number" or
"date" with grid = \[...] or with range = \[LOW, HIGH] and points = 201. Both may
have open_lower = true and open_upper = true, and a number its unit.

\[crowd] is the forecast of others: probability = 0.3, probabilities = {A = 0.6,
B = 0.4}, quantiles = {"0.1" = 2, "0.5" = 5, "0.9" = 9} or cdf = \[...]; with at
and explanation.

\[facts] holds anything else that is known, as texts by name."""
HELP = "\n\n".join(" ".join(part.split()) for part in _HELP_TEXT.split("\n\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    """What is forecast, by whom, and how it is told."""

    name: Annotated[str, typer.Argument(metavar="ID|URL|FILE", help=NAME_HELP)]
    forecaster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The forecaster; default: the first that uses models, else the first."),
    ] = None
    forecasters: Annotated[
        str | None,
        typer.Option("--with", metavar="NAME,NAME", help="Forecast with each of these forecasters and compare them."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Accept the expected cost without asking.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a plot of the belief steps as .svg or .png.")
    ] = None
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="If a daemon is running, send it the request and return at once.")
    ] = False
    submit: Annotated[bool, typer.Option("--submit", help="Let the next pass decide whether to submit it.")] = False
    token_file: TokenFileOption = None


@app.command(help=HELP)
@options_from_dataclass(ForecastOptions)
def forecast(ctx: typer.Context, options: ForecastOptions) -> None:
    """Forecast one question now and show every step."""
    from bot.cli.output.belief_plot import draw_beliefs, require_plot_file

    if options.forecasters is not None and (options.forecaster is not None or options.plot is not None):
        message = "it names all that forecast, and none of them is drawn: leave out --forecaster and --plot"
        raise typer.BadParameter(message, param_hint="--with")
    if options.plot is not None:
        require_plot_file(options.plot)
        require_writable(options.plot, "--plot")
    config, registry = load_config_and_plugins(ctx)
    order = _ForecastCommand(config, registry, SystemClock(), options)
    try:
        made = run_until_terminated(
            order.run_single() if options.forecasters is None else order.run_several(options.forecasters)
        )
    except (KeyboardInterrupt, TerminatedBySignal) as end:
        how = "ended by SIGTERM" if isinstance(end, TerminatedBySignal) else "interrupted"
        again = ctx.ensure_object(CommandInvocation).command_line
        typer.echo(f"foxcast: {how}; what was answered is on record, go on with: {again}", err=True)
        raise
    if isinstance(made, ForecasterComparison):
        if options.as_json:
            print_json(several_as_plain(made))
        else:
            print_forecaster_comparison(stdout_console(), made)
    elif made is not None:
        if options.plot is not None:
            draw_beliefs(made.explanation.trace, options.plot)
        _print_answer(ctx, options, made)
    if line := _failure_summary(made):
        # What was made is on record; it is made of fewer trials than wanted, or by fewer forecasters.
        typer.echo(replace_invisible(f"foxcast: warning: {line}"), err=True)
        raise typer.Exit(ExitCode.TRIALS_FAILED)


def _failure_summary(made: ForecasterComparison | ForecastResult | None) -> str:
    """Return in one line what failed though there is a forecast; "" where nothing did."""
    if isinstance(made, ForecasterComparison):
        told = [(aside.name, aside.result.failure_summary if aside.result else aside.why) for aside in made.forecasters]
        return "; ".join(f"{name}: {why}" for name, why in told if why)
    return made.failure_summary if made is not None else ""


def _print_answer(ctx: typer.Context, options: ForecastOptions, made: ForecastResult) -> None:
    if options.as_json:
        print_json(forecast_result_to_json(made))
    else:
        print_forecast_result(stdout_console(), made)
        closer = ctx.ensure_object(CommandInvocation).command_line_for("explain", made.forecast.id)
        # A command that is broken into lines cannot be copied.
        stdout_console().print(f"look closer with: {closer}", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _ForecastConditions:
    """Whether a person has agreed to what it may cost, and until when things are known, where not until now."""

    cost_confirmed: bool = False
    known_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _ForecastCommand:
    config: Config
    registry: Registry
    clock: Clock
    options: ForecastOptions

    async def run_single(self) -> ForecastResult | None:
        """Forecast here, or, where a daemon runs, ask that one; None where it was only asked."""
        wanted = await self._find_question()
        name = choose_forecaster(self.config, self.registry, wanted.question, asked=self.options.forecaster)
        view = self._view(wanted.question, name)
        if remark := clairvoyance_remark(
            self.config, self.registry, wanted.question, name, asked=self.options.forecaster
        ):
            view.print_status(remark)
        return await self._forecast_with(wanted, name, view, _ForecastConditions())

    async def run_several(self, names: str) -> ForecasterComparison | None:
        """Forecast with each of them in turn; one that fails is left out with its reason.

        Raises Unavailable where all of them fail.
        """
        wanted = await self._find_question()
        asides: dict[str, ComparedForecaster] = {}
        listed = parse_forecaster_list(self.config, self.registry, wanted.question, names)
        terms = _ForecastConditions(cost_confirmed=await self._confirm_costs(listed), known_until=self.clock.now())
        # Members first: what they have just said is not asked for again by whoever builds on them.
        for name in (one for one in with_all_members(self.config, self.registry, listed) if one in listed):
            view = self._view(wanted.question, name)
            view.print_status(f"{name} forecasts")
            if self.config.forecaster_table(name).clairvoyant:
                view.print_status(
                    clairvoyance_remark(self.config, self.registry, wanted.question, name, asked=name) or ""
                )
            began = self.clock.monotonic()
            made, why = await result_or_failure(self._forecast_with(wanted, name, view, terms))
            if why:
                view.print_status(f"{name} is left out: {why}")
            asides[name] = ComparedForecaster(name=name, result=made, why=why, seconds=self.clock.monotonic() - began)
        if not any(aside.result or aside.why for aside in asides.values()):
            # All of them were only asked for.
            return None
        if not any(aside.result for aside in asides.values()):
            reasons = "; ".join(f"{name}: {asides[name].why or 'asked for'}" for name in listed)
            message = f"no forecaster produced an answer: {reasons}"
            raise ServiceUnavailableError(message)
        return ForecasterComparison(question=wanted.question, forecasters=[asides[name] for name in listed])

    async def _find_question(self) -> FoundQuestion:
        return await QuestionFinder(config=self.config, registry=self.registry, clock=self.clock).find_question(
            self.options.name
        )

    async def _forecast_with(
        self, wanted: FoundQuestion, name: str, view: ForecastView, terms: "_ForecastConditions"
    ) -> ForecastResult | None:
        while True:
            try:
                return await self._forecast_locally(wanted, name, view, terms)
            except StateFolderLockedError:
                made, over = await self._forecast_via_daemon(wanted, name, view)
                if over:
                    return made
                view.print_status("the other Foxcast has ended; the forecast goes on here")

    async def _confirm_costs(self, names: Sequence[str]) -> bool:
        """Ask once whether all of them may cost what they are expected to cost together.

        False where a daemon runs, which asks by itself; should that end, each forecast here is asked about.
        """
        try:
            async with self._opened(names) as opened:
                await self._require_payable(opened, opened.forecasters)
        except StateFolderLockedError:
            return False
        return True

    def _opened(self, names: Sequence[str]) -> AbstractAsyncContextManager[FoxcastApp]:
        only = with_all_members(self.config, self.registry, names)
        return open_app(self.config, self.registry, clock=self.clock, only=only)

    async def _require_payable(self, opened: FoxcastApp, names: Iterable[str]) -> None:
        seats = [opened.forecasters[name] for name in names]
        if any(seat.uses_models for seat in seats):
            await opened.cost_check.log_budget_warnings()
        above_usd = self.config.llm.budget.ask_above_usd
        await confirm_combined_cost(opened.gateway, seats, yes=self.options.yes, above_usd=above_usd)

    async def _forecast_locally(
        self, wanted: FoundQuestion, name: str, view: ForecastView, terms: "_ForecastConditions"
    ) -> ForecastResult:
        free = () if self.options.forecasters else free_forecasters(self.config, self.registry, but=name)
        async with self._opened((name, *free)) as opened:
            ledger, now = opened.ledger, self.clock.now()
            if wanted.needs_recording:
                await record_open_question(ledger, wanted.question, now=now)
            question = await ledger.questions.get(wanted.question.ref)
            await require_open_question(ledger, question, name, now=now)
            require_any_future_target(question, now)
            if not terms.cost_confirmed:
                await self._require_payable(opened, with_all_members(self.config, self.registry, (name,)))
            until = shared_cutoff(terms.known_until, now)
            here = LocalForecast(
                opened,
                question,
                lambda one: view if one == name else self._view(question, one),
                until,
                submit=self.options.submit,
            )
            made = await here.forecast(name)
            beside = [await here.forecast_free(one) for one in free]
            return await _load_result(
                ReadOnlyState(config=self.config, folder=opened.folder, ledger=ledger), made, beside
            )

    async def _forecast_via_daemon(
        self, wanted: FoundQuestion, name: str, view: ForecastView
    ) -> tuple[ForecastResult | None, bool]:
        """Return the forecast that the daemon made, and whether that is the end of it."""
        async with open_read_only(self.config) as records:
            following = Following(
                records=records,
                clock=self.clock,
                found_question=wanted,
                forecaster=name,
                view=view,
                submit=self.options.submit,
                before=await load_newest_attempt(records, wanted, name),
            )
            request = await following.send_request(token_file=self.options.token_file)
            if self.options.no_wait:
                typer.echo(f"forecast of {wanted.question.ref} by {name} asked for", err=True)
                return None, True
            with view.live_display():
                made = await following.wait_for_forecast(request)
            if made is None:
                return None, False
            beside = await _load_free_forecasts(
                records, free_forecasters(self.config, self.registry, but=name), wanted.question
            )
            return await _load_result(records, made, beside), True

    def _view(self, question: Question, name: str) -> ForecastView:
        trials = self.config.forecaster_table(name).trials or self.registry.forecasters[name].trials
        return ForecastView(
            console=_progress_console(as_json=self.options.as_json),
            question=question,
            trials=trials,
            steps=trial_limits(self.config, self.registry, name).steps,
            live=not asks_person(self.config, self.registry),
        )


def _progress_console(*, as_json: bool) -> Console:
    """Return where steps are shown: JSON has stdout for itself, and what is no terminal needs no steps beside it."""
    if not as_json:
        return stdout_console()
    return SafeConsole(stderr=True, markup=False, highlight=False, quiet=not sys.stderr.isatty())


async def _load_free_forecasts(
    records: ReadOnlyState, names: tuple[str, ...], question: Question
) -> list[FreeForecast]:
    found = [(name, await records.ledger.forecasts.latest(question.ref, name)) for name in names]
    return [
        FreeForecast(name=name, forecast=one)
        for name, one in found
        if one is not None and is_for_current_version(one, question)
    ]


async def _load_result(records: ReadOnlyState, made: str, beside: list[FreeForecast]) -> ForecastResult:
    found = await load_explanation(records, made)
    return ForecastResult(
        explanation=found, forecast=await records.ledger.forecasts.get(made), free_forecasts=tuple(beside)
    )
