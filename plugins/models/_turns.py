"""A conversation as turns, for families in which the user's turn holds the results of tools and what is said after."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bot.api import Message, Speaker


@dataclass(slots=True, kw_only=True)
class UserTurn:
    """What is said to the model at once: first the results of its calls, then texts.

    ``end`` is how many messages of the prompt end with it; ``asked`` is the model's message that the results answer.
    """

    results: list[Message] = field(default_factory=list)
    texts: list[Message] = field(default_factory=list)
    asked: Message | None = None
    end: int = 0

    def ordered(self) -> list[Message]:
        """Return the results in the order of the calls; those that answer none of them come last."""
        order = {call.id: place for place, call in enumerate(self.asked.calls if self.asked else ())}
        return sorted(self.results, key=lambda result: order.get(result.answers or "", len(order)))


Turn = UserTurn | Message


def turns_of(messages: Sequence[Message]) -> Iterator[Turn]:
    """Yield the turns in order, an assistant's as its message; what the operator says belongs to none."""
    open_turn: UserTurn | None = None
    said: Message | None = None
    for place, message in enumerate(messages, 1):
        if message.speaker is Speaker.SYSTEM:
            continue
        if message.speaker is Speaker.ASSISTANT:
            if open_turn is not None:
                yield open_turn
            open_turn, said = None, message
            yield message
            continue
        open_turn = open_turn or UserTurn(asked=said)
        (open_turn.results if message.speaker is Speaker.TOOL else open_turn.texts).append(message)
        open_turn.end = place
    if open_turn is not None:
        yield open_turn


def last_stable(turns: Sequence[Turn], stable: int) -> int | None:
    """Return the place of the last user turn that will stay as it is, None where none will."""
    places = [place for place, turn in enumerate(turns) if isinstance(turn, UserTurn) and turn.end <= stable]
    return places[-1] if places else None
