"""What is written to stdout and stderr, without secrets, whoever writes it: an answer, an error, a warning."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from bot import redact


class _Veiled:
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
def veiled() -> Iterator[None]:
    """Let no secret reach the two streams while the block runs; at its end, forget what was learnt in it.

    Answers keep whatever else they hold; on stderr what merely looks like a secret is left out as well.
    """
    out, err = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", _Veiled(out, redact.hide))
    sys.stderr = cast("TextIO", _Veiled(err, redact.said))
    try:
        with redact.forgetting():
            yield
    finally:
        sys.stdout, sys.stderr = out, err
