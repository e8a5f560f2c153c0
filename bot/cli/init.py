"""`foxcast init`: ask what for and with which model, write a first `config.toml` and key files, and check both."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_exit import ExitCode
from bot.cli.doctor_checks import print_findings
from bot.cli.first_config import (
    FirstConfig,
    OfferedChoice,
    create_file,
    has_secret_in_environment,
    iter_values,
    list_choices,
    load_offered_plugins,
    require_plain,
    secret_file_name,
    validate_text,
)
from bot.cli.health_report import CheckFinding, CheckVerdict
from bot.cli.online_checks import check_online
from bot.cli.options import CommandInvocation, options_from_dataclass
from bot.config.loader import DEFAULT_CONFIG_FILE, find_named_config, load_config
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError
from bot.core.light_dataclass import dataclass
from bot.core.plain_text import replace_invisible, suggest_names
from bot.core.plugin_specs import PluginTableName
from bot.core.redaction import register_secrets
from bot.plugin_system.registry import Registry, load_registry

OWN = "own"
NO_MODEL = "none"
QUESTION_FILE = "question.toml"
_QUESTION = """\
# A question of your own; only the title is required: foxcast forecast --help
title = "Will it rain in Paris on {day}?"
criteria = "Yes if any rain is measured at Paris-Montsouris on that day, in UTC."
closes_at = {day}
"""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """The answers that are given without questions."""

    venue: Annotated[
        str | None, typer.Option(metavar="NAME", help="What for: the name of a venue, or own for your own questions.")
    ] = None
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model: PROVIDER/MODEL, PROVIDER for the recommended one, or none."),
    ] = None
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another answer, such as address=...; can be repeated."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; keys come from variables or key files.")] = False
    offline: Annotated[bool, typer.Option("--offline", help="Do not test keys and addresses.")] = False


@app.command()
@options_from_dataclass(InitOptions)
def init(ctx: typer.Context, options: InitOptions) -> None:
    """Write a first configuration with key files, test both, and say the next commands."""
    call = ctx.ensure_object(CommandInvocation)
    path = find_named_config(call.config_path) or DEFAULT_CONFIG_FILE
    if path.exists() or path.is_symlink():
        message = f"{path} exists and is not overwritten; edit it, or name another file: foxcast --config FILE init"
        raise ConfigError(message)
    if not options.yes and not sys.stdin.isatty():
        message = (
            "init asks questions, and there is no terminal to ask on; use: foxcast init --venue NAME --model NAME --yes"
        )
        raise ConfigError(message)
    first = _SetupDialog(load_offered_plugins(), options, path.parent).decide()
    validate_text(first)
    written = _write_files(first, path)
    typer.echo(f"wrote {', '.join(written)}")
    failed = _check(first, path, offline=options.offline)
    _print_next(call, path, own=first.venue is None)
    if failed:
        raise typer.Exit(ExitCode.FAILED)


@dataclass(frozen=True, slots=True)
class _SetupDialog:
    """Takes each decision from the options, or asks a person for it."""

    registry: Registry
    options: InitOptions
    folder: Path

    def decide(self) -> FirstConfig:
        """Return all decisions; raises ConfigError for an answer that is none, or that is missing with --yes."""
        venues = list_choices(self.registry, PluginTableName.VENUES)
        providers = list_choices(self.registry, PluginTableName.MODELS)
        titles = {name: one.choice.title for name, one in venues.items()}
        own = "Questions of your own, from files"
        venue = venues.get(self._choose("venue", "What for?", {**titles, OWN: own}))
        provider, model = self._choose_model(providers)
        chosen = [one for one in (venue, provider) if one is not None]
        given = self._parse_values(chosen)
        answers = {
            (one.choice.name, value.name): given.get(value.name, value.default)
            if self.options.yes or value.name in given
            else self._ask(value.prompt, value.default)
            for one, value in iter_values(chosen, secret=False)
        }
        secrets, known = self._collect_secrets(chosen)
        return FirstConfig(
            registry=self.registry,
            venue=venue,
            provider=provider,
            model=model,
            answers={**answers, **secrets},
            known=known,
        )

    def _choose(self, option: str, title: str, offered: Mapping[str, str], given: str | None = None) -> str:
        """Return the name of the choice, given by an option or asked for."""
        answer = given or (self.options.venue if option == "venue" else self.options.model)
        if answer is None and self.options.yes:
            message = f"--yes needs --{option}: {', '.join(offered)}"
            raise ConfigError(message)
        names = [*offered]
        if answer is None:
            typer.echo(title)
            for number, (name, text) in enumerate(offered.items(), 1):
                typer.echo(f"  {number}  {name:14} {text}")
            answer = self._ask("Number or name", names[0])
        if answer.isascii() and answer.isdigit() and 0 < int(answer) <= len(names):
            return names[int(answer) - 1]
        if answer not in offered:
            message = f"--{option} {answer}: there is no such choice; {suggest_names(answer, offered)}"
            raise ConfigError(message)
        return answer

    def _choose_model(self, providers: Mapping[str, OfferedChoice]) -> tuple[OfferedChoice | None, str]:
        """Return the provider and the full name of the model."""
        titles = {name: one.choice.title for name, one in providers.items()}
        none = "No model: a forecaster of crowd prices, seasons and series, which costs nothing"
        given = (self.options.model or "").strip()
        for one in providers.values():
            given = given.removeprefix(f"{one.spec.name}:")
        prefix, _, rest = given.partition("/")
        name = self._choose("model", "Which model?", {**titles, NO_MODEL: none}, prefix or None)
        if name == NO_MODEL:
            return None, ""
        one = providers[name]
        model = rest or one.choice.model
        if not given:
            model = self._ask("Name of the model", model)
        if not model:
            message = f"--model {name}: name the model too, as {name}/NAME"
            raise ConfigError(message)
        return one, f"{one.spec.name}:{name}/{require_plain('the model', model)}"

    def _parse_values(self, chosen: Sequence[OfferedChoice]) -> dict[str, str]:
        """Return the values of --set; raises ConfigError for an unknown name, and for a secret."""
        open_names = [value.name for _, value in iter_values(chosen, secret=False)]
        secrets = {value.name: secret_file_name(one.choice, value) for one, value in iter_values(chosen, secret=True)}
        found: dict[str, str] = {}
        for text in self.options.values or ():
            name, equals, answer = text.partition("=")
            if name in secrets:
                message = f"--set {name}: a secret is no argument; write it to {self.folder / secrets[name]} (mode 600)"
                raise ConfigError(message)
            if not equals or name not in open_names:
                message = f"--set {name}: write NAME=VALUE; {suggest_names(name, open_names)}"
                raise ConfigError(message)
            found[name] = require_plain(f"--set {name}", answer)
        return found

    def _collect_secrets(
        self, chosen: Sequence[OfferedChoice]
    ) -> tuple[dict[tuple[str, str], str], frozenset[tuple[str, str]]]:
        """Return the secrets that a person typed, and those that the environment has."""
        typed: dict[tuple[str, str], str] = {}
        known: set[tuple[str, str]] = set()
        for one, value in iter_values(chosen, secret=True):
            place, file = (one.choice.name, value.name), self.folder / secret_file_name(one.choice, value)
            if file.exists():
                typer.echo(f"{file} exists and is used")
            elif variable := has_secret_in_environment(one, value):
                typer.echo(f"the {value.name} of {one.choice.name} comes from the variable {variable}")
                known.add(place)
            elif not self.options.yes:
                typed[place] = self._ask(f"{value.prompt} (hidden; empty: later)", "", hidden=True)
                register_secrets(typed[place])
        return typed, frozenset(known)

    @staticmethod
    def _ask(prompt: str, default: str, *, hidden: bool = False) -> str:
        answer = typer.prompt(prompt, default=default, hide_input=hidden, show_default=bool(default))
        return require_plain(prompt, str(answer))


def _write_files(first: FirstConfig, path: Path) -> list[str]:
    """Write the files that are missing, the configuration last, and return what was written."""
    written = []
    for name, content in first.secret_files.items():
        file = path.parent / name
        if not file.exists():
            create_file(file, f"{content}\n" if content else "", mode=0o600)
            written.append(f"{file} (mode 600)" if content else f"{file} (mode 600, empty: put the key there)")
    if first.venue is None and not (question := path.parent / QUESTION_FILE).exists():
        day = (SystemClock().now() + timedelta(days=30)).date()
        create_file(question, _QUESTION.format(day=day), mode=0o644)
        written.append(str(question))
    create_file(path, first.text(), mode=0o644)
    return [str(path), *written]


def _check(first: FirstConfig, path: Path, *, offline: bool) -> bool:
    """Print what the services answered; return whether a check failed."""
    empty = [path.parent / name for name in first.secret_files if not (path.parent / name).read_text().strip()]
    if empty:
        remedy = "put the key there, then run: foxcast doctor --online"
        findings = [CheckFinding(CheckVerdict.FAIL, "keys", f"{file} is empty", remedy) for file in empty]
    elif offline:
        return False
    else:
        typer.echo("testing keys and addresses ...", err=True)
        config = load_config(path)
        findings = asyncio.run(check_online(config, load_registry(config)))
    print_findings(findings)
    return any(finding.verdict is CheckVerdict.FAIL for finding in findings)


def _print_next(call: CommandInvocation, path: Path, *, own: bool) -> None:
    commands = (
        {("forecast", str(path.parent / QUESTION_FILE)): "forecast your question", ("questions",): "all questions"}
        if own
        else {
            ("run", "--once"): "one pass on paper: forecast, score",
            ("run",): "the daemon: the same, until you stop it",
        }
    )
    typer.echo("Next:")
    lines = [(call.command_line_for(*arguments), text) for arguments, text in commands.items()]
    width = max(len(line) for line, _ in lines)
    for line, text in lines:
        typer.echo(replace_invisible(f"  {line:{width}}   # {text}"))
