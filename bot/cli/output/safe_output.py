"""What reaches a terminal.

Invisible and control characters replaced, and no secret on stdout or stderr, whoever writes it.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from bot.core import redaction
from bot.core.plain_text import change_invisible


def escape_json_text(json_text: str) -> str:
    """Return JSON text that says the same, with an escape for each such character."""
    return change_invisible(json_text, lambda character: json.dumps(character)[1:-1])


class _RedactedStream:
    """A stream, through which no secret passes that is known; all but writing is the stream's own."""

    def __init__(self, stream: TextIO, hide: Callable[[str], str]) -> None:
        self._stream = stream
        self._hide = hide

    def write(self, text: str) -> int:
        self._stream.write(self._hide(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def redacted_streams() -> Iterator[None]:
    """Let no secret reach the two streams while the block runs; at its end, forget what was learnt in it.

    Answers keep whatever else they hold; on stderr what merely looks like a secret is left out as well.
    """
    out, err = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", _RedactedStream(out, redaction.redact_known_secrets))
    sys.stderr = cast("TextIO", _RedactedStream(err, redaction.redact_message))
    try:
        with redaction.temporary_secrets():
            yield
    finally:
        sys.stdout, sys.stderr = out, err
