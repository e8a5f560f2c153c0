"""Whether a provider accepts the key and offers a model: asked of its list of models, which costs nothing.

A router shows its list to everybody, so there the key itself is looked up. Sources: the API references of the vendors
(``GET /v1/models`` of OpenAI and Anthropic, ``GET /v1beta/models`` of the Gemini API, ``GET /api/v1/key`` of
OpenRouter).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.api import FoxcastError, HttpClient, NotFoundError, RequestRejectedError, nearest_names
from plugins.models._profiles import WireFormat
from plugins.models._provider_errors import ErrorRemedy, translate_http_error

_MAX_LIST_BYTES = 16 * 2**20
_MAX_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessCheck:
    """One model at one address; ``key_path`` is the path that only a valid key can read, where the list is public."""

    display_name: str
    name: str
    base_url: str
    wire: WireFormat
    headers: Mapping[str, str] = field(repr=False)
    remedy: ErrorRemedy
    key_path: str = ""

    async def run(self, http: HttpClient) -> str:
        """Return what a person should know, "" for nothing; raises as ``ModelProvider.complete`` does."""
        if self.key_path:
            await self._get(http, f"{self.base_url}{self.key_path}")
        try:
            listed = await self._get(http, self._list_address())
        except (NotFoundError, RequestRejectedError):
            return "the server has no list of models, so neither the key nor the name was checked"
        names = _model_names(listed)
        if not names or self.name in names:
            return ""
        shown = nearest_names(self.name, names) or sorted(names)[:_MAX_NAMES]
        return f"the server does not list {self.name}; it lists {', '.join(shown)}"

    def _list_address(self) -> str:
        if self.wire is WireFormat.MESSAGES:
            return f"{self.base_url.removesuffix('/v1/messages').removesuffix('/v1')}/v1/models?limit=1000"
        return f"{self.base_url}/models" + ("?pageSize=1000" if self.wire is WireFormat.GEMINI else "")

    async def _get(self, http: HttpClient, url: str) -> bytes:
        try:
            return await http.get(url, max_bytes=_MAX_LIST_BYTES, headers=self.headers)
        except FoxcastError as error:
            if isinstance(error, NotFoundError):
                raise
            raise translate_http_error(error, shown=self.display_name, remedy=self.remedy) from error


def _model_names(listed: bytes) -> set[str]:
    """Return the names in a list of models, empty for anything else."""
    try:
        answer = json.loads(listed)
    except (ValueError, RecursionError):
        return set()
    rows = answer.get("data", answer.get("models")) if isinstance(answer, dict) else None
    named = (
        [row.get("id") or row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    )
    return {name.removeprefix("models/") for name in named if isinstance(name, str)}
