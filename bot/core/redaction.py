"""Finds secrets in text and removes them before the text reaches a log, the ledger, a model or a screen.

Code that reads a secret registers it here; each output redacts its own text. A secret is recognised in the forms of
``bot.core.secret_forms`` under up to four layers of escapes, and so is every part of one that has 15 characters. At the
ends of a text, which may be one of several pieces, parts of 8 characters are recognised. Secrets of fewer than 8
characters, or of fewer than 16 digits, are not hidden, because they would be found inside ordinary words and numbers.
"""

import codecs
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache

from bot.core.light_dataclass import dataclass
from bot.core.secret_forms import (
    MAX_DECODE_ROUNDS,
    EscapePatterns,
    can_be_hidden,
    compile_escapes,
    decode_escapes,
    escape_origins,
    partial_escapes,
    plain_forms,
    secret_forms,
)

REDACTION_MARK = "(secret-left-out)"
# A text is looked at in blocks of so many bytes; each part of a form that is long enough covers one.
_BLOCK = 8
_MIN_PART = 2 * _BLOCK - 1
# Of longer UTF-8 only the long words are looked at, if they are few: one in so many bytes.
_MAX_SHORT_BYTES, _BYTES_PER_LONG_WORD = 4096, 256
_LETTER, _BLANK = b"x "
_LONG_WORD = bytes([_LETTER]) * _MIN_PART
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_URL_LOGIN = re.compile(r"(?<=//)([^/\s@:]*):([^/\s@]+)(?=@)")
_PRIVATE_KEY = re.compile(r"(?<![0-9a-zA-Z])(?:0[xX])?[0-9a-fA-F]{64}(?![0-9a-fA-F])")
_SECRET_NAMES = (
    r"api[_-]?key|secret|passphrase|password|passwd|private[_-]?key|(?:access|auth|api|refresh|session)[_-]?token"  # noqa: S105 - a pattern
)
# The first group of each is kept.
_SECRET_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(authorization['\"]?\s*[:=,]\s*b?['\"]?(?:[a-z]+\s+)?)[^\s'\",}]{4,}",
        r"(?i)(\b(?:bearer|basic)\s+)[a-z0-9._~+/=-]{12,}",
        rf"(?i)((?:{_SECRET_NAMES})['\"]?\s*[:=]\s*b?['\"]?)[^\s'\",&}}]{{8,}}",
        r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        r"()(?<![\w-])sk-(?:[a-z0-9]{2,10}-){0,2}(?=[\w-]*\d)(?:(?=[\w-]*[A-Z])[\w-]{20,}|[0-9a-f]{32,})",
        r"()\bfox_[A-Za-z0-9_-]{32,}",
        r"(?i)(\b(?:private|priv|secret|signing|signer|pk|seed)(?:[\W_]{0,3}key)?['\"]?\W{1,4})(?:0x)?[0-9a-f]{64}\b",
    )
)


# What may end or begin a piece of a text by chance: a word, also capitalised, or a number, with blanks and commas.
_PLAIN_WORDS = re.compile(rb"[\s.,;:'-]*[A-Za-z]?[a-z\s.,;:'-]*|[\s.,;:'-]*[A-Z\s.,;:'-]*|(?![0-9]{8})[0-9\s.,:-]*")


@dataclass(frozen=True, slots=True)
class SecretRedactor:
    """Removes a set of secrets.

    ``forms`` are what is searched for in lower case, each with the fewest bytes of it that count; ``blocks`` are all
    blocks of the forms as numbers, ``short_forms`` the forms that are too short to cover one wherever they stand, and
    ``plain_forms`` those without encoding. ``escapes`` are undone in a text, at first all of them. ``word_table`` shows
    ``bytes.translate`` which bytes a part of a form may have in UTF-8; empty if a blank is one of them.
    """

    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    forms: Sequence[tuple[bytes, int]] = field(default=(), repr=False)
    blocks: frozenset[int] = field(default=frozenset(), repr=False)
    short_forms: Sequence[bytes] = field(default=(), repr=False)
    plain_forms: Sequence[bytes] = field(default=(), repr=False)
    escapes: Sequence[EscapePatterns] = field(default=(), repr=False)
    word_table: bytes = field(default=b"", repr=False)

    def with_secrets(self, secrets: Iterable[str]) -> "SecretRedactor":
        """Return a redactor that also knows these secrets."""
        fresh = frozenset(secrets) - self.secrets
        forms = dict.fromkeys(found for secret in sorted(fresh) for found in secret_forms(secret))
        long = [(form, len(form) if is_whole else _MIN_PART) for form, is_whole in forms if len(form) >= _MIN_PART]
        plain = (*self.plain_forms, *(form for secret in sorted(fresh) for form in plain_forms(secret)))
        every_form = (*self.forms, *long)
        # An encoded form has marks that its secret has not: a slash in base64, for example.
        escapes = compile_escapes([*plain, *(form for form, _ in every_form)])
        blocks = set(self.blocks)
        for form, _ in long:
            for first in range(_BLOCK):
                blocks.update(_to_blocks(form[first:]))
        return SecretRedactor(
            secrets=self.secrets | fresh,
            forms=every_form,
            blocks=frozenset(blocks),
            short_forms=(*self.short_forms, *(form for form, _ in forms if len(form) < _MIN_PART)),
            plain_forms=plain,
            escapes=(escapes, *partial_escapes(escapes, self.secrets | fresh)),
            word_table=_make_word_table(form for form, _ in every_form),
        )

    def redact(self, text: str) -> str:
        """Return the text with ``REDACTION_MARK`` for each secret; the same object if there is none."""
        if not self.secrets:
            return text
        data = text.encode("utf-8", "surrogatepass")
        hidden = self.redact_bytes(data, is_utf8=True)
        return text if hidden is data else hidden.decode("utf-8", "surrogatepass")

    def redact_bytes(self, data: bytes, *, is_utf8: bool = False) -> bytes:
        """Return a text without its secrets, the same object if there is none; UTF-8 takes a quarter of the time."""
        text = data.lower()
        spans = [*self._find_parts(text, data)] if self._may_have_parts(text, is_utf8=is_utf8) else []
        # The secrets are found under each layer of escapes.
        if self._has_escapes(text):
            spans += self._find_below(text, MAX_DECODE_ROUNDS, set())
        return _replace_spans(data, spans) if spans else data

    def count_unfinished(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a secret that the next one ends."""
        longest = max(map(len, self.plain_forms), default=0)
        tail = text[-longest:].encode("utf-8", "replace").lower() if longest else b""
        if tail.endswith(tuple(self.plain_forms)):
            return 0
        parts = (_common_end(tail, form) for form in self.plain_forms)
        return len(tail[len(tail) - max(parts, default=0) :].decode("utf-8", "ignore"))

    def _may_have_parts(self, text: bytes, *, is_utf8: bool) -> bool:
        """Say whether ``_find_parts`` may find anything: in most texts it cannot."""
        for form in self.short_forms:
            if form in text:
                return True
        if len(text) > _MAX_SHORT_BYTES and is_utf8 and self.word_table:
            text = self._long_words(text)
        return not self.blocks.isdisjoint(_to_blocks(text))

    def _long_words(self, text: bytes) -> bytes:
        """Return the ends of a text and all that may be a part of a form; of a text with many long words everything."""
        shape = text.translate(self.word_table) + b" "
        words, end = [text[:_BLOCK], text[-_BLOCK:]], 0
        for _ in range(len(text) // _BYTES_PER_LONG_WORD):
            start = shape.find(_LONG_WORD, end)
            if start < 0:
                return b"".join(words)
            end = shape.find(_BLANK, start)
            words.append(text[start:end])
        return text

    def _has_escapes(self, text: bytes) -> bool:
        """Say whether ``_find_below`` may find anything: most texts have no escapes."""
        for escapes in self.escapes:
            for mark, kind in escapes.kinds:
                if mark in text and kind.search(text):
                    return True
        return False

    def _find_below(self, text: bytes, rounds: int, seen: set[bytes]) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the secrets that are found once up to so many layers of escapes are undone."""
        for escapes in self.escapes if rounds else ():
            decoded = decode_escapes(text, escapes)
            if decoded is text or decoded in seen:
                continue
            seen.add(decoded)
            if spans := [*self._find_parts(decoded, decoded), *self._find_below(decoded, rounds - 1, seen)]:
                origins = escape_origins(text, escapes)
                yield from ((origins[start], _whole_escape(origins, end)) for start, end in spans)

    def _find_parts(self, text: bytes, original: bytes) -> Iterator[tuple[int, int]]:
        """Yield the ranges of secrets in a text in lower case; ``original`` is the text before."""
        for form in self.short_forms:
            start = text.find(form)
            while start >= 0:
                yield start, start + len(form)
                start = text.find(form, start + 1)
        numbers = _to_blocks(text)
        if self.blocks.isdisjoint(numbers):
            return
        done = 0
        for place, number in enumerate(numbers[:-1]):
            if number in self.blocks and place * _BLOCK >= done:
                for span in self._extend_block(text, place * _BLOCK):
                    done = max(done, span[1])
                    yield span
        for start in (0, len(text) - _BLOCK):
            # What looks like words of a sentence is left alone.
            if not _PLAIN_WORDS.fullmatch(original, start, start + _BLOCK):
                yield from self._extend_end(text, start)

    def _extend_block(self, text: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges around a block in which the text agrees with enough of a form."""
        block = text[start : start + _BLOCK]
        for form, minimum in self.forms:
            place = form.find(block)
            while place >= 0:
                first, end = _extend_match(text, start, form, place)
                if end - first >= minimum:
                    yield first, end
                place = form.find(block, place + 1)

    def _extend_end(self, text: bytes, start: int) -> Iterator[tuple[int, int]]:
        """Yield what may be a piece of a secret: its beginning at the end of the text, its end at the beginning."""
        block = text[start : start + _BLOCK]
        for form, minimum in self.forms:
            place = form.find(block)
            if place < 0 or minimum > _MIN_PART:
                continue
            first, end = _extend_match(text, start, form, place)
            from_beginning, to_end = place == start - first, place + end - start == len(form)
            if (first == 0 and end == len(text)) or (end == len(text) and from_beginning) or (first == 0 and to_end):
                yield first, end


# Most short texts come more than once, as a name does in each row. Remembering a long one takes half as long as looking
# at it, and few come again.
_MAX_REMEMBERED_CHARS, _MAX_REMEMBERED_TEXTS = 4_096, 512


class _KnownSecrets:
    """The secrets known in this process; like its environment they are global."""

    def __init__(self) -> None:
        self.use(SecretRedactor())

    def use(self, redactor: SecretRedactor) -> None:
        self.redactor = redactor
        self.redact_short = lru_cache(maxsize=_MAX_REMEMBERED_TEXTS)(redactor.redact)


_KNOWN_SECRETS = _KnownSecrets()


def register_secrets(*secrets: str) -> None:
    """Register secrets; one that is too short is ignored."""
    fresh = frozenset(secret for secret in secrets if can_be_hidden(secret)) - _KNOWN_SECRETS.redactor.secrets
    if fresh:
        _KNOWN_SECRETS.use(_KNOWN_SECRETS.redactor.with_secrets(fresh))


def register_url_passwords(text: str) -> None:
    """Register the password in an address, as in ``https://name:password@host/``."""
    for name, password in _URL_LOGIN.findall(text):
        register_secrets(password, f"{name}:{password}")


@contextmanager
def temporary_secrets() -> Iterator[None]:
    """Forget the secrets that are registered in the block at its end."""
    before = _KNOWN_SECRETS.redactor
    try:
        yield
    finally:
        _KNOWN_SECRETS.use(before)


def known_redactor() -> SecretRedactor:
    """Return the redactor of the known secrets, another object whenever these change."""
    return _KNOWN_SECRETS.redactor


def redact_known_secrets(text: str) -> str:
    """Return the text without the known secrets, the same object if it has none, for data."""
    known = _KNOWN_SECRETS
    if len(text) > _MAX_REMEMBERED_CHARS or not known.redactor.secrets:
        return known.redactor.redact(text)
    hidden = known.redact_short(text)
    return text if hidden == text else hidden


def redact_known_secret_bytes(content: bytes) -> bytes:
    """Return content without the known secrets."""
    return _KNOWN_SECRETS.redactor.redact_bytes(content)


def count_unfinished_secret(text: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a known secret."""
    return _KNOWN_SECRETS.redactor.count_unfinished(text)


def redact_message(text: str) -> str:
    """Return a message without known secrets and without text that looks like one, for logs, errors and notes."""
    hidden = _URL_LOGIN.sub(REDACTION_MARK, redact_known_secrets(text))
    for look in _SECRET_PATTERNS:
        hidden = look.sub(rf"\g<1>{REDACTION_MARK}", hidden)
    return hidden


def redact_foreign_message(text: str) -> str:
    """Return a message of foreign code as ``redact_message`` does, and without numbers as long as a private key.

    Hashes have that length too, so this is not for texts in which they are needed.
    """
    return _PRIVATE_KEY.sub(REDACTION_MARK, redact_message(text))


def _make_word_table(forms: Iterable[bytes]) -> bytes:
    letters = frozenset(b"".join([form for form in forms if _fits_utf8(form)]))
    return b"" if _BLANK in letters else bytes([_LETTER if byte in letters else _BLANK for byte in range(256)])


def _fits_utf8(form: bytes) -> bool:
    """Say whether a long part of a form may stand in UTF-8: of the bytes of a number none can."""
    return form.isascii() or any(
        _is_utf8(form[first : first + _MIN_PART]) for first in range(len(form) - _MIN_PART + 1)
    )


def _is_utf8(part: bytes) -> bool:
    """Say whether bytes are a part of UTF-8, in which characters may be cut at both ends."""
    try:
        codecs.utf_8_decode(part.lstrip(_CONTINUATION_BYTES), "surrogatepass", False)  # noqa: FBT003 - of the library
    except UnicodeDecodeError:
        return False
    return True


def _to_blocks(data: bytes) -> "array[int]":
    """Return the blocks of a text from its beginning, and the one at its end; none if the text is shorter than one."""
    blocks = array("Q")
    if len(data) >= _BLOCK:
        blocks.frombytes(data[: len(data) // _BLOCK * _BLOCK])
        blocks.frombytes(data[-_BLOCK:])
    return blocks


def _extend_match(text: bytes, start: int, form: bytes, place: int) -> tuple[int, int]:
    """Return the range in which the text agrees with the form, whose byte at ``place`` is the one at ``start``."""
    end = start
    offset = place - start
    while start and start + offset and text[start - 1] == form[start + offset - 1]:
        start -= 1
    while end < len(text) and end + offset < len(form) and text[end] == form[end + offset]:
        end += 1
    return start, end


def _common_end(text: bytes, form: bytes) -> int:
    """Return the length of the longest end of the text that is the beginning, but not all, of the form."""
    start = text.find(form[:1], max(0, len(text) - len(form) + 1))
    while start >= 0:
        if form.startswith(text[start:]):
            return len(text) - start
        start = text.find(form[:1], start + 1)
    return 0


def _whole_escape(origins: Sequence[int], end: int) -> int:
    """Return where the escape that the byte before ``end`` came from ends."""
    while end < len(origins) - 1 and origins[end] == origins[end - 1]:
        end += 1
    return origins[end]


def _replace_spans(data: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for found, until in sorted(spans):
        start, end = _whole_characters(data, found, until)
        if start > position or not parts:
            parts += [data[position:start], REDACTION_MARK.encode()]
        position = max(position, end)
    return b"".join([*parts, data[position:]])


def _whole_characters(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the range widened to whole UTF-8 characters, of at most four bytes."""
    first, last = start, end
    while start and first - start < 3 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and end - last < 3 and data[end] & 0xC0 == 0x80:
        end += 1
    return start, end
