"""`foxcast service`: write a hardened systemd unit for the daemon."""

import os
import pwd
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bot.cli.command_setup import load_command_config
from bot.cli.options import CommandInvocation
from bot.config.schema import Config
from bot.core.errors import ConfigError, StoreError
from bot.core.light_dataclass import dataclass

app = typer.Typer(add_completion=False, help="Run the daemon as a service of systemd.")

UNIT_NAME = "foxcast.service"
SYSTEM_FOLDER = Path("/etc/systemd/system")
USER_FOLDER = Path(".config/systemd/user")
# Sources: systemd.service(5), systemd.exec(5), sd_notify(3). A wrong configuration (2), refused credentials (4) and a
# state folder that another Foxcast uses (6) do not get better by trying again. A job may finish within 30 seconds.
_UNIT = """\
[Unit]
Description=Foxcast, a forecaster for prediction markets
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=10min
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
WatchdogSec=2min
{identity}ExecStart={command}
WorkingDirectory={folder}
Restart=on-failure
RestartSec=10s
RestartPreventExitStatus=2 4 6
TimeoutStopSec=1min
KillMode=mixed
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
{sandbox}
[Install]
WantedBy={target}
"""
# What needs the system's own manager. /proc stays whole: the boot id in it tells whether a lock is of this boot.
_SYSTEM_SANDBOX = """\
CapabilityBoundingSet=
AmbientCapabilities=
DevicePolicy=closed
PrivateDevices=yes
PrivateTmp=yes
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=read-only
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
ReadWritePaths={state}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """A unit: its text, and the file for it. ``account`` is who runs a unit of the system, None for the user's own."""

    text: str
    file: Path
    account: str | None


@app.callback()
def service() -> None:
    """Keep ``install`` a subcommand although it is the only one."""


@app.command()
def install(
    ctx: typer.Context,
    *,
    system: Annotated[
        bool, typer.Option("--system", help="For the whole machine, as root; default: only for this user.")
    ] = False,
    account: Annotated[
        str | None, typer.Option("--as", metavar="USER", help="The user that runs it, with --system.")
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Print the unit and write nothing.")] = False,
) -> None:
    """Write a hardened systemd unit for the daemon with this configuration, and say how to start it."""
    config = load_command_config(ctx)
    if config.sources.document.path is None:
        message = "a service needs a configuration file; name one with --config, or write ./config.toml"
        raise ConfigError(message)
    unit = build_unit(config, ctx.ensure_object(CommandInvocation).absolute_program, system=system, account=account)
    if show:
        typer.echo(unit.text, nl=False)
        return
    _create_state_folder(config.state, unit.account)
    _write_unit(unit)
    typer.echo(f"written: {unit.file}")
    for line in _next_commands(unit):
        typer.echo(f"  {line}")


def build_unit(config: Config, program: Sequence[str], *, system: bool, account: str | None) -> ServiceUnit:
    """Return the unit; raises ConfigError for a user that does not exist or must not run it."""
    if account is not None and not system:
        message = "--as is for --system; a unit of your own runs as you"
        raise ConfigError(message)
    path = config.sources.document.path
    file = Path(path or "").absolute()
    command = [*program, "--config", str(file), "run"]
    name = _require_account(account) if system else None
    text = _UNIT.format(
        identity="" if name is None else f"User={name}\n",
        command=" ".join(_quote(part, command=True) for part in command),
        folder=_escape(str(file.parent)),
        sandbox=_SYSTEM_SANDBOX.format(state=_quote(str(config.state.absolute()))) if system else "",
        target="multi-user.target" if system else "default.target",
    )
    folder = SYSTEM_FOLDER if system else Path.home() / USER_FOLDER
    return ServiceUnit(text=text, file=folder / UNIT_NAME, account=name)


def _require_account(account: str | None) -> str:
    if account is None:
        message = "name the user that runs the service: foxcast service install --system --as USER"
        raise ConfigError(message)
    try:
        found = pwd.getpwnam(account)
    except KeyError:
        message = f"there is no user {account} on this machine; make one: useradd --system {account}"
        raise ConfigError(message) from None
    if found.pw_uid == 0:
        message = "Foxcast needs no rights of root; name another user with --as"
        raise ConfigError(message)
    return account


def _escape(text: str) -> str:
    """Return a path for a setting that takes it unquoted; raises ConfigError for one that no unit can hold."""
    if any(ord(character) < 32 for character in text):
        message = f"a unit cannot hold the path {text!r}; move it to one without control characters"
        raise ConfigError(message)
    return text.replace("%", "%%")


def _quote(text: str, *, command: bool = False) -> str:
    """Return a word of a unit, in quotes; in a command line also ``$`` has a meaning."""
    escaped = _escape(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped.replace("$", "$$") if command else escaped}"'


def _create_state_folder(folder: Path, account: str | None) -> None:
    """Create the folder that the unit may write, since nothing else may be created there."""
    try:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)
            if account is not None:
                shutil.chown(folder, account)
    except OSError as error:
        message = f"{folder} cannot be created: {error.strerror}"
        raise StoreError(message) from error


def _write_unit(unit: ServiceUnit) -> None:
    try:
        unit.file.parent.mkdir(parents=True, exist_ok=True)
        unit.file.write_text(unit.text, encoding="utf-8")
    except OSError as error:
        hint = "run this as root, or leave out --system" if unit.account else "see the unit with --print"
        message = f"{unit.file} cannot be written: {error.strerror}; {hint}"
        raise StoreError(message) from error


def _next_commands(unit: ServiceUnit) -> tuple[str, ...]:
    if unit.account is not None:
        return ("systemctl daemon-reload", f"systemctl enable --now {UNIT_NAME}", f"journalctl -u {UNIT_NAME} -f")
    return (
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {UNIT_NAME}",
        f"loginctl enable-linger {pwd.getpwuid(os.getuid()).pw_name}   # so that it runs while you are not logged in",
        f"journalctl --user -u {UNIT_NAME} -f",
    )
