"""Where the simulated world is served, and how its answers are read."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.api import ContractError, Settings

M = TypeVar("M", bound=BaseModel)


class SandboxPlace(Settings):
    """Where the sandbox is."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    base_url: str = Field(
        default="http://127.0.0.1:8750", pattern=r"^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?/?$"
    )
    """Where the simulated world is served; a loopback address, as nothing else is a simulation."""

    def address(self, path: str, asked: Mapping[str, str]) -> str:
        """Return the address of a request."""
        query = f"?{urlencode(asked)}" if asked else ""
        return f"{self.base_url.rstrip('/')}/{path}{query}"


def parsed(model: type[M], body: bytes, source: str) -> M:
    """Return the answer in its form; raises ContractError for another one, also where it does not say what it is."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the answer"
        message = f"{source}: {where}: {fault['msg']}"
    raise ContractError(message)
