"""The explanation that foxcast explain gives of a forecast, for the commands of plugins."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, cast

from bot.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import typer


def explain_forecast(ctx: typer.Context, name: str) -> dict[str, Any]:
    """Return what ``foxcast explain NAME --json`` prints, as JSON; raises what that command raises.

    ``ctx`` is the context of the plugin's own command, so that the same configuration holds.
    """
    root = ctx.find_root()
    group = cast("Any", root.command)
    called, command, arguments = group.resolve_command(root, ["explain", name, "--json"])
    with redirect_stdout(io.StringIO()) as printed, command.make_context(called, arguments, parent=root) as inner:
        command.invoke(inner)
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def require_forecaster_kind(
    found: Mapping[str, Any], kind: str, *, keys: Collection[str], is_played: Callable[[], bool]
) -> None:
    """Raise ConfigError for a forecast on record that nobody of that kind made, under whatever name.

    Its maker has settings with all of these ``keys``; of one whose settings were not kept ``is_played`` tells.
    """
    setup = found.get("setup") or {}
    settings = setup.get("settings")
    if settings.keys() >= set(keys) if settings else is_played():
        return
    by = (found.get("forecast") or {}).get("forecaster") or setup.get("uses") or "another forecaster"
    message = f"{found['id'][:12]} is by {by}, not by {kind}"
    raise ConfigError(message)
