"""Servers of one's own, and what is peculiar to each: LM Studio, vLLM, llama.cpp, Ollama. Any model name is known.

Source: the documents and issue trackers of these servers.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from bot.ports import Clock
from bot.testing.model_server import Script
from bot.testing.providers.chat_form import ChatForm
from bot.testing.providers.core import DialectDouble, ProviderDouble
from bot.testing.providers.exchange import (
    CHARS_PER_TOKEN,
    ChatRequest,
    ModelProfile,
    RequestRefusal,
    TokenCount,
    text_of,
)


class LocalForm(ChatForm):
    """A server that holds one model, with a context of ``window`` tokens."""

    thought_field = "reasoning_content"

    def __init__(self, window: int = 32_768) -> None:
        self.window = window

    def profile(self, model: str) -> ModelProfile:
        return ModelProfile(window=self.window, thinks=False)

    def listing(self, path: str) -> Mapping[str, Any] | None:
        row = {"id": "local", "object": "model", "created": 0, "owned_by": "double", "max_model_len": self.window}
        return {"object": "list", "data": [row]} if path.endswith("/models") else None


class LmStudioForm(LocalForm):
    """LM Studio: a tool choice is a word."""

    def check(self, chat: ChatRequest) -> None:
        if chat.choice is not None and not isinstance(chat.choice, str):
            message = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"
            raise RequestRefusal(rule="P-44", message=message)

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        return {"error": refusal.message}


class VllmForm(LocalForm):
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
            told = f"This model's maximum context length is {self.window} tokens."
            raise RequestRefusal(rule="P-15", message=f"{told} However, you requested {tokens} tokens.")

    def error(self, refusal: RequestRefusal) -> Mapping[str, Any]:
        told = {"message": refusal.message, "type": "BadRequestError", "param": refusal.param, "code": refusal.status}
        return {"error": told}


class LlamaCppForm(LocalForm):
    """The server of llama.cpp: says how large the prompt and the context are where one exceeds the other."""

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        if tokens > self.window:
            message = "the request exceeds the available context size, try increasing it"
            told = {"code": 400, "message": message, "type": "exceed_context_size_error"}
            sizes = {"n_prompt_tokens": tokens, "n_ctx": self.window}
            raise RequestRefusal(rule="P-46", message=message, body={"error": {**told, **sizes}})

    def listing(self, path: str) -> Mapping[str, Any] | None:
        if path.endswith("/props"):
            return {"default_generation_settings": {"n_ctx": self.window}, "total_slots": 1}
        return super().listing(path)


class OllamaForm(LocalForm):
    """Ollama: refuses nothing, ignores the tool choice, and cuts long prompts from the front to half the context."""

    refuses: ClassVar[bool] = False
    thought_field = "reasoning"

    def check_window(self, chat: ChatRequest, tokens: int) -> None:
        """Take a prompt of any length; ``shown`` cuts it."""

    def shown(self, chat: ChatRequest, tokens: TokenCount) -> tuple[Mapping[str, Any], TokenCount]:
        body = {name: value for name, value in chat.body.items() if name != "tool_choice"}
        if tokens.prompt <= self.window:
            return body, tokens
        kept = self.window // 2
        body = {name: value for name, value in body.items() if name != "tools"}
        left = kept * CHARS_PER_TOKEN
        messages: list[Mapping[str, Any]] = []
        for message in reversed(chat.messages):
            text = text_of(message.get("content"))
            messages.insert(0, {**message, "content": text[-left:]} if len(text) > left else message)
            left -= len(text)
            if left <= 0:
                break
        return {**body, "messages": messages}, TokenCount(prompt=kept)


class LmStudioDouble(DialectDouble):
    """LM Studio's server."""

    forms = (LmStudioForm,)


class VllmDouble(ProviderDouble):
    """vLLM's server, with a parser for tool calls (``--tool-call-parser``) or without."""

    def __init__(
        self,
        script: Script,
        *,
        window: int = 32_768,
        parser: bool = True,
        key: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__((VllmForm(window, parser=parser),), script, key=key, clock=clock)


class LlamaCppDouble(ProviderDouble):
    """The server of llama.cpp, with a context of ``window`` tokens."""

    def __init__(self, script: Script, *, window: int = 32_768, clock: Clock | None = None) -> None:
        super().__init__((LlamaCppForm(window),), script, clock=clock)


class OllamaDouble(ProviderDouble):
    """Ollama's compatible endpoint, with a context of ``window`` tokens."""

    def __init__(self, script: Script, *, window: int = 4096, clock: Clock | None = None) -> None:
        super().__init__((OllamaForm(window),), script, clock=clock)
