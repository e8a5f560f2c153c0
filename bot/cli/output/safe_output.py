"""Safe output: no invisible or control characters in JSON, and no secrets on stdout and stderr."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from bot.core import redaction
from bot.core.plain_text import change_invisible


def escape_json_text(json_text: str) -> str:
    """Return equivalent JSON text with an escape for each invisible or control character."""
    return change_invisible(json_text, lambda character: json.dumps(character)[1:-1])


class _RedactedStream:
    """A text stream that hides secrets in what is written; everything else is passed to the original stream."""

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
    """Redact secrets on stdout and stderr while the block runs; secrets registered in it are forgotten at its end.

    stdout hides known secrets only; stderr also hides what merely looks like a secret.
    """
    out, err = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", _RedactedStream(out, redaction.redact_known_secrets))
    sys.stderr = cast("TextIO", _RedactedStream(err, redaction.redact_message))
    try:
        with redaction.temporary_secrets():
            yield
    finally:
        sys.stdout, sys.stderr = out, err
