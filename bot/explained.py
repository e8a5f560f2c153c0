"""What is on record of one forecast, for the commands of plugins: the account that ``foxcast explain`` gives of it."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import typer


def explained(ctx: typer.Context, name: str) -> dict[str, Any]:
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
