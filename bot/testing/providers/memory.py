"""What a provider double remembers: the replies it gave, and which beginnings of requests it has seen."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from bot.ids import derive_id
from bot.testing.providers.exchange import ChatRequest, GivenReply, Prefix, calls_of, text_of


class ReplyMemory:
    """The last ``most`` replies, found by the calls in them, by their text, and by the messages that they answered."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._given: OrderedDict[str, list[GivenReply]] = OrderedDict()

    def keep(self, chat: ChatRequest, given: GivenReply) -> None:
        """Remember a reply to a request."""
        for key in (_place(chat.messages), _first_key(chat.messages), *_reply_keys(given)):
            self._given.setdefault(key, []).append(given)
            self._given.move_to_end(key)
        while len(self._given) > self._most:
            self._given.popitem(last=False)

    def at(self, chat: ChatRequest, index: int) -> Sequence[GivenReply]:
        """Return the replies that the assistant message of this index can be: those given in its place, or its ids."""
        found = self._given.get(_place(chat.messages[:index])) or ()
        return found or [one for key in _message_keys(chat.messages[index]) for one in self._given.get(key, ())]

    def before(self, chat: ChatRequest) -> GivenReply | None:
        """Return the last reply of the conversation that a request continues: the one whose request it shares most of.

        Where none of the assistant's messages is known, it is the last reply to the same first user message.
        """
        spoken = [one for one in chat.messages if one.get("role") == "assistant"]
        keys = [key for one in reversed(spoken) for key in _message_keys(one)]
        keys += [_first_key(chat.messages)] if spoken else []
        same = (chat.source.path, chat.model)
        for key in keys:
            if found := [one for one in self._given.get(key, ()) if (one.path, one.model) == same]:
                return max(found, key=lambda one: (shared_share(one.prefix, chat.prefix), one.request))
        return None


class PrefixCache:
    """Counts how much of a request's beginning an earlier one held, by whole tools and messages; the last ``most``."""

    def __init__(self, most: int = 200_000) -> None:
        self._most = most
        self._seen: OrderedDict[str, None] = OrderedDict()

    def cached_chars(self, prefix: Prefix) -> int:
        """Return how many characters from the beginning were seen before."""
        return sum(chars for _, chars in takewhile(lambda part: part[0] in self._seen, prefix))

    def keep(self, prefix: Prefix) -> None:
        """Remember a beginning."""
        for state, _ in prefix:
            self._seen[state] = None
            self._seen.move_to_end(state)
        while len(self._seen) > self._most:
            self._seen.popitem(last=False)


def shared_share(earlier: Prefix, later: Prefix) -> float:
    """Return the share of the earlier request's characters with which the later one begins, by whole parts, 0 to 1."""
    total = sum(chars for _, chars in earlier)
    pairs = zip(earlier, later, strict=False)
    same = sum(one[1] for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return same / total if total else 1.0


def _place(messages: Sequence[Mapping[str, Any]]) -> str:
    state = ""
    for message in messages:
        state = derive_id(
            "place", state, str(message.get("role")), text_of(message.get("content")), str(calls_of(message))
        )
    return f"place {state}"


def _first_key(messages: Sequence[Mapping[str, Any]]) -> str:
    first = next((text_of(one.get("content")) for one in messages if one.get("role") == "user"), None)
    return f"first {first}"


def _message_keys(message: Mapping[str, Any]) -> list[str]:
    calls = [f"call {call_id}" for call_id, _ in calls_of(message) if call_id]
    return calls or [f"text {text_of(message.get('content'))}"]


def _reply_keys(given: GivenReply) -> list[str]:
    calls = [f"call {call_id}" for call_id, _ in given.named if call_id]
    return calls or [f"text {given.written.text}"]
