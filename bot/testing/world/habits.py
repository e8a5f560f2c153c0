"""The bad habits of simulated minds, and how often they fall into them; all chance comes from what they are asked."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from bot.clock import SeededRandom
from bot.ids import digest
from bot.testing.model_server import Flaw, Reply, refuse, spoil


class Vice(StrEnum):
    """What can be wrong with an answer; RAMBLES is only long-winded, OBEYS does what a page demands."""

    MALFORMED = "malformed"
    NO_CALL = "no call"
    STRAYS = "strays"
    OBEYS = "obeys"
    NAN = "nan"
    RAMBLES = "rambles"
    REFUSES = "refuses"
    CUT_OFF = "cut off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What a mind is like.

    ``noise`` is the standard deviation, in log-odds, of a misjudgement that lasts for a conversation; ``factor``
    multiplies log-odds (above 1: overconfident). ``latency_s`` is the median time to answer, with a log-normal spread
    of ``latency_spread``. ``vices`` says how often an answer has each of them; at most one at a time. It searches
    ``searches`` times and reads ``pages`` pages at most. As a judge of texts it lets pass ``lenient`` of those that it
    sees through.
    """

    noise: float = 0.2
    factor: float = 1.0
    latency_s: float = 0.0
    latency_spread: float = 0.4
    vices: Mapping[Vice, float] = field(default_factory=dict)
    searches: int = 2
    pages: int = 5
    lenient: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what nobody can be like."""
        if sum(self.vices.values()) > 1.0 or any(share < 0.0 for share in self.vices.values()):
            message = f"shares of vices are at least 0 and at most 1 together, not {dict(self.vices)}"
            raise ValueError(message)
        if self.factor <= 0.0 or self.noise < 0.0 or self.latency_s < 0.0:
            message = f"noise and latency are at least 0 and the factor is above 0: {self}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mood:
    """What a mind does with one request: a vice or none, the deviate of its noise, and how long it takes.

    ``draw`` in [0, 1) decides between the ways of a vice.
    """

    vice: Vice | None = None
    deviate: float = 0.0
    latency_s: float = 0.0
    draw: float = 0.0


def mood_of(habits: Habits, body: Mapping[str, Any], opening: str) -> Mood:
    """Return the mood for a request: the same request is always met in the same one.

    The noise comes from the ``opening`` of the conversation and the request's seed alone, so that it lasts.
    """
    chance = SeededRandom(0)
    asked = digest(json.dumps(body, sort_keys=True, ensure_ascii=True).encode())
    one = chance.stream("mood", asked)
    lasting = chance.stream(
        "noise", str(body.get("model")), str(body.get("seed")), digest(opening.encode("utf-8", "replace"))
    )
    latency_s = 0.0
    if habits.latency_s:
        latency_s = habits.latency_s * float(one.lognormal(0.0, habits.latency_spread))
    return Mood(
        vice=_drawn(habits.vices, float(one.random())),
        deviate=float(lasting.standard_normal()),
        latency_s=latency_s,
        draw=float(one.random()),
    )


def marred(reply: Reply, mood: Mood) -> Reply:
    """Return a good answer as the vice leaves it; OBEYS is a matter of what is answered, not of how."""
    ways: Mapping[Vice, Callable[[], Reply]] = {
        Vice.REFUSES: lambda: refuse("I am sorry, I cannot help with forecasts of real events."),
        Vice.NO_CALL: lambda: Reply(text="Let me think step by step. I would look for recent reports first."),
        Vice.MALFORMED: lambda: _rewritten(reply, _broken if mood.draw < 0.5 else _single_quoted),
        Vice.NAN: lambda: _rewritten(reply, lambda text: _spoilt(text, Flaw.NAN)),
        Vice.CUT_OFF: lambda: replace(_rewritten(reply, _broken), finish="length"),
        Vice.RAMBLES: lambda: _rambling(reply),
        Vice.STRAYS: lambda: _straying(reply, mood.draw),
    }
    way = None if mood.vice is None else ways.get(mood.vice)
    return reply if way is None else way()


def _straying(reply: Reply, draw: float) -> Reply:
    """Answer another question than the one that was asked: an invented tool, several calls, or a bare number."""
    if reply.calls and draw < 0.35:
        return replace(reply, calls=(("run_code", '{"code": "print(0.5)"}'),))
    if reply.calls and draw < 0.7:
        return replace(reply, calls=reply.calls * 3)
    return Reply(text='{"answer": "around 50 percent"}')


def _rambling(reply: Reply) -> Reply:
    words = "On the one hand much speaks for it, on the other hand much speaks against it, and time will tell. " * 12
    if reply.calls:
        return replace(reply, text=words)
    return replace(
        reply, text=f"<think>{words}</think>\nHere is my answer:\n```json\n{reply.text}\n```\nI hope it helps!"
    )


def _rewritten(reply: Reply, rewrite: Callable[[str], str]) -> Reply:
    if reply.calls:
        return replace(reply, calls=tuple((name, rewrite(text)) for name, text in reply.calls))
    return replace(reply, text=rewrite(reply.text or ""))


def _broken(text: str) -> str:
    return _spoilt(text, Flaw.CUT)


def _single_quoted(text: str) -> str:
    """Write JSON as some models do, in the style of another language; a reader may be able to mend it."""
    try:
        return str(json.loads(text))
    except ValueError:
        return _broken(text)


def _spoilt(text: str, flaw: Flaw) -> str:
    try:
        return spoil(text, flaw)
    except ValueError:
        return text[: max(1, len(text) // 2)]


def _drawn(vices: Mapping[Vice, float], draw: float) -> Vice | None:
    for vice, share in vices.items():
        draw -= share
        if draw < 0.0:
            return vice
    return None


def every_vice(share: float, *, but: Sequence[Vice] = ()) -> Mapping[Vice, float]:
    """Return the same share for each vice."""
    return {vice: share for vice in Vice if vice not in but}
