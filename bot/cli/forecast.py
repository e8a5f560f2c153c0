"""`foxcast forecast`: choose a forecaster, forecast one question now and show every step.

The forecast is made in this process, or by the running daemon.
"""

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
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
from bot.cli.daemon_requests import TokenFileOption
from bot.cli.forecast_execution import (
    DaemonForecast,
    LocalForecast,
    asks_person,
    is_for_current_version,
    load_newest_attempt,
    result_or_failure,
    shared_cutoff,
)
from bot.cli.forecast_progress import ForecastView
from bot.cli.forecast_result import (
    ComparedForecaster,
    ForecasterComparison,
    ForecastResult,
    FreeForecast,
    forecast_result_to_json,
    forecaster_comparison_to_json,
    print_forecast_result,
    print_forecaster_comparison,
)
from bot.cli.options import CommandInvocation, options_from_dataclass
from bot.cli.output.console import SafeConsole, print_json, stdout_console
from bot.cli.output.files import require_writable
from bot.cli.question_lookup import FoundQuestion, QuestionFinder, require_any_future_target
from bot.config.schema import Config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, NotFoundError, ServiceUnavailableError, StateFolderLockedError
from bot.core.interfaces import Clock
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible
from bot.core.plugin_specs import ForecasterSpec
from bot.core.questions import Question
from bot.evaluation.explanation import load_explanation
from bot.jobs.operator_requests import record_open_question, require_open_question
from bot.plugin_system.registry import Registry, find_offering_plugin, with_all_members
from bot.store.ledger import ReadOnlyState, open_read_only


def choose_forecaster(config: Config, registry: Registry, question: Question | str, *, requested: str | None) -> str:
    """Return the forecaster for a question, or for any question of a venue.

    It is the requested one, otherwise the first that uses models, otherwise the first; forecasters configured for the
    question or venue come before all others. Raises NotFoundError, with the nearest names, for an unknown name, and
    ConfigError if there is no forecaster.
    """
    available = registry.forecasters
    if requested is not None:
        if requested not in available and (
            faults := [f"{one.plugin} is broken: {one.reason}" for one in registry.broken]
        ):
            message = f"no enabled plugin offers a forecaster {requested}; {'; '.join(faults)}"
            raise ConfigError(message)
        if requested not in available and (plugin := _find_disabled_plugin(registry, requested)):
            message = (
                f'the forecaster {requested} comes with the plugin {plugin}: add "{plugin}" to plugins in config.toml'
            )
            raise NotFoundError(message)
        return available[requested].name
    names = _candidate_names(config, registry, question)
    eligible = [name for name in names if not config.forecaster_table(name).clairvoyant]
    if not eligible:
        message = 'no forecaster is enabled: name a plugin that offers one in plugins, such as plugins = ["baseline"]'
        if names:
            message = f"{names[0]} is clairvoyant and forecasts only if it is named: --forecaster {names[0]}"
        raise ConfigError(message)
    return _prefer_models(registry, eligible)


def _find_disabled_plugin(registry: Registry, forecaster: str) -> str | None:
    return find_offering_plugin(
        [one for one in registry.found if one not in registry.enabled], ForecasterSpec, forecaster
    )


def parse_forecaster_list(config: Config, registry: Registry, question: Question, names: str) -> tuple[str, ...]:
    """Return the forecasters of a comma-separated list, each once; raises as ``choose_forecaster`` does."""
    listed = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not listed:
        message = f"--with names no forecaster; available: {', '.join(registry.forecasters.names) or 'none'}"
        raise ConfigError(message)
    try:
        return tuple(choose_forecaster(config, registry, question, requested=name) for name in listed)
    except NotFoundError as error:
        available = registry.forecasters.names
        if all(name in str(error) for name in available):
            raise
        message = f"{error}; available: {', '.join(available)}"
        raise NotFoundError(message) from error


def clairvoyance_remark(
    config: Config, registry: Registry, question: Question | str, name: str, *, requested: str | None
) -> str | None:
    """Return a remark if the forecaster is clairvoyant, or if a clairvoyant one was passed over; None otherwise."""
    if config.forecaster_table(name).clairvoyant:
        return f"{name} is clairvoyant: it may use information from after the cutoff; its forecast is never submitted"
    first = _prefer_models(registry, _candidate_names(config, registry, question))
    if requested is not None or not config.forecaster_table(first).clairvoyant:
        return None
    return f"{first} is clairvoyant, so {name} forecasts; to use {first}: --forecaster {first}"


def _candidate_names(config: Config, registry: Registry, question: Question | str) -> list[str]:
    """Return all forecasters, those configured for the question or venue first."""
    table = config.venues.get(question if isinstance(question, str) else question.ref.venue)
    own = () if table is None else table.forecasters if isinstance(question, str) else table.forecasters_of(question)
    return [name for name in dict.fromkeys((*own, *registry.forecasters.names)) if name in registry.forecasters]


def _prefer_models(registry: Registry, names: list[str]) -> str:
    """Return the first forecaster that uses models, otherwise the first; there must be one."""
    return next((name for name in names if registry.forecasters[name].asks_models), names[0])


def free_forecasters(config: Config, registry: Registry, *, exclude: str) -> tuple[str, ...]:
    """Return the forecasters that cost nothing, to be shown next to another one."""
    return tuple(
        spec.name
        for spec in registry.forecasters
        if spec.name != exclude
        and not spec.asks_models
        # A forecaster with members costs what its members cost.
        and spec.members is None
        and not config.forecaster_table(spec.name).clairvoyant
    )


app = typer.Typer(add_completion=False)

NAME_HELP = (
    "A question (venue:key, a key, a unique part of it, its venue's name for it), an address, or a .toml or .json file."
)
# Typer keeps the line breaks inside a paragraph, and reads text in brackets as a style.
_HELP_TEXT = r"""Forecast one question now and show every step.

The forecast is stored in the ledger and not submitted; with --submit the next
pass decides whether to submit it. If a daemon is running, it makes the
forecast, and you see the same. A question that is due anyway gets its ordinary
forecast, which may be submitted; the last line says so. After Ctrl-C or a
crash, run the command again within an hour: it resumes, and model calls already
paid are reused.

FILE describes a question of your own in TOML or JSON. Only the title is
required:

title = "When will the bridge open?" and also key, criteria, background, url,
source. The question is called file:KEY; without a key, one is made of the title.

closes_at = 2026-12-31 or 2026-12-31T18:00:00Z. With as_of = ... no later
information is used.

targets = \[2026-12-01, 2027-03-01] are the dates to answer for, one by one;
or a table \[\[targets]] for each, with key and resolves_at.

\[shape] kind = "binary", or "choice" with options = \["A", "B"], or "number" or
"date" with grid = \[...] or with range = \[LOW, HIGH] and points = 201. Both may
have open_lower = true and open_upper = true, and a number its unit.

\[crowd] is a forecast by others: probability = 0.3, probabilities = {A = 0.6,
B = 0.4}, quantiles = {"0.1" = 2, "0.5" = 5, "0.9" = 9} or cdf = \[...]; with at
and explanation.

\[facts] holds other known information, as texts by name."""
HELP = "\n\n".join(" ".join(part.split()) for part in _HELP_TEXT.split("\n\n"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    """Which question is forecast, by which forecasters, and how the result is shown."""

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
        message = "it names all forecasters and draws no plot: leave out --forecaster and --plot"
        raise typer.BadParameter(message, param_hint="--with")
    if options.plot is not None:
        require_plot_file(options.plot)
        require_writable(options.plot, "--plot")
    config, registry = load_config_and_plugins(ctx)
    command = _ForecastCommand(config, registry, SystemClock(), options)
    try:
        result = run_until_terminated(
            command.run_single() if options.forecasters is None else command.run_several(options.forecasters)
        )
    except (KeyboardInterrupt, TerminatedBySignal) as end:
        how = "ended by SIGTERM" if isinstance(end, TerminatedBySignal) else "interrupted"
        command_line = ctx.ensure_object(CommandInvocation).command_line
        typer.echo(f"foxcast: {how}; answers so far are recorded, resume with: {command_line}", err=True)
        raise
    if isinstance(result, ForecasterComparison):
        if options.as_json:
            print_json(forecaster_comparison_to_json(result))
        else:
            print_forecaster_comparison(stdout_console(), result)
    elif result is not None:
        if options.plot is not None:
            draw_beliefs(result.explanation.trace, options.plot)
        _print_result(ctx, options, result)
    if line := _failure_summary(result):
        # The forecast is recorded, but it has fewer trials than configured, or some forecasters are missing.
        typer.echo(replace_invisible(f"foxcast: warning: {line}"), err=True)
        raise typer.Exit(ExitCode.TRIALS_FAILED)


def _failure_summary(result: ForecasterComparison | ForecastResult | None) -> str:
    """Return in one line what failed although there is a forecast; "" for nothing."""
    if isinstance(result, ForecasterComparison):
        failures = {one.name: one.result.failure_summary if one.result else one.why for one in result.forecasters}
        return "; ".join(f"{name}: {why}" for name, why in failures.items() if why)
    return result.failure_summary if result is not None else ""


def _print_result(ctx: typer.Context, options: ForecastOptions, result: ForecastResult) -> None:
    if options.as_json:
        print_json(forecast_result_to_json(result))
    else:
        print_forecast_result(stdout_console(), result)
        command_line = ctx.ensure_object(CommandInvocation).command_line_for("explain", result.forecast.id)
        # A command that is broken into lines cannot be copied.
        stdout_console().print(f"see every step with: {command_line}", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _ForecastConditions:
    """Whether a person has confirmed the cost, and the shared cutoff, if there is one."""

    cost_confirmed: bool = False
    known_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _ForecastCommand:
    config: Config
    registry: Registry
    clock: Clock
    options: ForecastOptions

    async def run_single(self) -> ForecastResult | None:
        """Forecast in this process, or through the running daemon; None if the request was only sent."""
        found = await self._find_question()
        name = choose_forecaster(self.config, self.registry, found.question, requested=self.options.forecaster)
        view = self._make_view(found.question, name)
        if remark := clairvoyance_remark(
            self.config, self.registry, found.question, name, requested=self.options.forecaster
        ):
            view.print_status(remark)
        return await self._forecast_with(found, name, view, _ForecastConditions())

    async def run_several(self, names: str) -> ForecasterComparison | None:
        """Forecast with each of them in turn; one that fails is left out with its reason.

        Raises ServiceUnavailableError if all of them fail.
        """
        found = await self._find_question()
        compared: dict[str, ComparedForecaster] = {}
        listed = parse_forecaster_list(self.config, self.registry, found.question, names)
        conditions = _ForecastConditions(cost_confirmed=await self._confirm_costs(listed), known_until=self.clock.now())
        # Members first: a forecaster that builds on them uses their new forecasts.
        for name in (one for one in with_all_members(self.config, self.registry, listed) if one in listed):
            view = self._make_view(found.question, name)
            view.print_status(f"{name} forecasts")
            if self.config.forecaster_table(name).clairvoyant:
                view.print_status(
                    clairvoyance_remark(self.config, self.registry, found.question, name, requested=name) or ""
                )
            started_s = self.clock.monotonic()
            result, why = await result_or_failure(self._forecast_with(found, name, view, conditions))
            if why:
                view.print_status(f"{name} is left out: {why}")
            seconds = self.clock.monotonic() - started_s
            compared[name] = ComparedForecaster(name=name, result=result, why=why, seconds=seconds)
        if not any(one.result or one.why for one in compared.values()):
            # All of them were only requested.
            return None
        if not any(one.result for one in compared.values()):
            reasons = "; ".join(f"{name}: {compared[name].why or 'requested'}" for name in listed)
            message = f"no forecaster produced an answer: {reasons}"
            raise ServiceUnavailableError(message)
        return ForecasterComparison(question=found.question, forecasters=[compared[name] for name in listed])

    async def _find_question(self) -> FoundQuestion:
        return await QuestionFinder(config=self.config, registry=self.registry, clock=self.clock).find_question(
            self.options.name
        )

    async def _forecast_with(
        self, found: FoundQuestion, name: str, view: ForecastView, conditions: _ForecastConditions
    ) -> ForecastResult | None:
        while True:
            try:
                return await self._forecast_locally(found, name, view, conditions)
            except StateFolderLockedError:
                result, is_final = await self._forecast_via_daemon(found, name, view)
                if is_final:
                    return result
                view.print_status("the other Foxcast has ended; the forecast continues here")

    async def _confirm_costs(self, names: Sequence[str]) -> bool:
        """Ask once for confirmation of the expected cost of all of them together.

        Returns False if a daemon runs; if it ends, the cost of each forecast made here is confirmed by itself.
        """
        try:
            async with self._opened(names) as opened:
                await self._confirm_cost(opened, opened.forecasters)
        except StateFolderLockedError:
            return False
        return True

    def _opened(self, names: Sequence[str]) -> AbstractAsyncContextManager[FoxcastApp]:
        only = with_all_members(self.config, self.registry, names)
        return open_app(self.config, self.registry, clock=self.clock, only=only)

    async def _confirm_cost(self, opened: FoxcastApp, names: Iterable[str]) -> None:
        forecasters = [opened.forecasters[name] for name in names]
        if any(forecaster.uses_models for forecaster in forecasters):
            await opened.cost_check.log_budget_warnings()
        above_usd = self.config.llm.budget.ask_above_usd
        await confirm_combined_cost(opened.gateway, forecasters, yes=self.options.yes, above_usd=above_usd)

    async def _forecast_locally(
        self, found: FoundQuestion, name: str, view: ForecastView, conditions: _ForecastConditions
    ) -> ForecastResult:
        free = () if self.options.forecasters else free_forecasters(self.config, self.registry, exclude=name)
        async with self._opened((name, *free)) as opened:
            ledger, now = opened.ledger, self.clock.now()
            if found.needs_recording:
                await record_open_question(ledger, found.question, now=now)
            question = await ledger.questions.get(found.question.ref)
            await require_open_question(ledger, question, name, now=now)
            require_any_future_target(question, now)
            if not conditions.cost_confirmed:
                await self._confirm_cost(opened, with_all_members(self.config, self.registry, (name,)))
            until = shared_cutoff(conditions.known_until, now)
            local = LocalForecast(
                opened,
                question,
                lambda one: view if one == name else self._make_view(question, one),
                until,
                submit=self.options.submit,
            )
            forecast_id = await local.make_forecast(name)
            free_forecasts = [await local.make_free_forecast(one) for one in free]
            return await _load_result(
                ReadOnlyState(config=self.config, folder=opened.folder, ledger=ledger), forecast_id, free_forecasts
            )

    async def _forecast_via_daemon(
        self, found: FoundQuestion, name: str, view: ForecastView
    ) -> tuple[ForecastResult | None, bool]:
        """Return the forecast that the daemon made, if any, and whether nothing is left to do in this process."""
        async with open_read_only(self.config) as records:
            daemon_forecast = DaemonForecast(
                records=records,
                clock=self.clock,
                found_question=found,
                forecaster=name,
                view=view,
                submit=self.options.submit,
                before=await load_newest_attempt(records, found.question, name),
            )
            request = await daemon_forecast.send_request(token_file=self.options.token_file)
            if self.options.no_wait:
                typer.echo(f"forecast of {found.question.ref} by {name} requested", err=True)
                return None, True
            with view.live_display():
                forecast_id = await daemon_forecast.wait_for_forecast(request)
            if forecast_id is None:
                return None, False
            free_forecasts = await _load_free_forecasts(
                records, free_forecasters(self.config, self.registry, exclude=name), found.question
            )
            return await _load_result(records, forecast_id, free_forecasts), True

    def _make_view(self, question: Question, name: str) -> ForecastView:
        trials = self.config.forecaster_table(name).trials or self.registry.forecasters[name].trials
        return ForecastView(
            console=_progress_console(as_json=self.options.as_json),
            question=question,
            trials=trials,
            steps=trial_limits(self.config, self.registry, name).steps,
            live=not asks_person(self.config, self.registry),
        )


def _progress_console(*, as_json: bool) -> Console:
    """Return the console for steps: with JSON on stdout that is stderr, and only if stderr is a terminal."""
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


async def _load_result(records: ReadOnlyState, forecast_id: str, free: list[FreeForecast]) -> ForecastResult:
    explanation = await load_explanation(records, forecast_id)
    return ForecastResult(
        explanation=explanation,
        forecast=await records.ledger.forecasts.get(forecast_id),
        free_forecasts=tuple(free),
    )
