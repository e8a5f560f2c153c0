"""The setup of a command: the configuration, the enabled plugins, and logging to stderr without secrets."""

import logging
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import structlog
import typer
from structlog.typing import EventDict
from typer.core import TyperCommand

from bot.cli.options import CommandInvocation
from bot.config.loader import load_config
from bot.config.schema import Config, LogFormat, LogLevel, LogSection
from bot.config.secrets import read_api_token
from bot.config.trust import needs_trust, plugin_files_objection, record_trust
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, PluginError, describe_error
from bot.core.plain_text import replace_invisible
from bot.core.plugin_specs import CommandSpec, ConfigurableSpec
from bot.core.redaction import redact_foreign_message, redact_known_secrets, redact_message
from bot.core.submissions import ExecutionMode
from bot.plugin_system.registry import Registry, find_offering_plugin, find_plugins, load_registry

# The key under which structlog puts a formatted traceback.
TRACEBACK_KEY = "exception"
# Below the level of warnings, these log URLs with queries, headers and whole messages.
CHATTY_LOGGERS = ("httpcore", "httpx", "websockets")


def load_command_config(
    ctx: typer.Context, *, min_level: int = logging.WARNING, built_in: Path | None = None
) -> Config:
    """Return the configuration of this call and set up logging with it, at ``min_level`` or above.

    ``built_in`` is the file that is read if there is no other. Raises ConfigError.
    """
    call = ctx.ensure_object(CommandInvocation)
    # Also for commands that need no token: it registers the token as a secret, which a reason may contain.
    read_api_token(None)
    config = load_config(call.config_path, built_in=built_in)
    live = _has_live_venue(config)
    _configure_logging(config.log, call, max(min_level, logging.INFO) if live else min_level)
    if live and config.log.level is LogLevel.DEBUG and min_level < logging.WARNING:
        structlog.get_logger(__name__).warning("log.level debug is not allowed with live venues; info is used")
    return config


def load_config_and_plugins(
    ctx: typer.Context, *, min_level: int = logging.WARNING, built_in: Path | None = None, runs_files: bool = True
) -> tuple[Config, Registry]:
    """Return the configuration and its enabled plugins, with logging set up; raises ConfigError and PluginError.

    Asks a person once whether the plugin files of ./config.toml may run. Without ``runs_files`` it never asks, and
    files that are not trusted are broken plugins.
    """
    config = load_command_config(ctx, min_level=min_level, built_in=built_in)
    if runs_files:
        require_trusted_code(config)
    registry = load_registry(config)
    if runs_files:
        require_trusted_code(config, configured_programs(config, registry))
    return config, registry


def require_trusted_code(config: Config, programs: Sequence[str] = ()) -> None:
    """Ask a person whether plugin files and programs may run that nobody trusted yet, and record a yes.

    Raises ConfigError.
    """
    files, sources = config.plugin_files, config.sources
    if needs_trust(files, sources, programs) and sys.stdin.isatty():
        names = ", ".join([*map(str, files), *programs])
        question = f"{sources.document.path} names code that would run as you: {names}. Trust them?"
        if typer.confirm(replace_invisible(question), err=True):
            record_trust(files, sources.folder, at=SystemClock().now(), programs=programs)
    if objection := plugin_files_objection(files, sources, programs):
        raise ConfigError(objection)


def configured_programs(config: Config, registry: Registry) -> list[str]:
    """Return the programs that the settings of venues and notifiers in the file name: code that is run."""
    specs: list[ConfigurableSpec[Any]] = [
        *(spec for spec in registry.venues if spec.name in config.venues),
        *(registry.notifiers[name] for name in config.notifiers if name in registry.notifiers),
    ]
    named = [
        config.plugin_table(spec.table, spec.name).settings.get(key) for spec in specs for key in spec.settings.programs
    ]
    return [one if isinstance(one, str) else " ".join(map(str, one)) for one in named if one]


def load_plugin_command(config_path: Path | None, name: str) -> typer.Typer | None:
    """Return the command of an enabled plugin with that name; None if there is none.

    Raises ConfigError, and PluginError if there is none but a broken plugin may have it.
    """
    registry = load_registry(load_config(config_path))
    commands = registry.commands
    if name not in commands:
        if registry.broken:
            raise PluginError("; ".join(f"{one.plugin.name} is broken: {one.reason}" for one in registry.broken))
        return None
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, help=commands[name].summary, cls=_PluginCommand)(commands[name].run)
    return app


class _PluginCommand(TyperCommand):
    """The command of a plugin, with logging set up as configured."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - Typer does not export what it works with
        """Run it."""
        load_command_config(ctx)
        return super().invoke(ctx)


def find_command_plugin(config_path: Path | None, name: str) -> str | None:
    """Return the plugin, not enabled, that offers the command with that name; None if there is none."""
    try:
        config = load_config(config_path)
        found = [plugin for plugin in find_plugins(config) if plugin.name not in config.plugins]
    except ConfigError:
        return None
    return find_offering_plugin(found, CommandSpec, name)


def _has_live_venue(config: Config) -> bool:
    modes = {config.mode if table.mode is None else table.mode for table in config.venues.values()}
    return not modes <= {ExecutionMode.OFF, ExecutionMode.PAPER}


class RedactedLogRecord(logging.LogRecord):
    """A log record of a library without secrets, for every handler and format."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the arguments of the library
        """Store the traceback as redacted text, so that no handler formats it again."""
        super().__init__(*args, **kwargs)
        if self.exc_info:
            self.exc_text = redact_foreign_message("".join(traceback.format_exception(*self.exc_info)).rstrip())
            self.exc_info = None

    def getMessage(self) -> str:  # noqa: N802 - the library's name
        """Return the message."""
        return redact_foreign_message(super().getMessage())


class _CurrentStderr:
    """The current ``sys.stderr``: while a live table is shown, log lines are printed above it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def _configure_logging(section: LogSection, call: CommandInvocation, min_level: int) -> None:
    """Write log events to stderr: stdout is for the result of the command."""
    level = max(logging.getLevelNamesMapping()[section.level.upper()], min_level)
    stderr = _CurrentStderr()
    logging.setLogRecordFactory(RedactedLogRecord)
    for name in CHATTY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    handler = logging.StreamHandler(stderr)
    handler.setFormatter(_SafeTextFormatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(() if call.debug else (_summarize_error,)),
            _redact_event,
            *_log_renderers(section.format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", stderr)),
        cache_logger_on_first_use=False,
    )


def _redact_event(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Remove secrets from each text of an event: in the line, what ends one is not the end of a text any more."""
    return {name: redact_known_secrets(value) if isinstance(value, str) else value for name, value in event.items()}


def _redact_line(_logger: object, _method: str, line: str) -> str:
    return redact_message(line)


def _summarize_error(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace an exception in the event by one line, without its traceback."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["error"] = describe_error(error)
    return event


def _escape_event(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Replace invisible characters in an event, and make each text but a traceback one line."""
    return {
        name: replace_invisible(value if name == TRACEBACK_KEY else " ".join(value.splitlines()))
        if isinstance(value, str)
        else value
        for name, value in event.items()
    }


class _SafeTextFormatter(logging.Formatter):
    """The formatter for log records of libraries."""

    def format(self, record: logging.LogRecord) -> str:
        return replace_invisible(super().format(record))


def _log_renderers(log_format: LogFormat) -> tuple[Any, ...]:
    if log_format is LogFormat.JSON:
        return structlog.processors.format_exc_info, structlog.processors.JSONRenderer(), _redact_line
    colours = sys.stderr.isatty() and _allows_colours()
    renderer = structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.format_exc_info, _escape_event, renderer, _redact_line


def _allows_colours() -> bool:
    # It takes 5 MB, which a daemon without a terminal does not need.
    from rich.console import Console

    console = Console(stderr=True)
    return console.is_terminal and not console.no_color
