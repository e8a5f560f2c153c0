"""What a model is told that takes over a conversation from another one: what was done so far, in plain words.

What the other model was given with its answers (signatures, encrypted reasoning) is void for it, so it begins a
conversation of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bot.domain.prompt import Message, Speaker, Tool

# Of a long conversation the end is shown; what was found early is in the belief, where there is one.
TRANSCRIPT_CHARS = 24_000
PART_CHARS = 4_000
# How a text of others begins. Source: ``bot.desk.untrusted``.
_FENCE = re.compile(r"<untrusted-([0-9a-f]+) ")


def handover_text(done: str) -> str:
    """Return the part of the first message that says what was done so far."""
    return f"## Work so far\nAnother model began this work. Go on from here; do not repeat what was done.\n\n{done}"


def transcript_text(messages: Sequence[Message]) -> str:
    """Return what was said since the opening, the newest part of it where it is long."""
    lines: list[str] = []
    room = TRANSCRIPT_CHARS
    for line in reversed(list(_lines(messages))):
        room -= len(line)
        if room < 0 and lines:
            lines.append("(what came before is left out)")
            break
        lines.append(line)
    return "\n\n".join(reversed(lines))


def call_text(tool: Tool) -> str:
    """Return the line that asks for one call and no other."""
    return f"Answer with one call of {tool.name}."


def _lines(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message.speaker is Speaker.ASSISTANT:
            parts = [message.text.strip(), *(f"Call: {call.name}({call.arguments})" for call in message.calls)]
            yield "\n".join(["Assistant:", *(_cut(part) for part in parts if part)])
        elif message.text:
            yield f"{'Result' if message.speaker is Speaker.TOOL else 'User'}:\n{_cut(message.text)}"


def _cut(text: str) -> str:
    """Return the beginning of a text; a fence around words of others that is cut open is closed."""
    if len(text) <= PART_CHARS:
        return text
    kept = text[:PART_CHARS]
    still_open = [mark for mark in _FENCE.findall(kept) if f"</untrusted-{mark}>" not in kept]
    return "\n".join([f"{kept} [cut here]", *(f"</untrusted-{mark}>" for mark in still_open)])
