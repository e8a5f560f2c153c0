"""Where the simulated world is served, and how its answers are read."""

from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, Field, ValidationError

from bot.api import MalformedDataError, PluginSettings

ModelT = TypeVar("ModelT", bound=BaseModel)


class SandboxSettings(PluginSettings):
    """Where the simulated world is served."""

    base_url: str = Field(
        default="http://127.0.0.1:8750", pattern=r"^http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?/?$"
    )
    """Address of the simulated world, on this machine."""

    def request_url(self, path: str, asked: Mapping[str, str]) -> str:
        """Return the address of a request."""
        query = f"?{urlencode(asked)}" if asked else ""
        return f"{self.base_url.rstrip('/')}/{path}{query}"


def parse_reply(model: type[ModelT], body: bytes, source: str) -> ModelT:
    """Return the parsed answer; raises MalformedDataError for another form, or one without its type."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the answer"
        message = f"{source}: {where}: {fault['msg']}"
    raise MalformedDataError(message)
