"""Finds secrets in text and removes them before the text reaches a log, the ledger, a model or a screen.

Code that reads a secret registers it here; each output redacts its own text. A secret is recognised in the encodings in
which libraries and servers repeat it: plain, in URLs, JSON, HTML, hex and base64, and truncated at its beginning or
end. Secrets of fewer than 8 characters, or of fewer than 16 digits, are not hidden, because they would be found inside
ordinary words and numbers.
"""

import base64
import html
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus

REDACTION_MARK = "(secret-left-out)"
MIN_SECRET_CHARS, MIN_NUMERIC_SECRET_CHARS = 8, 16
# A long secret is found by this much of its beginning or of its end.
SEARCH_PART_CHARS = 16
_LONG_SECRET_CHARS = 24
_HEX_NUMBER = re.compile(r"(?:0[xX])?([0-9a-fA-F]{16,})")
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


@dataclass(frozen=True, slots=True)
class SecretRedactor:
    """Removes a set of secrets.

    ``needles`` are the parts that are searched for, each with the complete forms that contain it.
    """

    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    needles: Mapping[str, Sequence[tuple[str, bool]]] = field(default_factory=dict, repr=False)
    unspaced_needles: Sequence[str] = field(default=(), repr=False)
    spaced_needles: Sequence[str] = field(default=(), repr=False)
    shortest: int = 0

    @classmethod
    def from_secrets(cls, secrets: Iterable[str]) -> "SecretRedactor":
        """Return a redactor that knows these secrets."""
        known = frozenset(secrets)
        needles: dict[str, list[tuple[str, bool]]] = defaultdict(list)
        for form in sorted({form for secret in known for form in _secret_forms(secret)}):
            for part, is_end in _search_parts(form):
                needles[part].append((form, is_end))
        spaced = [part for part in needles if part.split() != [part]]
        solid = [part for part in needles if part.split() == [part]]
        shortest = min(map(len, solid), default=0)
        return cls(
            secrets=known, needles=dict(needles), unspaced_needles=solid, spaced_needles=spaced, shortest=shortest
        )

    def redact(self, text: str) -> str:
        """Return the text with ``REDACTION_MARK`` for each secret; the same object if there is none."""
        found = [part for part in self.spaced_needles if part in text]
        if self.unspaced_needles and len(text) >= self.shortest:
            # Most words are shorter than any key, and skipping them is much faster than examining them.
            words = " ".join([word for word in text.split() if len(word) >= self.shortest])
            if words:
                found += [part for part in self.unspaced_needles if part in words]
        return _replace_spans(text, self._secret_spans(text, found)) if found else text

    def _secret_spans(self, text: str, found: Sequence[str]) -> Iterator[tuple[int, int]]:
        for part in found:
            start = text.find(part)
            while start >= 0:
                for form, is_end in self.needles[part]:
                    yield _extend_match(text, start, form, is_end=is_end, length=len(part))
                start = text.find(part, start + 1)


class _KnownSecrets:
    """The secrets known in this process; like its environment they are global."""

    def __init__(self) -> None:
        self.redactor = SecretRedactor()


_KNOWN_SECRETS = _KnownSecrets()


def register_secrets(*secrets: str) -> None:
    """Register secrets; one that is too short is ignored."""
    fresh = frozenset(secret for secret in secrets if _can_be_hidden(secret)) - _KNOWN_SECRETS.redactor.secrets
    if fresh:
        _KNOWN_SECRETS.redactor = SecretRedactor.from_secrets(_KNOWN_SECRETS.redactor.secrets | fresh)


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
        _KNOWN_SECRETS.redactor = before


def redact_known_secrets(text: str) -> str:
    """Return the text without the known secrets and otherwise unchanged, for data."""
    return _KNOWN_SECRETS.redactor.redact(text)


def redact_known_secret_bytes(content: bytes) -> bytes:
    """Return content without the known secrets."""
    if not _KNOWN_SECRETS.redactor.secrets:
        return content
    text = content.decode("utf-8", "surrogateescape")
    hidden = redact_known_secrets(text)
    return content if hidden is text else hidden.encode("utf-8", "surrogateescape")


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


def _can_be_hidden(secret: str) -> bool:
    return len(secret) >= (MIN_NUMERIC_SECRET_CHARS if secret.isdigit() else MIN_SECRET_CHARS)


def _secret_forms(secret: str) -> Iterator[str]:
    for form in {form for piece in _secret_pieces(secret) for form in _secret_encodings(piece)}:
        if _can_be_hidden(form):
            yield form


def _secret_pieces(secret: str) -> Iterator[str]:
    """Yield the secret and, if it has several lines or is an address, its secret parts."""
    yield secret
    if "://" in secret:
        yield from (piece for piece in re.split(r"[/?&=:@#]+", secret) if len(piece) >= SEARCH_PART_CHARS)
    elif "\n" in secret:
        yield from (line for line in secret.split() if len(line) >= SEARCH_PART_CHARS and not line.startswith("-----"))
    if (number := _HEX_NUMBER.fullmatch(secret)) is not None:
        yield from (number[1], number[1].lower(), number[1].upper())


def _secret_encodings(secret: str) -> Iterator[str]:
    yield secret
    for quoted in (quote(secret), quote(secret, safe=""), quote_plus(secret), quote(secret, safe="!*'()~:@,;+$=/")):
        yield from (quoted, re.sub(r"%..", lambda code: code[0].lower(), quoted))
    for ensure_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=ensure_ascii)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=ensure_ascii)[1:-1])
    yield from (repr(secret)[1:-1], html.escape(secret), html.escape(secret, quote=False))
    raw = secret.encode("utf-8", "surrogatepass")
    yield from (repr(raw)[2:-1], raw.hex(), raw.hex().upper(), *_base64_forms(raw))
    if (number := _HEX_NUMBER.fullmatch(secret)) is not None and len(number[1]) % 2 == 0:
        yield from _base64_forms(bytes.fromhex(number[1]))


def _base64_forms(raw: bytes) -> Iterator[str]:
    """Yield the base64 of the bytes at any offset in other bytes, without digits shared with the other bytes."""
    for before, dropped in ((0, 0), (1, 2), (2, 3)):
        digits = base64.b64encode(bytes(before) + raw).decode()[dropped : (before + len(raw)) * 8 // 6]
        yield from (digits, digits.replace("+", "-").replace("/", "_"), quote(digits, safe=""))


def _search_parts(form: str) -> Iterator[tuple[str, bool]]:
    """Yield the needles of a form, each with whether it is the end of the form."""
    # The beginning of an address, or of a text of several lines, is not secret.
    if len(form) < _LONG_SECRET_CHARS or "://" in form or "\n" in form or "%3A%2F%2F" in form.upper():
        yield form, False
    else:
        yield from ((form[:SEARCH_PART_CHARS], False), (form[-SEARCH_PART_CHARS:], True))


def _extend_match(text: str, start: int, form: str, *, is_end: bool, length: int) -> tuple[int, int]:
    """Return the range in which the text agrees with the form, a part of which was found."""
    end = start + length
    if is_end:
        missing = len(form) - length
        while missing and start and text[start - 1] == form[missing - 1]:
            start, missing = start - 1, missing - 1
    else:
        while end - start < len(form) and end < len(text) and text[end] == form[end - start]:
            end += 1
    return start, end


def _replace_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start > position or not parts:
            parts += [text[position:start], REDACTION_MARK]
        position = max(position, end)
    return "".join([*parts, text[position:]])
