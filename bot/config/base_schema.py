"""The base class of every table in config.toml, and the value types that check themselves."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from bot.core.plugin_specs import NAME_PATTERN

ConfigName = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=60)]
_MODEL_PATTERN = re.compile(r"[a-z][a-z0-9_]*:\S+")
_HOST_LABEL = r"[\w](?:[\w-]{0,61}[\w])?"
_HOST_PATTERN = re.compile(rf"{_HOST_LABEL}(?:\.{_HOST_LABEL})*")


def _require_host_name(name: str) -> str:
    if len(name) > 253 or not _HOST_PATTERN.fullmatch(name) or "_" in name:
        message = (
            f"{name!r} is not a host name; write only the host, such as example.org, which includes all hosts below it"
        )
        raise ValueError(message)
    return name


def _require_model_name(name: str) -> str:
    if not _MODEL_PATTERN.fullmatch(name):
        message = 'should be "PROVIDER:NAME", with a provider of [models] and no space'
        raise ValueError(message)
    return name


ModelName = Annotated[str, StringConstraints(max_length=200), AfterValidator(_require_model_name)]
HostName = Annotated[str, AfterValidator(_require_host_name)]
Seconds = Annotated[float, Field(gt=0, le=366 * 86_400)]
Hours = Annotated[float, Field(ge=0, le=366 * 24)]


class ConfigSection(BaseModel):
    """A table of config.toml: frozen, unknown keys refused, values kept out of error texts."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )


class PluginTable(ConfigSection):
    """The table of one part of a plugin; the settings model of that part validates ``settings`` later."""

    # Unchanged from the file. A secret written here by mistake is refused later, so it must not show in a repr.
    settings: dict[str, Any] = Field(default_factory=dict, repr=False)
    """The plugin's own settings."""
