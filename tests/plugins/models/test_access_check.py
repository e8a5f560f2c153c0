"""Whether a key is accepted and a model listed: asked as the official clients of the vendors ask, and for nothing."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import AuthenticationError, ServerUnreachableError
from bot.core.plugin_specs import PluginContext
from bot.net.client import RetryingHttpClient
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse
from plugins.models.litellm import LitellmSettings, open_litellm
from plugins.models.openai_compatible import OpenAiCompatibleSettings, open_openai_compatible

KEY = "sk-test-0123456789abcdef"
LISTS: Mapping[str, Any] = {
    "openai": {"object": "list", "data": [{"id": "gpt-5.6-sol"}, {"id": "gpt-5-mini"}]},
    "anthropic": {"data": [{"id": "claude-opus-4-8", "type": "model"}], "has_more": False},
    "gemini": {"models": [{"name": "models/gemini-3.1-pro-preview"}]},
    "openrouter": {"data": [{"id": "moonshotai/kimi-k3"}]},
}
NAMES = {
    "openai": "gpt-5.6-sol",
    "anthropic": "claude-opus-4-8",
    "gemini": "gemini-3.1-pro-preview",
    "openrouter": "moonshotai/kimi-k3",
}
KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")


async def check(vendor: str, address: str, name: str) -> str:
    chosen = LitellmSettings.model_validate({"keys": {vendor: KEY}, "base_urls": {vendor: address}})
    clock = SystemClock()
    async with (
        RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http,
        open_litellm(chosen, PluginContext(clock=clock, http=http, folder=Path())) as provider,
    ):
        return str(await provider.check_access(f"{vendor}/{name}"))  # type: ignore[attr-defined]  # optional


def listing(vendor: str, seen: list[ReceivedRequest], **statuses: int) -> Callable[[ReceivedRequest], ScriptedResponse]:
    """Answer with the list of a vendor; a status is that of the path that ends with the word."""

    def answer(asked: ReceivedRequest) -> ScriptedResponse:
        seen.append(asked)
        path = asked.path.partition("?")[0]
        status = next((code for end, code in statuses.items() if path.endswith(end)), 200)
        body = LISTS[vendor] if status == 200 else {"error": {"message": "No auth credentials found", "code": status}}
        return ScriptedResponse(status=status, body=json.dumps(body).encode())

    return answer


def keys_of(asked: ReceivedRequest) -> set[str]:
    """Return the keys that a request carries, in whichever of the headers that its vendor accepts."""
    return {asked.headers[name].removeprefix("Bearer ") for name in KEY_HEADERS if name in asked.headers}


def list_with_genai(address: str) -> object:
    from google import genai

    options: Any = {"base_url": address.removesuffix("/v1beta"), "api_version": "v1beta"}
    client = genai.Client(api_key=KEY, http_options=options)
    return [*client.models.list()]


OFFICIAL: Mapping[str, Callable[[str], object]] = {
    "openai": lambda address: [*openai.OpenAI(api_key=KEY, base_url=address).models.list()],
    "anthropic": lambda address: [*anthropic.Anthropic(api_key=KEY, base_url=address).models.list()],
    "gemini": list_with_genai,
}


@pytest.mark.parametrize("vendor", [*OFFICIAL])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
async def test_the_list_is_asked_for_as_the_official_client_does(vendor: str) -> None:
    seen: list[ReceivedRequest] = []
    async with LoopbackServer(listing(vendor, seen)) as server:
        address = f"{server.address}/v1beta" if vendor == "gemini" else server.address
        await asyncio.to_thread(OFFICIAL[vendor], address)
        assert await check(vendor, address, NAMES[vendor]) == ""
    theirs, ours = seen[0], seen[-1]
    assert (ours.method, ours.path.partition("?")[0]) == (theirs.method, theirs.path.partition("?")[0])
    assert keys_of(ours) == keys_of(theirs)


@pytest.mark.parametrize("vendor", [*NAMES])
async def test_a_refused_key_is_an_error_that_names_where_to_set_it(vendor: str) -> None:
    async with LoopbackServer(listing(vendor, [], models=401, key=401)) as server:
        with pytest.raises(AuthenticationError) as caught:
            await check(vendor, server.address, NAMES[vendor])
    assert f"FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__{vendor.upper()}" in str(caught.value)
    assert KEY not in str(caught.value)


async def test_a_router_that_shows_its_list_to_everybody_is_asked_about_the_key() -> None:
    async with LoopbackServer(listing("openrouter", [], key=401)) as server:
        with pytest.raises(AuthenticationError):
            await check("openrouter", server.address, NAMES["openrouter"])


async def test_a_model_that_is_not_listed_is_a_note_with_the_nearest_names() -> None:
    async with LoopbackServer(listing("openai", [])) as server:
        note = await check("openai", server.address, "gpt-5.6-soul")
    assert "does not list gpt-5.6-soul" in note
    assert "gpt-5.6-sol" in note.partition("it lists")[2]


async def check_local(address: str) -> str:
    chosen = OpenAiCompatibleSettings.model_validate({"endpoints": {"local": {"base_url": address}}})
    clock = SystemClock()
    async with (
        RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http,
        open_openai_compatible(chosen, PluginContext(clock=clock, http=http, folder=Path())) as provider,
    ):
        return str(await provider.check_access("local/gpt-5.6-sol"))  # type: ignore[attr-defined]  # optional


async def test_a_server_of_your_own_is_asked_for_its_list_and_may_have_none() -> None:
    async with LoopbackServer(listing("openai", [])) as server:
        assert await check_local(f"{server.address}/v1") == ""
    async with LoopbackServer(listing("openai", [], models=404)) as server:
        assert "has no list" in await check_local(f"{server.address}/v1")


async def test_a_server_that_does_not_run_is_an_error() -> None:
    async with LoopbackServer(listing("openai", [])) as server:
        address = server.address
    with pytest.raises(ServerUnreachableError, match="local"):
        await check_local(f"{address}/v1")
