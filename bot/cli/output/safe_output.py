"""Safe output: no invisible or control characters in JSON, and no secrets on stdout and stderr."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO, cast

from bot.core import redaction
from bot.core.errors import StoreError
from bot.core.plain_text import change_invisible


def escape_json_text(json_text: str) -> str:
    """Return equivalent JSON text with an escape for each invisible or control character."""
    return change_invisible(json_text, lambda character: json.dumps(character)[1:-1])


class OutputError(StoreError):
    """The output could not be written."""


@contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"the output cannot be written: {error.strerror}"
        raise OutputError(message) from error


class _RedactedStream:
    """A text stream that hides secrets in what is written; everything else is passed to the original stream.

    What may be the beginning of a secret waits for the next write, or until the stream is flushed.
    """

    def __init__(self, stream: TextIO, hide: Callable[[str], str]) -> None:
        self._stream = stream
        self._hide = hide
        self._unfinished = ""

    def write(self, text: str) -> int:
        whole = self._unfinished + text
        ready = len(whole) - redaction.count_unfinished_secret(whole)
        self._unfinished = whole[ready:]
        if ready:
            with _output_errors():
                self._stream.write(self._hide(whole[:ready]))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        self.release()
        with _output_errors():
            self._stream.flush()

    def release(self) -> None:
        """Write what waits for more."""
        left, self._unfinished = self._unfinished, ""
        if left:
            with _output_errors():
                self._stream.write(self._hide(left))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def redacted_streams() -> Iterator[None]:
    """Redact secrets on stdout and stderr while the block runs; secrets registered in it are forgotten at its end.

    stdout hides known secrets only; stderr also hides what merely looks like a secret.
    """
    out, err = sys.stdout, sys.stderr
    hidden = _RedactedStream(out, redaction.redact_known_secrets), _RedactedStream(err, redaction.redact_message)
    sys.stdout, sys.stderr = (cast("TextIO", stream) for stream in hidden)
    try:
        with redaction.temporary_secrets(), ExitStack() as ending:
            for stream in hidden:
                ending.callback(stream.release)
            yield
    finally:
        sys.stdout, sys.stderr = out, err
