"""OpenAI's double: chat completions and Responses on one server, with the models and rules of both.

Source: OpenAI's API reference and deployment checklist.
"""

from bot.testing.providers.chat_form import ChatForm
from bot.testing.providers.core import DialectDouble
from bot.testing.providers.exchange import ChatRequest, RequestRefusal, calls_of
from bot.testing.providers.openai_responses import ResponsesForm
from bot.testing.providers.openai_rules import (
    OPENAI_MODELS,
    OpenAiProfile,
    check_effort,
    check_parallel,
    check_sampling,
    check_strict,
    refuse_length,
    refuse_parameter,
)

MOST_CALL_ID = 40


class OpenAiChatForm(ChatForm):
    """Chat completions of OpenAI itself. Reasoning is kept back there."""

    models = OPENAI_MODELS

    def thinks(self, chat: ChatRequest) -> bool:
        return chat.body.get("reasoning_effort", OPENAI_MODELS[chat.model].effort) not in ("", "none")

    def check(self, chat: ChatRequest) -> None:
        profile, body = OPENAI_MODELS[chat.model], chat.body
        effort = check_effort(profile, body.get("reasoning_effort"), "reasoning_effort")
        check_parallel(profile, body)
        if profile.efforts and "max_tokens" in body:
            refuse_parameter("P-9", "max_tokens", " Use 'max_completion_tokens' instead.")
        if effort not in ("", "none"):
            self._check_reasoning(chat, profile)
        self._check_schemas(chat)
        _check_ids(chat)

    def _check_reasoning(self, chat: ChatRequest, profile: OpenAiProfile) -> None:
        if chat.tools and not profile.chat_tools:
            message = (
                f"Function tools with reasoning_effort are not supported for {chat.model} in /v1/chat/completions. "
                "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
            )
            raise RequestRefusal(rule="P-7", message=message, param="reasoning_effort")
        check_sampling(chat.body)

    def _check_schemas(self, chat: ChatRequest) -> None:
        for at, tool in enumerate(chat.tools):
            if tool.get("strict"):
                place = f"tools[{at}].function.parameters"
                name = f"function '{tool.get('name')}'"
                check_strict(name, tool.get("parameters") or {}, place, "invalid_function_parameters")
        form = (chat.body.get("response_format") or {}).get("json_schema") or {}
        if form.get("strict"):
            name = f"response_format '{form.get('name')}'"
            check_strict(name, form.get("schema") or {}, "response_format", "invalid_json_schema")


def _check_ids(chat: ChatRequest) -> None:
    for at, message in enumerate(chat.messages):
        for number, (call_id, _) in enumerate(calls_of(message)):
            if len(call_id) > MOST_CALL_ID:
                refuse_length(f"messages[{at}].tool_calls[{number}].id", MOST_CALL_ID, len(call_id))
        if len(str(message.get("tool_call_id", ""))) > MOST_CALL_ID:
            refuse_length(f"messages[{at}].tool_call_id", MOST_CALL_ID, len(message["tool_call_id"]))


class OpenAiDouble(DialectDouble):
    """OpenAI: ``/v1/chat/completions`` and ``/v1/responses``, with one memory for both."""

    forms = (OpenAiChatForm, ResponsesForm)
