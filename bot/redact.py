"""What is secret, and its removal from text before that reaches a log, the ledger, a model or a screen.

Whoever reads a secret tells it here, once; each medium asks here at its own edge. A secret is known in the encodings in
which libraries and servers repeat one: as it is, in URLs, JSON, HTML, hex and base64 (also inside a longer text), and
by its beginning or end, where a message was cut. What is not known may still look like a secret: see ``said``.

What cannot be hidden: a secret of fewer than eight characters, or of fewer than sixteen that are all digits: it would
be found inside words and numbers that have nothing to do with it.
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

MARK = "(secret-left-out)"
SHORTEST, SHORTEST_NUMBER = 8, 16
# A long one is found by so much of its beginning or of its end.
PART = 16
_LONG = 24
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{16,})")
_LOGIN = re.compile(r"(?<=//)([^/\s@:]*):([^/\s@]+)(?=@)")
_WHOLE_KEY = re.compile(r"(?<![0-9a-zA-Z])(?:0[xX])?[0-9a-fA-F]{64}(?![0-9a-fA-F])")
_NAMED = r"api[_-]?key|secret|passphrase|password|passwd|private[_-]?key|(?:access|auth|api|refresh|session)[_-]?token"
# Each with what is kept of it as its first group.
_LOOKS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?i)(authorization['\"]?\s*[:=,]\s*b?['\"]?(?:[a-z]+\s+)?)[^\s'\",}]{4,}",
        r"(?i)(\b(?:bearer|basic)\s+)[a-z0-9._~+/=-]{12,}",
        rf"(?i)((?:{_NAMED})['\"]?\s*[:=]\s*b?['\"]?)[^\s'\",&}}]{{8,}}",
        r"()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        r"()(?<![\w-])sk-(?:[a-z0-9]{2,10}-){0,2}(?=[\w-]*\d)(?:(?=[\w-]*[A-Z])[\w-]{20,}|[0-9a-f]{32,})",
        r"()\bfox_[A-Za-z0-9_-]{32,}",
        r"(?i)(\b(?:private|priv|secret|signing|signer|pk|seed)(?:[\W_]{0,3}key)?['\"]?\W{1,4})(?:0x)?[0-9a-f]{64}\b",
    )
)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Removes some secrets. ``needles`` are what they are found by, each with the whole forms that it is a part of."""

    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    needles: Mapping[str, Sequence[tuple[str, bool]]] = field(default_factory=dict, repr=False)
    solid: Sequence[str] = field(default=(), repr=False)
    spaced: Sequence[str] = field(default=(), repr=False)
    shortest: int = 0

    @classmethod
    def of(cls, secrets: Iterable[str]) -> "Redactor":
        """Return one that knows these."""
        known = frozenset(secrets)
        needles: dict[str, list[tuple[str, bool]]] = defaultdict(list)
        for form in sorted({form for secret in known for form in _forms(secret)}):
            for part, is_end in _parts(form):
                needles[part].append((form, is_end))
        spaced = [part for part in needles if part.split() != [part]]
        solid = [part for part in needles if part.split() == [part]]
        shortest = min(map(len, solid), default=0)
        return cls(secrets=known, needles=dict(needles), solid=solid, spaced=spaced, shortest=shortest)

    def hide(self, text: str) -> str:
        """Return the text with the mark in the place of each secret; the same text where there is none."""
        found = [part for part in self.spaced if part in text]
        if self.solid and len(text) >= self.shortest:
            # Most words are shorter than any key, and to leave them out is much faster than to look into them.
            words = " ".join([word for word in text.split() if len(word) >= self.shortest])
            if words:
                found += [part for part in self.solid if part in words]
        return _without(text, self._spans(text, found)) if found else text

    def _spans(self, text: str, found: Sequence[str]) -> Iterator[tuple[int, int]]:
        for part in found:
            start = text.find(part)
            while start >= 0:
                for form, is_end in self.needles[part]:
                    yield _grown(text, start, form, is_end=is_end, length=len(part))
                start = text.find(part, start + 1)


class _Known:
    """What is known in this process: secrets belong to it as its environment does, not to a part of the program."""

    def __init__(self) -> None:
        self.redactor = Redactor()


_KNOWN = _Known()


def learn(*secrets: str) -> None:
    """Take note of secrets; what is too short to be one is not."""
    fresh = frozenset(secret for secret in secrets if _can_be_hidden(secret)) - _KNOWN.redactor.secrets
    if fresh:
        _KNOWN.redactor = Redactor.of(_KNOWN.redactor.secrets | fresh)


def learn_logins(text: str) -> None:
    """Take note of the password that stands in an address, as in ``https://name:password@host/``."""
    for name, password in _LOGIN.findall(text):
        learn(password, f"{name}:{password}")


@contextmanager
def forgetting() -> Iterator[None]:
    """Forget at the end of the block what was learnt in it."""
    before = _KNOWN.redactor
    try:
        yield
    finally:
        _KNOWN.redactor = before


def hide(text: str) -> str:
    """Return the text without the secrets that are known: for data, of which nothing else may be lost."""
    return _KNOWN.redactor.hide(text)


def hide_bytes(content: bytes) -> bytes:
    """Return content without the secrets that are known."""
    if not _KNOWN.redactor.secrets:
        return content
    text = content.decode("utf-8", "surrogateescape")
    hidden = hide(text)
    return content if hidden is text else hidden.encode("utf-8", "surrogateescape")


def said(text: str) -> str:
    """Return a message without secrets, and without what looks like one: for logs, errors and notes."""
    hidden = _LOGIN.sub(MARK, hide(text))
    for look in _LOOKS:
        hidden = look.sub(rf"\g<1>{MARK}", hidden)
    return hidden


def foreign(text: str) -> str:
    """Return what somebody else's code says as ``said`` does, and without any number that is as long as a private key.

    Hashes have that length, too: this is not for texts in which they are wanted.
    """
    return _WHOLE_KEY.sub(MARK, said(text))


def _can_be_hidden(secret: str) -> bool:
    return len(secret) >= (SHORTEST_NUMBER if secret.isdigit() else SHORTEST)


def _forms(secret: str) -> Iterator[str]:
    for form in {form for piece in _pieces(secret) for form in _encoded(piece)}:
        if _can_be_hidden(form):
            yield form


def _pieces(secret: str) -> Iterator[str]:
    """Yield the secret and, of one in several lines or in an address, what is secret in it."""
    yield secret
    if "://" in secret:
        yield from (piece for piece in re.split(r"[/?&=:@#]+", secret) if len(piece) >= PART)
    elif "\n" in secret:
        yield from (line for line in secret.split() if len(line) >= PART and not line.startswith("-----"))
    if (number := _HEX.fullmatch(secret)) is not None:
        yield from (number[1], number[1].lower(), number[1].upper())


def _encoded(secret: str) -> Iterator[str]:
    yield secret
    for quoted in (quote(secret), quote(secret, safe=""), quote_plus(secret), quote(secret, safe="!*'()~:@,;+$=/")):
        yield from (quoted, re.sub(r"%..", lambda code: code[0].lower(), quoted))
    for ensure_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=ensure_ascii)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=ensure_ascii)[1:-1])
    yield from (repr(secret)[1:-1], html.escape(secret), html.escape(secret, quote=False))
    raw = secret.encode("utf-8", "surrogatepass")
    yield from (repr(raw)[2:-1], raw.hex(), raw.hex().upper(), *_base64(raw))
    if (number := _HEX.fullmatch(secret)) is not None and len(number[1]) % 2 == 0:
        yield from _base64(bytes.fromhex(number[1]))


def _base64(raw: bytes) -> Iterator[str]:
    """Yield what base64 makes of the bytes wherever they stand in others, but for the digits that are half theirs."""
    for before, dropped in ((0, 0), (1, 2), (2, 3)):
        digits = base64.b64encode(bytes(before) + raw).decode()[dropped : (before + len(raw)) * 8 // 6]
        yield from (digits, digits.replace("+", "-").replace("/", "_"), quote(digits, safe=""))


def _parts(form: str) -> Iterator[tuple[str, bool]]:
    """Yield what a form is found by, each with whether that is its end."""
    # The beginning of an address, or of a text of several lines, is no secret.
    if len(form) < _LONG or "://" in form or "\n" in form or "%3A%2F%2F" in form.upper():
        yield form, False
    else:
        yield from ((form[:PART], False), (form[-PART:], True))


def _grown(text: str, start: int, form: str, *, is_end: bool, length: int) -> tuple[int, int]:
    """Return from where to where the text agrees with the form, one part of which was found."""
    end = start + length
    if is_end:
        missing = len(form) - length
        while missing and start and text[start - 1] == form[missing - 1]:
            start, missing = start - 1, missing - 1
    else:
        while end - start < len(form) and end < len(text) and text[end] == form[end - start]:
            end += 1
    return start, end


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    kept: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if start > at or not kept:
            kept += [text[at:start], MARK]
        at = max(at, end)
    return "".join([*kept, text[at:]])
