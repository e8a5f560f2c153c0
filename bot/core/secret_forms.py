"""The forms in which libraries, servers and people repeat a secret, and the undoing of escapes in a text.

All of it works on UTF-8 in lower case: case distinguishes no secret from ordinary text, and servers change it.
Sources: RFC 4648 (base16, base32, base64), RFC 3986 (percent-encoding), RFC 8259 (JSON), RFC 9562 (UUID), RFC 2045
(quoted-printable), HTML Living Standard 13.5 (character references).
"""

import base64
import functools
import itertools
import json
import quopri
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote, urlsplit

from bot.core.light_dataclass import dataclass

MIN_SECRET_CHARS, MIN_NUMERIC_SECRET_CHARS = 8, 16
# Lines of a key and parts of an address are secrets of their own from this length on.
_MIN_PIECE_CHARS = 16
_HEX_NUMBER = re.compile(r"(?:0[xX])?([0-9a-fA-F]{16,})")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
_ADDRESS_MARKS = re.compile(r"[/?&=:@#]+")
# A byte, or a character by its number or its name; matched in lower case.
_BACKSLASH_ESCAPE = r"\\(?:u[0-9a-f]{4}|u\{[0-9a-f]{1,6}\}|x[0-9a-f]{2}|[0-3][0-7]{2}|[MARKS])"
_PERCENT_ESCAPE = r"%(?:[0-9a-f]{2}|u[0-9a-f]{4})"
_CHARACTER_ESCAPE = r"&(?:#x[0-9a-f]{1,7};?|#[0-9]{1,8};?|[a-z]{2,6};)"
_ESCAPED_MARKS = "/\"'`&=+<>-"
_NUMBER = re.compile(r"\\u\{?([0-9a-f]+)\}?|%u([0-9a-f]{4})|&#x([0-9a-f]+);?")
_LAST_CHARACTER = 0x10FFFF
# The names of the characters that HTML, URLs and JSON escape.
_CHARACTER_NAMES = {
    "amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "sol": "/", "bsol": "\\", "equals": "=", "plus": "+",
    "num": "#", "percnt": "%", "excl": "!", "dollar": "$", "comma": ",", "period": ".", "colon": ":", "semi": ";",
    "quest": "?", "commat": "@", "lowbar": "_", "hyphen": "-", "ast": "*", "lpar": "(", "rpar": ")", "hat": "^",
    "grave": "`", "lcub": "{", "rcub": "}", "lsqb": "[", "rsqb": "]", "verbar": "|", "vert": "|", "nbsp": " ",
}  # fmt: skip
# Escapes inside escapes: JSON in JSON in a URL is undone, and no text keeps the loop busy.
MAX_DECODE_ROUNDS = 4


def can_be_hidden(secret: str) -> bool:
    """Return whether a secret is long enough not to be found inside ordinary words and numbers."""
    return len(secret) >= (MIN_NUMERIC_SECRET_CHARS if secret.isdigit() else MIN_SECRET_CHARS)


def secret_forms(secret: str) -> Iterator[tuple[bytes, bool]]:
    """Yield each form of a secret, and whether only all of it is secret: the beginning of an address is not."""
    is_compound = "://" in secret or "\n" in secret
    for piece in _secret_pieces(secret):
        is_whole = is_compound and piece == secret
        for form in (*_text_forms(piece), *_byte_forms(piece)):
            if can_be_hidden(form.decode("utf-8", "replace")):
                yield form.lower(), is_whole


def plain_forms(secret: str) -> Iterator[bytes]:
    """Yield the unencoded forms of a secret, to be noticed while a text is still being written."""
    for piece in _secret_pieces(secret):
        yield from (form.lower() for form in _text_forms(piece))


def _secret_pieces(secret: str) -> dict[str, None]:
    """Return the secret, the secret parts of an address or of several lines, and its ways of being a number."""
    pieces = [secret]
    if "://" in secret:
        host = urlsplit(secret).hostname or "" if secret.isprintable() and "[" not in secret else ""
        parts = _ADDRESS_MARKS.split(secret)
        pieces += [part for part in parts if len(part) >= _MIN_PIECE_CHARS and part.lower() != host]
    elif "\n" in secret:
        lines = secret.split()
        pieces += [line for line in lines if len(line) >= _MIN_PIECE_CHARS and not line.startswith("-----")]
    if (number := _HEX_NUMBER.fullmatch(secret)) is not None:
        pieces += (number[1], number[1].lower(), number[1].upper())
    if _UUID.fullmatch(secret):
        solid = secret.replace("-", "").lower()
        dashed = "-".join((solid[:8], solid[8:12], solid[12:16], solid[16:20], solid[20:]))
        pieces += (dashed, dashed.upper(), solid, solid.upper())
    return dict.fromkeys(pieces)


def _text_forms(piece: str) -> set[bytes]:
    """Return the piece as text: also with what quoting does that ``decode_escapes`` does not undo."""
    raw = decoded = piece.encode("utf-8", "surrogatepass")
    forms = {raw, raw.replace(b" ", b"+"), quopri.encodestring(raw, quotetabs=True).replace(b"=\n", b"")}
    if not piece.isprintable() or not piece.isascii():
        once = [json.dumps(piece, ensure_ascii=ensure)[1:-1] for ensure in (True, False)]
        twice = [json.dumps(text, ensure_ascii=ensure)[1:-1] for text in once for ensure in (True, False)]
        forms |= {text.encode("utf-8", "surrogatepass") for text in (*once, *twice, repr(piece)[1:-1])}
        forms |= {repr(raw)[2:-1].encode(), quote(piece, errors="surrogatepass").encode()}
    # What looks like an escape in the secret itself is undone with those around it.
    for _ in range(MAX_DECODE_ROUNDS):
        decoded = decode_escapes(decoded.lower(), compile_escapes([raw]))
        forms.add(decoded)
    return forms


def _byte_forms(piece: str) -> Iterator[bytes]:
    """Yield the bytes of the piece, and of the number that it is, in base16, base32 and base64."""
    raws = [piece.encode("utf-8", "surrogatepass")]
    solid = piece.replace("-", "") if _UUID.fullmatch(piece) else piece
    if (number := _HEX_NUMBER.fullmatch(solid)) is not None:
        yield str(int(number[1], 16)).encode()
        if len(number[1]) % 2 == 0:
            raws.append(bytes.fromhex(number[1]))
            yield raws[-1]
    for raw in raws:
        hexed, once = raw.hex().encode(), [*_base64_forms(raw)]
        yield hexed
        yield from once
        yield from _base32_forms(raw)
        for again in (hexed, *once):
            yield from _base64_forms(again)
        yield from (form.hex().encode() for form in once)


def _base64_forms(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 of the bytes at any offset in other bytes, without digits shared with the other bytes."""
    for before, dropped in ((0, 0), (1, 2), (2, 3)):
        digits = base64.b64encode(bytes(before) + raw)[dropped : (before + len(raw)) * 8 // 6]
        yield digits
        if b"+" in digits or b"/" in digits:
            yield digits.replace(b"+", b"-").replace(b"/", b"_")


def _base32_forms(raw: bytes) -> Iterator[bytes]:
    """Yield the base32 of the bytes in both alphabets, in the same way."""
    for before, dropped in ((0, 0), (1, 2), (2, 4), (3, 5), (4, 7)):
        last = (before + len(raw)) * 8 // 5
        yield base64.b32encode(bytes(before) + raw)[dropped:last]
        yield base64.b32hexencode(bytes(before) + raw)[dropped:last]


@dataclass(frozen=True, slots=True)
class EscapePatterns:
    """The escapes that may hide some forms: one pattern for each kind, and ``split`` with all of them, each a group.

    Each pattern comes after the character with which it begins: that is found in a twentieth of the time, and most
    texts have escapes of one kind at most.
    """

    split: re.Pattern[bytes]
    kinds: Sequence[tuple[bytes, re.Pattern[bytes]]]


def compile_escapes(forms: Iterable[bytes]) -> EscapePatterns:
    """Return the escapes that may hide these forms: a backslash before a mark that none has is none."""
    marks = "".join(mark for mark in _ESCAPED_MARKS if any(mark.encode() in form for form in forms))
    backslash = _BACKSLASH_ESCAPE.replace("MARKS", re.escape("\\" + marks))
    kinds = (backslash, _PERCENT_ESCAPE, _CHARACTER_ESCAPE)
    return _join_kinds([(kind[:1].encode(), re.compile(f"({kind})".encode())) for kind in kinds])


def partial_escapes(escapes: EscapePatterns, secrets: Iterable[str]) -> list[EscapePatterns]:
    """Return the escapes without some or all kinds of which the secrets have some of their own, as ``a%cd`` has.

    A part of that secret is shorter once its own escape is undone, so the others around it are also undone alone.
    """
    raws = [secret.encode("utf-8", "surrogatepass").lower() for secret in secrets]
    own = [kind for kind in escapes.kinds if any(map(kind[1].search, raws))]
    choices = (left for count in range(1, len(own) + 1) for left in itertools.combinations(own, count))
    kept = ([kind for kind in escapes.kinds if kind not in left] for left in choices)
    return [_join_kinds(kinds) for kinds in kept if kinds]


def _join_kinds(kinds: Sequence[tuple[bytes, re.Pattern[bytes]]]) -> EscapePatterns:
    return EscapePatterns(re.compile(b"(" + b"|".join(kind.pattern[1:-1] for _, kind in kinds) + b")"), kinds)


def decode_escapes(data: bytes, escapes: EscapePatterns) -> bytes:
    """Return a lower-case text with one layer of escapes undone; the same object if it has none."""
    found = [kind for mark, kind in escapes.kinds if mark in data and kind.search(data)]
    if not found:
        return data
    parts = (found[0] if len(found) == 1 else escapes.split).split(data)
    parts[1::2] = map(_decode_escape, parts[1::2])
    return b"".join(parts)


def escape_origins(data: bytes, escapes: EscapePatterns) -> list[int]:
    """Return for each byte of ``decode_escapes(data)``, and for its end, where in ``data`` it begins."""
    origins: list[int] = []
    position = 0
    for number, part in enumerate(escapes.split.split(data)):
        decoded = _decode_escape(part) if number % 2 else part
        origins += [position] * len(decoded) if number % 2 else range(position, position + len(part))
        position += len(part)
    return [*origins, position]


@functools.lru_cache(maxsize=4096)
def _decode_escape(escape: bytes) -> bytes:
    text = escape.decode()
    if (found := _NUMBER.fullmatch(text)) is not None:
        return _encode_character(int(found[1] or found[2] or found[3], 16), escape)
    if text.startswith("&#"):
        return _encode_character(int(text[2:].rstrip(";")), escape)
    if text.startswith("&"):
        return _CHARACTER_NAMES[text[1:-1]].encode() if text[1:-1] in _CHARACTER_NAMES else escape
    if text.startswith(("%", "\\x")):
        return bytes([int(text[-2:], 16)]).lower()
    return bytes([int(text[1:], 8)]).lower() if text[1:].isdigit() else text[1:].encode()


def _encode_character(number: int, escape: bytes) -> bytes:
    if number > _LAST_CHARACTER:
        return escape
    return chr(number).encode("utf-8", "surrogatepass").lower()
