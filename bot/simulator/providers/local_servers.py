"""Fakes of local model servers: LM Studio, vLLM, llama.cpp, Ollama."""

from collections.abc import Mapping
from typing import Any, ClassVar

from bot.core.interfaces import Clock
from bot.simulator.providers.chat_completions import ChatRequestFormat
from bot.simulator.providers.chat_requests import (
    CHARS_PER_TOKEN,
    ChatRequest,
    RequestRefusal,
    ServedModelProfile,
    TokenCount,
    content_text,
)
from bot.simulator.providers.provider_double import ProviderDouble, SimpleProviderDouble
from bot.testing.model_server import ReplyScript


class LocalRequestFormat(ChatRequestFormat):
    """A server with one model, with a context of ``window`` tokens."""

    thought_field = "reasoning_content"

    def __init__(self, window: int = 32_768) -> None:
        self.window = window

    def profile(self, model: str) -> ServedModelProfile:
        return ServedModelProfile(window=self.window, thinks=False)

    def model_listing(self, path: str) -> Mapping[str, Any] | None:
        row = {"id": "local", "object": "model", "created": 0, "owned_by": "double", "max_model_len": self.window}
        return {"object": "list", "data": [row]} if path.endswith("/models") else None


class LmStudioRequestFormat(LocalRequestFormat):
    """LM Studio: a tool choice is a word."""

    def check(self, chat: ChatRequest) -> None:
        if chat.choice is not None and not isinstance(chat.choice, str):
            message = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
            raise RequestRefusal(rule="P-44", message=message)

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return {"error": refusal.message}


class VllmRequestFormat(LocalRequestFormat):
    """VLLM: without a parser for tool calls the model cannot choose whether to make one."""

    thought_field = "reasoning"

    def __init__(self, window: int = 32_768, *, parser: bool = True) -> None:
        super().__init__(window)
        self.parser = parser

    def check(self, chat: ChatRequest) -> None:
        if not self.parser and chat.tools and chat.choice in (None, "auto"):
            message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
            raise RequestRefusal(rule="P-45", message=message)

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        if tokens > self.window:
            message = f"This model's maximum context length is {self.window} tokens."
            raise RequestRefusal(rule="P-15", message=f"{message} However, you requested {tokens} tokens.")

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        error = {"message": refusal.message, "type": "BadRequestError", "param": refusal.param, "code": refusal.status}
        return {"error": error}


class LlamaCppRequestFormat(LocalRequestFormat):
    """The server of llama.cpp: reports the sizes of the prompt and of the context where one exceeds the other."""

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        if tokens > self.window:
            message = "the request exceeds the available context size, try increasing it"
            error = {"code": 400, "message": message, "type": "exceed_context_size_error"}
            sizes = {"n_prompt_tokens": tokens, "n_ctx": self.window}
            raise RequestRefusal(rule="P-46", message=message, body={"error": {**error, **sizes}})

    def model_listing(self, path: str) -> Mapping[str, Any] | None:
        if path.endswith("/props"):
            return {"default_generation_settings": {"n_ctx": self.window}, "total_slots": 1}
        return super().model_listing(path)


class OllamaRequestFormat(LocalRequestFormat):
    """Ollama.

    refuses nothing, ignores the tool choice, and truncates long prompts from the front to half the context.
    """

    refuses: ClassVar[bool] = False
    thought_field = "reasoning"

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        """Accept a prompt of any length; ``shown`` truncates it."""

    def visible_prompt(self, chat: ChatRequest, tokens: TokenCount) -> tuple[Mapping[str, Any], TokenCount]:
        body = {name: value for name, value in chat.body.items() if name != "tool_choice"}
        if tokens.prompt <= self.window:
            return body, tokens
        kept = self.window // 2
        body = {name: value for name, value in body.items() if name != "tools"}
        left = kept * CHARS_PER_TOKEN
        messages: list[Mapping[str, Any]] = []
        for message in reversed(chat.messages):
            text = content_text(message.get("content"))
            messages.insert(0, {**message, "content": text[-left:]} if len(text) > left else message)
            left -= len(text)
            if left <= 0:
                break
        return {**body, "messages": messages}, TokenCount(prompt=kept)


class LmStudioDouble(SimpleProviderDouble):
    """LM Studio's server."""

    format_classes = (LmStudioRequestFormat,)


class VllmDouble(ProviderDouble):
    """vLLM's server, with a parser for tool calls (``--tool-call-parser``) or without."""

    def __init__(
        self,
        script: ReplyScript,
        *,
        window: int = 32_768,
        parser: bool = True,
        key: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__((VllmRequestFormat(window, parser=parser),), script, key=key, clock=clock)


class LlamaCppDouble(ProviderDouble):
    """The server of llama.cpp, with a context of ``window`` tokens."""

    def __init__(self, script: ReplyScript, *, window: int = 32_768, clock: Clock | None = None) -> None:
        super().__init__((LlamaCppRequestFormat(window),), script, clock=clock)


class OllamaDouble(ProviderDouble):
    """Ollama's compatible endpoint, with a context of ``window`` tokens."""

    def __init__(self, script: ReplyScript, *, window: int = 4096, clock: Clock | None = None) -> None:
        super().__init__((OllamaRequestFormat(window),), script, clock=clock)
