"""The rules that every provider has: calls and results in pairs, calls as they were given, names, and tool choice."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bot.domain.step import Json
from bot.testing.providers.exchange import ChatRequest, GivenReply, RequestRefusal, calls_of, without_nulls

MOST_TOOLS = 128
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
)
UNASKED = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'."


def check_tools(chat: ChatRequest, pattern: re.Pattern[str] = _NAME) -> None:
    """Check names and number of the tools (P-3), and that the choice names one of them (P-4)."""
    names = [str(tool.get("name")) for tool in chat.tools]
    if odd := next((name for name in names if not pattern.fullmatch(name)), None):
        at = names.index(odd)
        message = f"Invalid 'tools[{at}].name': string does not match pattern. Expected '^{pattern.pattern}$'."
        raise RequestRefusal(rule="P-3", message=message, param=f"tools[{at}].function.name", code="invalid_value")
    if len(names) > MOST_TOOLS:
        message = f"Invalid 'tools': array too long. Expected at most {MOST_TOOLS}, but got {len(names)} instead."
        raise RequestRefusal(rule="P-3", message=message, param="tools", code="array_above_max_length")
    if len(set(names)) < len(names):
        raise RequestRefusal(rule="P-3", message="Tool names must be unique.", param="tools", code="invalid_value")
    if chat.choice is None:
        return
    if not chat.body.get("tools"):
        message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        raise RequestRefusal(rule="P-4", message=message, param="tool_choice")
    if missing := set(chosen_names(chat.choice)) - set(names):
        message = f"Tool choice names {', '.join(sorted(missing))}, which is not among the tools."
        raise RequestRefusal(rule="P-4", message=message, param="tool_choice")


def chosen_names(choice: Any) -> Sequence[str]:  # noqa: ANN401 - a word or an object
    """Return the tools that a tool choice in chat-completions form names."""
    if not isinstance(choice, dict):
        return ()
    among = (choice.get("allowed_tools") or {}).get("tools") or [choice]
    return [str(one["function"].get("name")) for one in among if isinstance(one.get("function"), dict)]


def check_results(chat: ChatRequest) -> None:
    """Check that each call is answered directly after it, and that each result answers a call (P-1)."""
    waiting: set[str] = set()
    for at, message in enumerate(chat.messages):
        if message.get("role") == "tool":
            if (call_id := str(message.get("tool_call_id"))) not in waiting:
                raise RequestRefusal(rule="P-1", message=UNASKED, param=f"messages[{at}].tool_call_id")
            waiting.discard(call_id)
            continue
        if waiting:
            break
        waiting = {call_id for call_id, _ in calls_of(message)}
    if waiting:
        message_text = f"{UNANSWERED} The following did not have response messages: {', '.join(sorted(waiting))}"
        raise RequestRefusal(rule="P-1", message=message_text, param="messages")


def check_replies(
    chat: ChatRequest, given_at: Callable[[int], Sequence[GivenReply]]
) -> Iterator[tuple[int, GivenReply | None]]:
    """Check that the calls of each assistant message are those that were given (P-2).

    A message without calls that stands where a reply with calls was given is another message, which nothing is known
    of. Yields the index of each assistant message with the reply that it repeats, None where nothing is known of it.
    """
    for at, message in enumerate(chat.messages):
        if message.get("role") != "assistant":
            continue
        found = given_at(at)
        same = [one for one in found if one.named == calls_of(message)]
        if found and not same and calls_of(message):
            expected = ", ".join(f"{name} ({call_id})" for call_id, name in found[-1].named) or "no calls"
            told = f"messages[{at}]: the calls differ from those of the response, which were: {expected}."
            raise RequestRefusal(rule="P-2", message=told, param=f"messages[{at}].tool_calls")
        yield at, _closest(same, message, chat.natives.get(at))


def _closest(same: Sequence[GivenReply], message: Mapping[str, Any], native: Json) -> GivenReply | None:
    """Return the reply that is this very message where there is one, else one of the same text, else the last."""
    whole = [one for one in same if without_nulls(one.written.native) == without_nulls(native)]
    texts = [one for one in same if one.written.text == (message.get("content") or "")]
    return next(reversed(whole or texts or same), None)
