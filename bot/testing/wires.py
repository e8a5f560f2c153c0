"""A wire in memory: what is answered is whatever the test says, what was sent is kept."""

from collections.abc import Callable

from bot.domain.wire import Reply, Request
from bot.errors import ContractError


class MemoryWire:
    """Implements the port Wire; ``answer`` returns the answer to a request, or raises what the wire is to raise.

    ``sent`` are the requests in order, those that failed among them.
    """

    def __init__(self, answer: Callable[[Request], Reply] = lambda _: Reply(status=200)) -> None:
        self.answer = answer
        self.sent: list[Request] = []

    async def send(self, request: Request, *, max_bytes: int, deadline_s: float) -> Reply:
        assert deadline_s > 0  # noqa: S101 - a writer that sets no deadline is wrong
        self.sent.append(request)
        reply = self.answer(request)
        if len(reply.body) > max_bytes:
            message = f"status {reply.status} with more than {max_bytes} bytes"
            raise ContractError(message)
        return reply
