"""Prompts without secrets: what a page, a tool or an error repeated must not go on to whoever serves a model."""

from dataclasses import replace

from bot.domain.prompt import Message, Prompt
from bot.redact import hide


def discreet(prompt: Prompt) -> Prompt:
    """Return the prompt without the secrets that are known; the same one where it holds none."""
    messages, handover = (tuple(map(_discreet, part)) for part in (prompt.messages, prompt.handover))
    before = (*prompt.messages, *prompt.handover)
    same = all(one is other for one, other in zip((*messages, *handover), before, strict=True))
    return prompt if same else replace(prompt, messages=messages, handover=handover)


def _discreet(message: Message) -> Message:
    # ``native`` stays: it goes back to the one who wrote it, and a change of one letter would void it.
    text = hide(message.text)
    calls = tuple(replace(call, arguments=hide(call.arguments)) for call in message.calls)
    return message if (text, calls) == (message.text, message.calls) else replace(message, text=text, calls=calls)
