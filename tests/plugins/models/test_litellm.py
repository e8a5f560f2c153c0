"""The provider through litellm keeps the contract; its library is loaded late, closed, and asks nobody else."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from pydantic import SecretStr

from bot.core.beliefs import ModelUsage
from bot.core.clock import SeededRandom, SystemClock
from bot.core.errors import (
    AuthenticationError,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.interfaces import ModelProvider
from bot.core.language_models import (
    FinishReason,
    Message,
    MessageRole,
    Prompt,
    SamplingSettings,
)
from bot.core.plugin_specs import PluginContext, PluginSettings
from bot.net.client import RetryingHttpClient
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ResponseEnding, ScriptedResponse
from bot.testing.model_contract import KEY, QUESTION, SAMPLING, SEARCH, ModelProviderContract
from bot.testing.model_server import ScriptedModelServer, ScriptedReply, reply_error, reply_text
from plugins.models._litellm_library import QUIET_SETTINGS, load_library, raise_library_error, read_price_list
from plugins.models._provider_errors import ErrorRemedy
from plugins.models._vendors import (
    vendor_address,
)
from plugins.models.litellm import LitellmProvider, LitellmSettings, foxcast_models, open_litellm

(SPEC,) = foxcast_models()
SONNET = "anthropic/claude-sonnet-4-5"

pytestmark = [
    # The library says this of its own types, once in each process.
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
    # Its import takes seconds, more on a busy machine.
    pytest.mark.timeout(120),
]


class TestLitellm(ModelProviderContract):
    """A vendor that is asked directly."""

    spec = SPEC
    model = "openai/unheard-of"

    def settings_for(self, base_url: str) -> PluginSettings:
        return settings(base_url)


class TestTranslated(ModelProviderContract):
    """A vendor that the library calls."""

    spec = SPEC
    model = "litellm_proxy/unheard-of"

    def settings_for(self, base_url: str) -> PluginSettings:
        return settings(base_url)


def settings(base_url: str) -> LitellmSettings:
    providers = ("openai", "anthropic", "litellm_proxy")
    return LitellmSettings.model_validate(
        {"keys": dict.fromkeys(providers, KEY), "base_urls": dict.fromkeys(providers, base_url)}
    )


def context() -> PluginContext:
    return PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=Path())


@asynccontextmanager
async def opened(chosen: LitellmSettings) -> AsyncIterator[ModelProvider]:
    """Open the provider on real HTTP."""
    clock = SystemClock()
    async with (
        RetryingHttpClient(clock=clock, random=SeededRandom(1)) as http,
        open_litellm(chosen, PluginContext(clock=clock, http=http, folder=Path())) as llm,
    ):
        yield llm


async def test_the_cost_of_a_known_model_is_that_of_its_list_price() -> None:
    reply = ScriptedReply(text="x", tokens_in=1_000_000, tokens_cached=0, tokens_out=100_000)
    async with ScriptedModelServer(reply) as server, opened(settings(server.base_url)) as llm:
        price = await llm.price("openai/gpt-4o")
        answer = await llm.complete("openai/gpt-4o", QUESTION, SAMPLING)
    # The price that OpenAI has published for this model since October 2024.
    assert price is not None
    assert (price.tokens_in, price.tokens_cached, price.tokens_out) == pytest.approx((2.5, 1.25, 10.0))
    assert answer.cost_usd == pytest.approx(3.5)


async def test_the_library_reads_the_same_list_of_prices() -> None:
    listed = read_price_list()
    library = load_library()
    assert library.model_cost == {name: entry for name, entry in listed.items() if name in library.model_cost}
    assert len(library.model_cost) > 3_000


async def test_the_library_sends_one_request_to_each_vendor_of_the_openai_form() -> None:
    failing = FakeLibraryEndpoint(ScriptedResponse(status=500, body=b'{"error": {"message": "busy"}}'))
    translated = [name for name in load_library().openai_compatible_providers if vendor_address(name) is None]
    # Two log in in a browser; three want another form of a model's name, or are closed.
    reached = [
        name for name in translated if name not in {"github_copilot", "chatgpt", "clarifai", "ragflow", "anyscale"}
    ]
    async with LoopbackServer(failing) as server:
        chosen = LitellmSettings(
            keys=dict.fromkeys(reached, SecretStr(KEY)),
            base_urls=dict.fromkeys(reached, f"{server.address}/v1"),
            # The library lists no max_tokens for some of them.
            drop_params=True,
        )
        async with opened(chosen) as llm:
            errors = [await failed_request(llm, f"{vendor}/maker/some-model") for vendor in reached]
    assert {type(error) for error in errors} == {ServiceUnavailableError}
    assert len(failing.asked) == len(reached) > 8
    assert not any(b"max_retries" in received.body for received in failing.asked)


async def failed_request(llm: ModelProvider, model: str) -> FoxcastError:
    with pytest.raises(FoxcastError) as raised:
        await llm.complete(model, QUESTION, SamplingSettings(max_tokens=9))
    return raised.value


async def test_the_dearer_prices_of_a_model_are_known_too() -> None:
    async with open_litellm(LitellmSettings(), context()) as llm:
        price = await llm.price(SONNET)
        plain = await llm.price("openai/gpt-4o")
    # The prices that Anthropic publishes for this model: up to 200,000 tokens of a prompt, and beyond.
    assert price is not None
    assert price.long is not None
    assert price.tokens_written == pytest.approx(3.75)
    assert price.long_from == 200_000
    long = (price.long.tokens_in, price.long.tokens_cached, price.long.tokens_written, price.long.tokens_out)
    assert long == pytest.approx((6.0, 0.6, 7.5, 22.5))
    assert plain is not None
    assert (plain.tokens_written, plain.long) == (None, None)


def test_where_a_model_is_served_is_what_config_says_of_it_and_no_key() -> None:
    def place(model: str = SONNET, **given: Any) -> str:
        return LitellmProvider(LitellmSettings.model_validate(given), FakeHttpClient({})).place(model)

    assert place() == place(keys={"anthropic": KEY}) == place(base_urls={"openai": "https://one.example"}) == ""
    reported = [place(base_urls={"anthropic": f"https://{host}.example"}) for host in ("one", "two")]
    assert len({*reported, place(drop_params=True), ""}) == 4
    assert "example" not in "".join(reported)


async def test_keys_that_the_library_found_itself_are_shown_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_OTHER_API_KEY", "found-in-the-environment")
    message = {
        "type": "error",
        "error": {"type": "invalid", "message": "found-in-the-environment at https://x.y/z?k=1"},
    }
    error, _ = await ask_other_form(ScriptedResponse(status=400, body=json.dumps(message).encode()))
    assert type(error) is RequestRejectedError
    assert "*** at https://x.y/z?***" in str(error)
    assert "found-in" not in str(error)


@pytest.mark.parametrize("model", ["openai/nobody", "ollama/gpt-4o", "nobody", "ollama/llama3"])
async def test_what_the_list_does_not_price_is_unknown_and_asks_no_server(model: str) -> None:
    async with open_litellm(LitellmSettings(), context()) as llm:
        assert await llm.price(model) is None


class FakeLibraryEndpoint:
    """An endpoint of the other form that the library speaks; keeps what it was asked."""

    def __init__(self, sent: ScriptedResponse) -> None:
        self.sent = sent
        self.asked: list[ReceivedRequest] = []

    def __call__(self, received: ReceivedRequest) -> ScriptedResponse:
        self.asked.append(received)
        return self.sent


# Source: the Messages API of Anthropic.
TOLD = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "rain"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0, "output_tokens": 3},
}


async def ask_other_form(
    sent: ScriptedResponse, prompt: Prompt = QUESTION, sampling: SamplingSettings = SAMPLING
) -> tuple[Any, dict[str, Any]]:
    """Ask through the other form; return the completion or the error, and the body that went out."""
    elsewhere = FakeLibraryEndpoint(sent)
    async with LoopbackServer(elsewhere) as server, opened(settings(server.address)) as llm:
        try:
            answer: Any = await llm.complete(SONNET, prompt, sampling)
        except FoxcastError as error:
            answer = error
    (received,) = elsewhere.asked
    return answer, json.loads(received.body)


async def test_the_beginning_that_stays_is_marked_for_caching_and_the_saving_is_counted() -> None:
    system = Message(speaker=MessageRole.SYSTEM, text="Forecast.")
    prompt = Prompt(messages=(system, *QUESTION.messages), tools=(SEARCH,), stable=1)
    answer, body = await ask_other_form(
        ScriptedResponse(body=json.dumps(TOLD).encode()), prompt, SamplingSettings(max_tokens=9, seed=4)
    )
    assert body["system"] == [{"type": "text", "text": "Forecast.", "cache_control": {"type": "ephemeral"}}]
    assert body["tools"][0]["name"] == "search"
    assert "seed" not in body
    assert (answer.text, answer.finish) == ("Let me look.", FinishReason.CALLS)
    assert json.loads(answer.calls[0].arguments) == {"query": "rain"}
    assert answer.usage == ModelUsage(calls=1, tokens_in=100, tokens_cached=90, tokens_out=3)
    # 10 tokens at 3, 90 cached at 0.3 and 3 written at 15 dollars a million, the published price.
    assert answer.cost_usd == pytest.approx(30e-6 + 27e-6 + 45e-6)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (
            ScriptedResponse(status=401, body=b'{"type": "error", "error": {"type": "authentication_error"}}'),
            AuthenticationError,
        ),
        (ScriptedResponse(status=403, body=b"{}"), AuthenticationError),
        (
            ScriptedResponse(status=400, body=b'{"type": "error", "error": {"type": "invalid_request_error"}}'),
            RequestRejectedError,
        ),
        (ScriptedResponse(status=404, body=b"{}"), RequestRejectedError),
        (ScriptedResponse(status=500, body=b"{}"), ServiceUnavailableError),
        (
            ScriptedResponse(status=529, body=b'{"type": "error", "error": {"type": "overloaded_error"}}'),
            ServiceUnavailableError,
        ),
        (ScriptedResponse(ending=ResponseEnding.NO_ANSWER), ServiceUnavailableError),
        (ScriptedResponse(body=b"{" * 100, ending=ResponseEnding.MIDWAY), ServiceUnavailableError),
        (ScriptedResponse(body=b"<html>", headers={"Content-Type": "text/html"}), MalformedDataError),
        (ScriptedResponse(body=b"{}"), MalformedDataError),
    ],
    ids=["401", "403", "400", "404", "500", "529", "no answer", "half a body", "a web page", "an empty object"],
)
async def test_the_other_form_fails_with_the_same_meanings(sent: ScriptedResponse, kind: type[FoxcastError]) -> None:
    error, _ = await ask_other_form(sent)
    assert type(error) is kind
    assert type(error) is not NotFoundError


async def test_the_other_form_names_its_wait_too() -> None:
    headers = {"Retry-After": "9", "Content-Type": "application/json"}
    error, _ = await ask_other_form(
        ScriptedResponse(status=429, headers=headers, body=b'{"type": "error", "error": {}}')
    )
    assert isinstance(error, ServiceUnavailableError)
    assert error.retry_after_s == 9.0


async def test_what_a_model_does_not_take_is_refused_before_anything_is_sent() -> None:
    async with ScriptedModelServer(reply_text("x")) as server, opened(settings(server.base_url)) as llm:
        with pytest.raises(RequestRejectedError):
            await llm.complete("nobody/knows", QUESTION, SAMPLING)
    assert server.wire.received == 0


@pytest.mark.parametrize("provider", ["gemini", "openai"])
async def test_a_key_that_nobody_set_is_told_by_the_name_of_its_variable(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    variable = f"FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__{provider.upper()}"
    async with open_litellm(LitellmSettings(), context()) as litellm:
        with pytest.raises(AuthenticationError, match=f"no key; set {variable}"):
            await litellm.complete(f"{provider}/some-model", QUESTION, SAMPLING)


@pytest.mark.parametrize("status", [401, 402, 403])
async def test_refused_credentials_are_told_with_the_variable_and_what_to_do(status: int) -> None:
    async with ScriptedModelServer(reply_error(status)) as server, opened(settings(server.base_url)) as llm:
        with pytest.raises(AuthenticationError) as raised:
            await llm.complete("openai/unheard-of", QUESTION, SAMPLING)
    variable = "FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__OPENAI"
    does = f"add some, or set {variable} to" if status == 402 else f"the key was refused; set {variable} to one"
    assert str(raised.value).partition("(")[0].count(does) == 1


async def test_it_knows_before_it_is_asked_that_a_key_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    keys = LitellmSettings(keys={"gemini": SecretStr("k" * 20)})
    async with open_litellm(keys, context()) as opened:
        llm = cast("LitellmProvider", opened)
        assert await llm.lacks("openai/gpt-4o-mini") == "no key; set FOXCAST_MODELS__LITELLM__SETTINGS__KEYS__OPENAI"
        assert await llm.lacks("gemini/some-model") is None
        # A server of one's own asks for none, and a machine may have a role instead of a key.
        for model in ("ollama/some-model", "bedrock/some-model", "nobody/knows"):
            assert await llm.lacks(model) is None
        monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
        assert await llm.lacks("openai/gpt-4o-mini") is None


async def test_it_can_be_opened_again_after_it_was_closed() -> None:
    async with ScriptedModelServer(reply_text("yes")) as server:
        for _ in range(2):
            async with opened(settings(server.base_url)) as llm:
                assert (await llm.complete("litellm_proxy/unheard-of", QUESTION, SAMPLING)).text == "yes"


def made(kind: Any) -> Exception:
    """Return an error of the library with whatever its class demands."""
    import httpx

    response = httpx.Response(400, request=httpx.Request("POST", "https://models.example"))
    values = {"status_code": 400, "response": response, "request": response.request}
    demanded = [name for name, one in signature(kind).parameters.items() if one.default is one.empty]
    error: Exception = kind(**{name: values.get(name, "as made up") for name in demanded})
    return error


async def test_every_error_of_the_library_says_who_must_act() -> None:
    from litellm import exceptions

    library = load_library()
    found = {kind.__name__: type(raised(made(kind), library)) for kind in exceptions.LITELLM_EXCEPTION_TYPES}
    assert found == {
        "APIConnectionError": MalformedDataError,  # without a lost connection among its causes
        "APIError": MalformedDataError,
        "APIResponseValidationError": MalformedDataError,
        "AuthenticationError": AuthenticationError,
        "BadGatewayError": ServiceUnavailableError,
        "BadRequestError": RequestRejectedError,
        "ContentPolicyViolationError": RequestRejectedError,
        "ContextWindowExceededError": RequestRejectedError,
        "InternalServerError": MalformedDataError,
        "JSONSchemaValidationError": MalformedDataError,
        "NotFoundError": RequestRejectedError,
        "OpenAIError": MalformedDataError,
        "PermissionDeniedError": AuthenticationError,
        "RateLimitError": ServiceUnavailableError,
        "RejectedRequestError": RequestRejectedError,
        "ServiceUnavailableError": ServiceUnavailableError,
        "Timeout": ServiceUnavailableError,
        "UnprocessableEntityError": RequestRejectedError,
        "UnsupportedParamsError": RequestRejectedError,
    }


def raised(error: Exception, library: ModuleType) -> Exception:
    with pytest.raises(FoxcastError) as caught:
        raise_library_error(error, library, shown="litellm:x", remedy=ErrorRemedy())
    return caught.value


IMPORTS = """
import sys
import bot, plugins, bot.cli.main
import plugins.models.litellm, plugins.models._litellm_library, plugins.models.openai_compatible
assert "litellm" not in sys.modules, "imported at start"
"""

# What connects or asks for an address while the library is being imported is written down by the interpreter itself.
# Then it counts and is asked, all as in a base installation, which has none of the three libraries: an import of this
# one takes seconds.
LOADING = """
import os, sys
for name in ("fastapi", "mcp", "diskcache"):
    sys.modules[name] = None
seen = []
def note(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"}:
        seen.append((event, arguments))
sys.addaudithook(note)
before = dict(os.environ)
from plugins.models._litellm_library import QUIET_SETTINGS, load_library
load_library()
assert "litellm" in sys.modules
assert not seen, seen
added = {name for name in os.environ if os.environ[name] != before.get(name)}
# The library points its tokenizer to the tables that it brings along.
assert added == {*QUIET_SETTINGS, "TIKTOKEN_CACHE_DIR"}, added

from pydantic import BaseModel
def below(kind):
    return {found for child in kind.__subclasses__() for found in (child, *below(child))}
built = [kind.__pydantic_complete__ for kind in below(BaseModel) if kind.__module__.startswith("litellm.")]
assert len(built) > 300 and sum(built) < len(built) / 10, "its models are built with the import"
class Defined(BaseModel):
    number: int
assert Defined.__pydantic_complete__, "another model waits too"

from tiktoken import Encoding, registry
library = load_library()
assert not isinstance(registry.ENCODINGS["cl100k_base"], Encoding), "loaded with the import"
# The documented count of this encoding: "tiktoken is great!" is six tokens.
assert library.token_counter(model="gpt-4", text="tiktoken is great!") == 6
assert library.encode(model="gpt-4", text="tiktoken is great!") == [83, 1609, 5963, 374, 2294, 0]
assert isinstance(registry.ENCODINGS["cl100k_base"], Encoding)

import asyncio, warnings
from pathlib import Path
warnings.filterwarnings("ignore", category=UserWarning)
from bot.api import PluginContext
from bot.core.clock import SeededRandom, SystemClock
from bot.core.language_models import Prompt
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.model_contract import QUESTION, SAMPLING, SCHEMA, SEARCH
from bot.testing.model_server import ScriptedModelServer, reply_tool_calls, reply_text
from plugins.models.litellm import LitellmSettings, open_litellm

async def main():
    searched = reply_tool_calls(("search", {"query": "rain"}))
    script = [searched, reply_text('{"percent": 3}'), reply_text("again"), reply_text("again")]
    async with ScriptedModelServer(script) as server:
        settings = LitellmSettings(keys={"litellm_proxy": "k"}, base_urls={"litellm_proxy": server.base_url})
        place = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=Path())
        async with open_litellm(settings, place) as llm:
            ask = lambda prompt: llm.complete("litellm_proxy/unheard-of", prompt, SAMPLING)
            assert (await ask(Prompt(messages=QUESTION.messages, tools=(SEARCH,)))).calls[0].name == "search"
            assert (await ask(Prompt(messages=QUESTION.messages, schema=SCHEMA))).text == '{"percent": 3}'
            assert [(await ask(QUESTION)).text for _ in range(2)] == ["again", "again"]
        assert server.count == 4
asyncio.run(main())
"""

DIRECT = """
import asyncio, sys
from pathlib import Path
from bot.api import PluginContext
from bot.core.clock import SeededRandom, SystemClock
from bot.net.client import RetryingHttpClient
from bot.testing.model_contract import QUESTION, SAMPLING
from bot.testing.model_server import ScriptedModelServer, reply_text
from plugins.models.litellm import LitellmSettings, open_litellm

async def main():
    async with ScriptedModelServer([reply_text("yes")]) as server:
        settings = LitellmSettings(keys={"openai": "k"}, base_urls={"openai": server.base_url})
        async with RetryingHttpClient(clock=SystemClock(), random=SeededRandom(1)) as http:
            place = PluginContext(clock=SystemClock(), http=http, folder=Path())
            async with open_litellm(settings, place) as llm:
                answer = await llm.complete("openai/gpt-4o", QUESTION, SAMPLING)
    assert answer.cost_usd > 0
    assert "litellm" not in sys.modules, "imported for its prices"
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "script",
    [IMPORTS, LOADING, DIRECT],
    ids=["late", "silent and enough alone", "not needed"],
)
def test_the_library_is(script: str, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    (tmp_path / ".env").write_text("TAKEN_FROM_A_FILE=1\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{script}"],
        cwd=tmp_path,
        # What another test has loaded is in our environment and must not be in its own.
        env={name: value for name, value in os.environ.items() if name not in {*QUIET_SETTINGS, "TIKTOKEN_CACHE_DIR"}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
