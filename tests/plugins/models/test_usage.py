"""What a call costs where a server counts no tokens: an estimate, in each wire format."""

from typing import Any

import pytest

from bot.core.beliefs import ModelUsage
from bot.core.language_models import Message, MessageRole
from plugins.models._wire_chat import read_chat
from plugins.models._wire_gemini import read_gemini
from plugins.models._wire_messages import read_messages
from plugins.models._wire_responses import read_responses
from tests.plugins.models.wire_calls import Read, reply_of, wire_call

ASKED = Message(speaker=MessageRole.USER, text="q" * 400)
CHAT = {"choices": [{"message": {"content": "a" * 40, "reasoning_content": "r" * 80}, "finish_reason": "stop"}]}
MESSAGES = {
    "type": "message",
    "content": [{"type": "thinking", "thinking": "r" * 80, "signature": "s"}, {"type": "text", "text": "a" * 40}],
    "stop_reason": "end_turn",
}
RESPONSES = {
    "status": "completed",
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "r" * 80}]},
        {"type": "message", "content": [{"type": "output_text", "text": "a" * 40}]},
    ],
}
GEMINI = {
    "candidates": [
        {"content": {"parts": [{"text": "r" * 80, "thought": True}, {"text": "a" * 40}]}, "finishReason": "STOP"}
    ]
}
FORMATS = [
    (read_chat, CHAT, {"usage": {"prompt_tokens": 0, "completion_tokens": 0}}),
    (read_messages, MESSAGES, {"usage": {"input_tokens": 0, "output_tokens": 0}}),
    (read_responses, RESPONSES, {"usage": {"input_tokens": 0, "output_tokens": 0}}),
    (read_gemini, GEMINI, {"usageMetadata": {}}),
]


@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize(("read", "reply", "zeros"), FORMATS, ids=["chat", "messages", "responses", "gemini"])
def test_a_server_that_counts_no_token_is_not_taken_for_a_free_one(
    read: Read, reply: dict[str, Any], zeros: dict[str, Any], *, is_sent: bool
) -> None:
    answer = read(reply_of({**reply, **(zeros if is_sent else {})}), wire_call("x/y", ASKED)).completion
    # Four characters are a token: 400 were asked, and 40 and 80 of reasoning came back.
    assert answer.usage == ModelUsage(calls=1, tokens_in=100, tokens_out=30)
