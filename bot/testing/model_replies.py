"""What a chat-completions endpoint may send, and what each of it means: the cases of the contract kit of providers."""

import json
from dataclasses import replace

from bot.domain.prompt import Completion, Finish, ToolCall
from bot.domain.step import Usage
from bot.errors import ContextExceeded, ContractError, FoxcastError, QuotaExhausted, Rejected, Unauthorized, Unavailable
from bot.testing.model_server import Reply, cut_short, fail, hang_up, huge, page, refuse, say, torn

USAGE = Usage(calls=1, tokens_in=100, tokens_out=20)


def _problem(status: int, code: str) -> Reply:
    """Answer with an error that has a code."""
    reply = fail(status)
    body = {"error": {"message": "as scripted", "type": "invalid_request_error", "param": None, "code": code}}
    return replace(reply, raw=json.dumps(body).encode())


# What goes over the wire -> what it means. Source: the API reference of chat completions. Where a server counts no
# tokens, they are estimated: a quarter of the characters asked (13) and answered, rounded up.
ANSWERS = {
    "text": (say("42 %, perhaps"), Completion(text="42 %, perhaps", usage=USAGE)),
    "a call": (
        Reply(calls=(("search", '{"query": "rain"}'),)),
        Completion(
            calls=(ToolCall(id="call_1_1", name="search", arguments='{"query": "rain"}'),),
            finish=Finish.CALLS,
            usage=USAGE,
        ),
    ),
    "calls in parallel": (
        Reply(calls=(("search", "{}"), ("submit", "not even JSON"))),
        Completion(
            calls=(
                ToolCall(id="call_1_1", name="search", arguments="{}"),
                ToolCall(id="call_1_2", name="submit", arguments="not even JSON"),
            ),
            finish=Finish.CALLS,
            usage=USAGE,
        ),
    ),
    "thoughts": (
        Reply(text="9 %", thinking="Clouds are rare."),
        Completion(text="9 %", thinking="Clouds are rare.", usage=USAGE),
    ),
    "a refusal": (refuse("I must not."), Completion(text="I must not.", finish=Finish.REFUSED, usage=USAGE)),
    "a filter": (
        Reply(text="I", finish="content_filter"),
        Completion(text="I", finish=Finish.REFUSED, usage=USAGE),
    ),
    "a cut": (cut_short('{"percent": 4'), Completion(text='{"percent": 4', finish=Finish.LENGTH, usage=USAGE)),
    # No error: the gateway asks once more, with twice the tokens.
    "thoughts that left no room": (
        Reply(thinking="Clouds are", finish="length"),
        Completion(thinking="Clouds are", finish=Finish.LENGTH, usage=USAGE),
    ),
    "cached tokens": (
        Reply(text="x", tokens_in=1000, tokens_cached=900, tokens_out=7),
        Completion(text="x", usage=Usage(calls=1, tokens_in=1000, tokens_cached=900, tokens_out=7)),
    ),
    "an escaped emoji": (
        Reply(raw=rb'{"choices": [{"message": {"content": "\u00e9 \ud83e\udd8a"}, "finish_reason": "stop"}]}'),
        Completion(text="é 🦊", usage=Usage(calls=1, tokens_in=4, tokens_out=1)),
    ),
}

FAILURES: dict[str, tuple[Reply, type[FoxcastError]]] = {
    "400": (fail(400), Rejected),
    "401": (fail(401), Unauthorized),
    "402": (fail(402), QuotaExhausted),
    "403": (fail(403), Unauthorized),
    "404": (fail(404), Rejected),
    "409": (fail(409), Unavailable),
    "413": (fail(413), Rejected),
    "422": (fail(422), Rejected),
    "429": (fail(429), Unavailable),
    "500": (fail(500), Unavailable),
    "502": (fail(502), Unavailable),
    "503": (fail(503), Unavailable),
    "529": (fail(529), Unavailable),
    "no answer": (hang_up(), Unavailable),
    "half a body": (torn(say("a text that is long enough to be torn")), Unavailable),
    "no quota": (_problem(429, "insufficient_quota"), QuotaExhausted),
    "too long": (_problem(400, "context_length_exceeded"), ContextExceeded),
    "an error of status 200": (Reply(raw=b'{"error": {"message": "slow down", "code": 429}}'), Unavailable),
    "a web page": (page(), ContractError),
    "broken JSON": (Reply(raw=b'{"choices": ['), ContractError),
    "an empty object": (Reply(raw=b"{}"), ContractError),
    "a list": (Reply(raw=b"[]"), ContractError),
    "no choice": (Reply(raw=b'{"choices": []}'), ContractError),
    "a wrong type": (Reply(raw=b'{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}'), ContractError),
    "too many bytes": (huge(3 * 2**20), ContractError),
}

BROKEN_OFF = {"no answer", "half a body"}
