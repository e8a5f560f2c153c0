"""A model server for measurements of whole programs: little work a request, and it notes when each one arrived.

Needs the standard library alone. An address names the script: ``/CALLS/MILLISECONDS/v1/chat/completions`` searches
until the last of so many calls of a conversation, which submits, and answers each request after so long; an address
that ends in ``/converse`` is answered in the form of Amazon Bedrock. Without tools the answer is a text that
forecasting-tools can read. ``GET /arrivals`` returns when requests arrived, in seconds of the machine's clock, and
forgets them; ``GET /begun`` how many there were when a conversation began last; ``GET /bodies`` the newest request of
each length of a conversation.
"""

import asyncio
import json
import sys
import time
from typing import cast

HOST = "127.0.0.1"
PROBABILITY = 0.37
BELIEF = {
    "probability": PROBABILITY,
    "confidence": "high",
    "update_reasoning": "The keeper was seen with oil.",
    "base_rate_anchor": "half of the time",
    "evidence_for": [{"text": "it was seen", "source": "search_1_result_1"}],
    "evidence_against": [],
    "key_uncertainties": ["the weather"],
}
THOUGHTS = "The time that is left is short, and the status quo is that the lamp stays dark. " * 4
TEXT = f'{THOUGHTS}\nProbability: 37%\n\n```json\n{{"prediction_in_decimal": {PROBABILITY}}}\n```'
_ASSISTANT = (b'"role":"assistant"', b'"role": "assistant"')


class MockProviderServer:
    """Replies to chat completions and keeps the times of their arrival."""

    def __init__(self) -> None:
        self.arrivals: list[float] = []
        self._begun_by = 0
        self.bodies: dict[int, bytes] = {}
        self._parts: dict[str, dict[str, object]] = {
            "search": _call("web_search", {"query": "lamp", "updated_belief": BELIEF}),
            "submit": _call(
                "submit", {"probability": PROBABILITY, "reasoning": "all in all", "updated_belief": BELIEF}
            ),
            "text": {"role": "assistant", "content": TEXT},
        }

    def answer(self, path: str, body: bytes) -> tuple[float, bytes]:
        """Return after how many seconds what is sent."""
        if path == "/arrivals":
            noted, self.arrivals = self.arrivals, []
            return 0.0, json.dumps(noted).encode()
        if path == "/begun":
            return 0.0, json.dumps([self._begun_by]).encode()
        if path == "/bodies":
            return 0.0, json.dumps([self.bodies[made].decode() for made in sorted(self.bodies)]).encode()
        self.arrivals.append(time.time())
        calls, milliseconds = path.split("/")[1:3]
        kind = "text"
        if b'"tools"' in body:
            made = sum(map(body.count, _ASSISTANT))
            self.bodies[made] = body
            if made == 0:
                self._begun_by = len(self.arrivals)
            kind = "search" if made + 1 < int(calls) else "submit"
        if path.endswith("/converse"):
            return int(milliseconds) / 1000, json.dumps(_converse_reply(self._parts[kind], len(body))).encode()
        reply = {
            "id": f"chatcmpl-{len(self.arrivals)}",
            "object": "chat.completion",
            "created": 1_770_000_000,
            "model": "mock",
            "choices": [
                {"index": 0, "message": self._parts[kind], "finish_reason": "stop" if kind == "text" else "tool_calls"}
            ],
            "usage": {
                "prompt_tokens": len(body) // 4,
                "completion_tokens": 150,
                "total_tokens": len(body) // 4 + 150,
            },
        }
        return int(milliseconds) / 1000, json.dumps(reply).encode()


class MockProviderConnection(asyncio.Protocol):
    """One connection: one request after the other."""

    def __init__(self, server: MockProviderServer) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line[:15].lower() == b"content-length:"), 0)
        if len(body) < length:
            return
        self._received = body[length:]
        delay_s, reply = self._server.answer(head.split(b" ", 2)[1].decode(), body[:length])
        asyncio.get_running_loop().call_later(delay_s, self._send, reply)

    def _send(self, reply: bytes) -> None:
        if not self._transport.is_closing():
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n"
            self._transport.write(head.encode() + reply)


def _call(name: str, arguments: dict[str, object]) -> dict[str, object]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}],
    }


def _converse_reply(message: dict[str, object], sent: int) -> dict[str, object]:
    """Return the same message as Amazon Bedrock returns it. Source: its reference, "Converse"."""
    calls = cast("list[dict[str, dict[str, str]]]", message.get("tool_calls", []))
    content: list[dict[str, object]] = [
        {"toolUse": {"toolUseId": made["id"], "name": named["name"], "input": json.loads(named["arguments"])}}
        for made in calls
        for named in (made["function"],)
    ]
    return {
        "metrics": {"latencyMs": 1},
        "output": {"message": {"role": "assistant", "content": content or [{"text": message["content"]}]}},
        "stopReason": "tool_use" if calls else "end_turn",
        "usage": {"inputTokens": sent // 4, "outputTokens": 150, "totalTokens": sent // 4 + 150},
    }


async def _serve() -> None:
    server = MockProviderServer()
    listening = await asyncio.get_running_loop().create_server(
        lambda: MockProviderConnection(server), HOST, 0, backlog=1024
    )
    sys.stdout.write(f"http://{HOST}:{listening.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
