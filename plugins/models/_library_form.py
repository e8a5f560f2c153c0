"""Calls that litellm puts into a vendor's form and our own client sends: its classes for forms, nothing else of it.

They are what its own handler of HTTP uses (``BaseLLMHTTPHandler``, by ``ProviderConfigManager`` and ``BaseConfig``),
without its logging, its callbacks, its copies of messages and its client. So these calls have the deadline, the bounds,
the guards and the errors of our client, and what vendors say about rate limits in headers counts.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any

from bot.api import FoxcastError, HttpClient, Json, MalformedDataError
from plugins.models._litellm_library import library_fields, read_library_reply
from plugins.models._provider_errors import MAX_SHOWN_CHARS, raise_provider_error, translate_http_error
from plugins.models._wire_call import MAX_REPLY_BYTES, WireCall, WireReply, decode_reply

# Compared with what the library itself sends, request by request. Others log in first, sign the exact bytes, ask
# several servers, or are called by an SDK.
FORM_VENDORS = frozenset({"bedrock", "cohere", "cohere_chat", "databricks", "perplexity"})
# What the library knows outside its classes for forms.
_COHERE_URL = "https://api.cohere.com/v2/chat"
_COHERE_VENDORS = frozenset({"cohere", "cohere_chat"})
_BEDROCK_KEY_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"
_CONVERSE = "converse/"


class _SilentLog:
    """What the classes report to; nobody reads it."""

    def post_call(self, *_: object, **__: object) -> None:
        """Do nothing."""


class _ReceivedReply:
    """As much of ``httpx.Response`` as the classes read."""

    status_code = 200

    def __init__(self, raw: bytes) -> None:
        self.text = raw.decode(errors="replace")
        self.headers: dict[str, str] = {}

    def json(self) -> Any:  # noqa: ANN401 - JSON of any form
        return json.loads(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryForm:
    """A call in its vendor's form: ``config`` is the class of the library for it, ``given`` what that reads again."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: dict[str, Json]
    config: Any
    given: Mapping[str, Any] = field(repr=False)

    async def send(self, call: WireCall, http: HttpClient, library: ModuleType, *, deadline_s: float) -> WireReply:
        """Send the call once and return the reply; raises what a provider may raise."""
        try:
            raw = await http.post(
                self.url, self.body, max_bytes=MAX_REPLY_BYTES, headers=self.headers, deadline_s=deadline_s
            )
        except FoxcastError as error:
            raise translate_http_error(error, shown=call.display_name, remedy=call.error_remedy) from error
        return self._read(raw, call, library)

    def _read(self, raw: bytes, call: WireCall, library: ModuleType) -> WireReply:
        if error := decode_reply(raw, call.display_name).get("error"):
            raise_provider_error(json.dumps(error), shown=call.display_name, remedy=call.error_remedy)

        try:
            reply = self.config.transform_response(
                raw_response=_ReceivedReply(raw),
                model_response=library.ModelResponse(),
                logging_obj=_SilentLog(),
                # For its log alone, for which one class searches all of it for secrets.
                request_data={},
                encoding=None,
                **self.given,
            )
        except Exception as error:  # noqa: BLE001 - whatever a class raises for a reply that it cannot read
            text = call.error_remedy.redact(" ".join(str(error).split()))
            message = f"{call.display_name}: {text[:MAX_SHOWN_CHARS]}"
            raise MalformedDataError(message) from None
        return read_library_reply(reply, call, cost=_response_cost(reply, call, library))


def library_form(call: WireCall, library: ModuleType, settings: Mapping[str, Any]) -> LibraryForm | None:
    """Return a call in its vendor's form, None where the library has to make it itself.

    ``settings`` are arguments of the library's function. Raises what the library raises for a call that it refuses.
    """
    if call.model.partition("/")[0] not in FORM_VENDORS:
        return None
    from litellm.utils import ProviderConfigManager  # the library is late

    added = dict(settings)
    key, base, drops = added.pop("api_key"), added.pop("api_base"), added.pop("drop_params")
    name, vendor, key, base = library.get_llm_provider(model=call.model, api_key=key, api_base=base)
    if (found := _known_address(vendor, name, key, base, added)) is None:
        return None
    key, base = found
    config: Any = ProviderConfigManager.get_provider_chat_config(model=name, provider=library.LlmProviders(vendor))
    fields = library_fields(call, library)
    # As its function does before its classes: a text without value is left out, and so is what is not streamed.
    messages = [
        {name: value for name, value in message.items() if value is not None} for message in fields.pop("messages")
    ]
    wanted = {"model": name, "custom_llm_provider": vendor, "drop_params": drops, **fields, **added}
    # A copy: the classes change it.
    options = json.loads(_vendor_options(json.dumps(wanted)))
    json_mode, extra, _ = (options.pop(name, None) for name in ("json_mode", "extra_body", "stream"))
    name = name.removeprefix(_CONVERSE)
    common = {"model": name, "messages": messages, "optional_params": options, "litellm_params": {}}
    headers = config.validate_environment(headers={}, api_key=key, api_base=base, **common)
    url = config.get_complete_url(base, key, name, options, {})
    body = config.transform_request(headers=headers, **common) | (extra or {})
    given = {**common, "api_key": key, "json_mode": json_mode}
    return LibraryForm(url=url, headers=headers, body=body, config=config, given=given)


@lru_cache(maxsize=128)
def _vendor_options(wanted: str) -> str:
    """Return the fields of a call, without its messages, in the vendor's form; both are JSON.

    The calls of a question differ in their messages alone, and the library copies all tools to find the same again.
    """
    from litellm.utils import get_optional_params  # the library is late

    return json.dumps(get_optional_params(**json.loads(wanted)))


def _known_address(
    vendor: str, name: str, key: str | None, base: str | None, added: dict[str, Any]
) -> tuple[str | None, str | None] | None:
    """Return the key and the address for a model, None for what only the library knows."""
    if vendor in _COHERE_VENDORS:
        key = key or os.environ.get("COHERE_API_KEY") or os.environ.get("CO_API_KEY")
        return key, base or os.environ.get("COHERE_API_BASE") or _COHERE_URL
    if vendor != "bedrock":
        return (key, base) if key else None
    from litellm.llms.bedrock.base_aws_llm import BaseAWSLLM  # the library is late
    from litellm.llms.bedrock.common_utils import BedrockModelInfo

    key = key or os.environ.get(_BEDROCK_KEY_VARIABLE)
    region = added.get("aws_region_name") or os.environ.get("AWS_REGION_NAME") or os.environ.get("AWS_REGION")
    plain = name.removeprefix(_CONVERSE)
    # A name with a path names its region or account; without a key, a role of the machine signs each request.
    if not key or not region or "/" in plain or BedrockModelInfo.get_bedrock_route(name) != _CONVERSE.strip("/"):
        return None
    added.pop("aws_region_name", None)
    address, _ = BaseAWSLLM().get_runtime_endpoint(base, None, region)
    return key, f"{address}/model/{BaseAWSLLM.encode_model_id(plain)}/{_CONVERSE}".rstrip("/")


def _response_cost(reply: Any, call: WireCall, library: ModuleType) -> float | None:  # noqa: ANN401 - its type is late
    """Return the library's own figure of the cost, None for a model that is not on its list."""
    try:
        cost: float = library.completion_cost(completion_response=reply, model=call.model)
    except Exception:  # noqa: BLE001 - it raises a bare Exception for a model that it does not know
        return None
    return cost
