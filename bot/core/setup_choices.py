"""What `foxcast init` may offer of a plugin: the purposes and providers to choose from, and the values to ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from bot.core.light_dataclass import dataclass
from bot.core.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupValue:
    """One value that is asked for.

    ``name`` is how `--set NAME=VALUE` calls it, and ``key`` its place in the settings of the plugin, with dots. An
    answer equal to ``default`` is written only if it is not the default of the setting too. A ``secret`` is written to
    a file of its own, unless one of ``variables`` of the environment has it already. With ``is_list`` the answer is
    a list with commas.
    """

    name: str
    key: str
    prompt: str
    default: str = ""
    secret: bool = False
    is_list: bool = False
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupChoice:
    """One answer to "what for" or "which model", by ``name``.

    ``settings`` are written into the settings of the plugin, and ``table`` into its own table. A choice of models is
    the first part of the names of its models; ``model`` is the recommended one, and ``is_local`` says that its models
    are free, small and need a JSON schema.
    """

    name: str
    title: str
    values: tuple[SetupValue, ...] = ()
    settings: Mapping[str, Json] = field(default_factory=dict)
    table: Mapping[str, Json] = field(default_factory=dict)
    model: str = ""
    is_local: bool = False
