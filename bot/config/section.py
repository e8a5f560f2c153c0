"""What every table of the configuration is made of: a frozen section, and values that check themselves."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from bot.specs import NAME_PATTERN

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=60)]
_MODEL = re.compile(r"[a-z][a-z0-9_]*:\S+")
_LABEL = r"[\w](?:[\w-]{0,61}[\w])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def _require_host(name: str) -> str:
    if len(name) > 253 or not _HOST.fullmatch(name) or "_" in name:
        message = f"{name!r} is no host name; write the host alone, such as example.org, which holds for all below it"
        raise ValueError(message)
    return name


def _require_model(name: str) -> str:
    if not _MODEL.fullmatch(name):
        message = 'should be "PROVIDER:NAME", the provider as in [models], with no space in it'
        raise ValueError(message)
    return name


ModelName = Annotated[str, StringConstraints(max_length=200), AfterValidator(_require_model)]
HostName = Annotated[str, AfterValidator(_require_host)]
Seconds = Annotated[float, Field(gt=0, le=366 * 86_400)]
Hours = Annotated[float, Field(ge=0, le=366 * 24)]


class Section(BaseModel):
    """A table of config.toml: frozen, unknown keys refused, values kept out of error texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)
