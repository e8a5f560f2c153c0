"""How a simulated model behaves: noise, overconfidence, latency, and how often its answers are faulty."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from bot.core.clock import SeededRandom
from bot.core.ids import sha256_hex
from bot.core.light_dataclass import dataclass
from bot.testing.model_server import JsonFlaw, ScriptedReply, reply_refusal, spoil_json


class AnswerFault(StrEnum):
    """The faults of an answer; RAMBLES is only long-winded, OBEYS follows the instructions of a page."""

    MALFORMED = "malformed"
    NO_CALL = "no call"
    STRAYS = "strays"
    OBEYS = "obeys"
    NAN = "nan"
    RAMBLES = "rambles"
    REFUSES = "refuses"
    CUT_OFF = "cut off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBehaviour:
    """The properties of a simulated model.

    ``noise`` is the standard deviation, in log-odds, of a misjudgement that lasts for a conversation;
    ``log_odds_factor`` multiplies log-odds (above 1: overconfident). ``latency_s`` is the median time to answer, with a
    log-normal spread of ``latency_spread``. ``fault_rates`` says how often an answer has each of them; at most one at a
    time. It searches ``searches`` times and reads ``pages`` pages at most. As a judge of texts it lets pass ``lenient``
    of those that it sees through.
    """

    noise: float = 0.2
    log_odds_factor: float = 1.0
    latency_s: float = 0.0
    latency_spread: float = 0.4
    fault_rates: Mapping[AnswerFault, float] = field(default_factory=dict)
    searches: int = 2
    pages: int = 5
    lenient: float = 0.0

    def __post_init__(self) -> None:
        """Refuse impossible values."""
        if sum(self.fault_rates.values()) > 1.0 or any(share < 0.0 for share in self.fault_rates.values()):
            message = f"shares of vices are at least 0 and at most 1 together, not {dict(self.fault_rates)}"
            raise ValueError(message)
        if self.log_odds_factor <= 0.0 or self.noise < 0.0 or self.latency_s < 0.0:
            message = f"noise and latency are at least 0 and the factor is above 0: {self}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBehaviour:
    """The behaviour on one request: a fault or none, the deviate of its noise, and its duration.

    ``draw`` in [0, 1) decides between the variants of a fault.
    """

    fault: AnswerFault | None = None
    deviate: float = 0.0
    latency_s: float = 0.0
    draw: float = 0.0


def draw_behaviour(habits: ModelBehaviour, body: Mapping[str, Any], opening: str) -> AnswerBehaviour:
    """Return the behaviour on a request: always the same for the same request.

    The noise depends only on the ``opening`` of the conversation and the request's seed, so that it lasts.
    """
    chance = SeededRandom(0)
    asked = sha256_hex(json.dumps(body, sort_keys=True, ensure_ascii=True).encode())
    one = chance.stream("mood", asked)
    lasting = chance.stream(
        "noise", str(body.get("model")), str(body.get("seed")), sha256_hex(opening.encode("utf-8", "replace"))
    )
    latency_s = 0.0
    if habits.latency_s:
        latency_s = habits.latency_s * float(one.lognormal(0.0, habits.latency_spread))
    return AnswerBehaviour(
        fault=_draw_fault(habits.fault_rates, float(one.random())),
        deviate=float(lasting.standard_normal()),
        latency_s=latency_s,
        draw=float(one.random()),
    )


def apply_fault(reply: ScriptedReply, answer_behaviour: AnswerBehaviour) -> ScriptedReply:
    """Return a good answer with the fault applied; OBEYS affects the content of an answer, not its form."""
    ways: Mapping[AnswerFault, Callable[[], ScriptedReply]] = {
        AnswerFault.REFUSES: lambda: reply_refusal("I am sorry, I cannot help with forecasts of real events."),
        AnswerFault.NO_CALL: lambda: ScriptedReply(
            text="Let me think step by step. I would look for recent reports first."
        ),
        AnswerFault.MALFORMED: lambda: _rewrite_reply(
            reply, _break_json if answer_behaviour.draw < 0.5 else _single_quote_json
        ),
        AnswerFault.NAN: lambda: _rewrite_reply(reply, lambda text: _try_to_spoil(text, JsonFlaw.NAN)),
        AnswerFault.CUT_OFF: lambda: replace(_rewrite_reply(reply, _break_json), finish="length"),
        AnswerFault.RAMBLES: lambda: _add_rambling(reply),
        AnswerFault.STRAYS: lambda: _answer_other_question(reply, answer_behaviour.draw),
    }
    way = None if answer_behaviour.fault is None else ways.get(answer_behaviour.fault)
    return reply if way is None else way()


def _answer_other_question(reply: ScriptedReply, draw: float) -> ScriptedReply:
    """Answer something other than was asked: an invented tool, several calls, or a bare number."""
    if reply.calls and draw < 0.35:
        return replace(reply, calls=(("run_code", '{"code": "print(0.5)"}'),))
    if reply.calls and draw < 0.7:
        return replace(reply, calls=reply.calls * 3)
    return ScriptedReply(text='{"answer": "around 50 percent"}')


def _add_rambling(reply: ScriptedReply) -> ScriptedReply:
    words = "On the one hand much speaks for it, on the other hand much speaks against it, and time will tell. " * 12
    if reply.calls:
        return replace(reply, text=words)
    return replace(
        reply, text=f"<think>{words}</think>\nHere is my answer:\n```json\n{reply.text}\n```\nI hope it helps!"
    )


def _rewrite_reply(reply: ScriptedReply, rewrite: Callable[[str], str]) -> ScriptedReply:
    if reply.calls:
        return replace(reply, calls=tuple((name, rewrite(text)) for name, text in reply.calls))
    return replace(reply, text=rewrite(reply.text or ""))


def _break_json(text: str) -> str:
    return _try_to_spoil(text, JsonFlaw.CUT)


def _single_quote_json(text: str) -> str:
    """Write JSON as some models do, in the style of another language; a parser may be able to repair it."""
    try:
        return str(json.loads(text))
    except ValueError:
        return _break_json(text)


def _try_to_spoil(text: str, flaw: JsonFlaw) -> str:
    try:
        return spoil_json(text, flaw)
    except ValueError:
        return text[: max(1, len(text) // 2)]


def _draw_fault(fault_rates: Mapping[AnswerFault, float], draw: float) -> AnswerFault | None:
    for answer_fault, share in fault_rates.items():
        draw -= share
        if draw < 0.0:
            return answer_fault
    return None


def equal_fault_rates(share: float, *, but: Sequence[AnswerFault] = ()) -> Mapping[AnswerFault, float]:
    """Return the same share for each vice."""
    return {answer_fault: share for answer_fault in AnswerFault if answer_fault not in but}
