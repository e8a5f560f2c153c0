"""Secrets as venues, model providers and search engines issue them, and the forms in which others repeat them.

Sources of the shapes: docs/facts for Manifold (UUID), Metaculus (40 hex digits), Polymarket (private key, and UUID,
URL-safe base64 and 64 hex digits of its API); the providers' own documentation for the prefixes of their keys.
"""

import base64
import html
import json
import quopri
import string
import uuid
from collections.abc import Callable, Mapping
from random import Random
from urllib.parse import quote, quote_plus, urlencode

from hypothesis import strategies as st

_BASE62 = string.ascii_letters + string.digits
_URL_SAFE = _BASE62 + "-_"
_HEX = "0123456789abcdef"


def _of(alphabet: str, length: int, prefix: str = "", suffix: str = "") -> st.SearchStrategy[str]:
    # Hypothesis prefers repeated characters, which nobody issues.
    seeds = st.integers(min_value=0, max_value=2**64)
    return seeds.map(lambda seed: prefix + "".join(Random(seed).choices(alphabet, k=length)) + suffix)


def _bytes(length: int) -> st.SearchStrategy[bytes]:
    return st.integers(min_value=0, max_value=2**64).map(lambda seed: Random(seed).randbytes(length))


_UUID = _bytes(16).map(lambda raw: str(uuid.UUID(bytes=raw, version=4)))
ISSUED_SECRETS: Mapping[str, st.SearchStrategy[str]] = {
    "Manifold key": _UUID,
    "UUID without dashes": _UUID.map(lambda key: key.replace("-", "")),
    "UUID in upper case": _UUID.map(str.upper),
    "Metaculus token": _of(_HEX, 40),
    "Polymarket private key": _of(_HEX, 64, "0x"),
    "private key in upper case": _of(_HEX.upper(), 64),
    "Polymarket API secret": _bytes(32).map(lambda raw: base64.urlsafe_b64encode(raw).decode()),
    "Polymarket passphrase": _of(_HEX, 64),
    "Kalshi key line": _bytes(48).map(lambda raw: base64.b64encode(raw).decode()),
    "OpenAI project key": _of(_URL_SAFE, 120, "sk-proj-"),
    "Anthropic key": _of(_URL_SAFE, 93, "sk-ant-api03-", "AA"),
    "Gemini key": _of(_URL_SAFE, 35, "AIzaSy"),
    "OpenRouter key": _of(_HEX, 64, "sk-or-v1-"),
    "DeepSeek key": _of(_HEX, 32, "sk-"),
    "xAI key": _of(_BASE62, 80, "xai-"),
    "Groq key": _of(_BASE62, 52, "gsk_"),
    "Mistral key": _of(_BASE62, 32),
    "Perplexity key": _of(_BASE62, 48, "pplx-"),
    "Brave key": _of(_URL_SAFE, 27, "BSA"),
    "Tavily key": _of(_BASE62, 32, "tvly-dev-"),
    "Exa key": _UUID,
    "Serper key": _of(_HEX, 40),
    "FRED key": _of(_HEX, 32),
    "Foxcast token": _of(_URL_SAFE, 43, "fox_"),
    "password of ACLED": _of(string.ascii_letters + string.digits + "!#$%&()*+,-./:;<=>?@[]^_{|}~'\"\\", 20),
    "passphrase of words": st.permutations(["correct", "horse", "battery", "staple", "lantern"]).map(" ".join),
}


def _each(pattern: str) -> Callable[[str], str]:
    return lambda key: "".join(pattern.format(ord(character)) for character in key)


def _only(marks: str, pattern: str) -> Callable[[str], str]:
    return lambda key: "".join(pattern.format(ord(one)) if one in marks else one for one in key)


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _as_uuid(key: str) -> str:
    """Return 32 hex digits with dashes, or an UUID without."""
    solid = key.replace("-", "").lower()
    if len(solid) != 32 or not set(solid) <= set(_HEX):
        return key
    return solid if "-" in key else str(uuid.UUID(solid))


_MARKS = "/=+-_.:<>&'\"\\"
# What leaves the text whole, escape by escape.
ESCAPED_FORMS: Mapping[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "repr": lambda key: repr(key)[1:-1],
    "repr of bytes": lambda key: repr(key.encode())[2:-1],
    "JSON": lambda key: json.dumps(key)[1:-1],
    "JSON of PHP": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "JSON of Go": _only("<>&", "\\u{:04x}"),
    "JSON of Gson": _only("<>&='", "\\u{:04x}"),
    "JSON, marks escaped": _only(_MARKS, "\\u{:04X}"),
    "JSON, all escaped": _each("\\u{:04x}"),
    "JSON in JSON": lambda key: json.dumps(json.dumps(key))[3:-3],
    "JSON three deep": lambda key: json.dumps(json.dumps(json.dumps(key)))[7:-7],
    "ES6 escapes": _each("\\u{{{:x}}}"),
    "hex escapes": _each("\\x{:02x}"),
    "octal escapes": _each("\\{:03o}"),
    "URL": quote,
    "URL, all marks": lambda key: quote(key, safe=""),
    "URL, lower case": lambda key: quote(key, safe="").replace("%2F", "%2f").replace("%3D", "%3d"),
    "URL, every character": _each("%{:02X}"),
    "URL twice": lambda key: quote(quote(key, safe=""), safe=""),
    "URL three times": lambda key: quote(quote(quote(key, safe=""), safe=""), safe=""),
    "form": quote_plus,
    "query": lambda key: urlencode({"k": key})[2:],
    "escape() of JavaScript": _only(_MARKS, "%u{:04x}"),
    "HTML": html.escape,
    "HTML, decimal marks": _only(_MARKS, "&#{};"),
    "HTML, decimal": _each("&#{};"),
    "HTML, padded": _each("&#{:05d};"),
    "HTML, hexadecimal": _each("&#x{:x};"),
    "HTML, HEXADECIMAL": _each("&#X{:X};"),
    "HTML, named": lambda key: html.escape(key).replace("/", "&sol;").replace("=", "&equals;").replace("+", "&plus;"),
    "HTML in JSON": lambda key: json.dumps(_each("&#x{:x};")(key))[1:-1],
    "URL in HTML": lambda key: html.escape(quote(key, safe="")),
    "JSON in URL": lambda key: quote(json.dumps(key)[1:-1], safe=""),
    "quoted-printable": lambda key: quopri.encodestring(key.encode(), quotetabs=True).decode().replace("=\n", ""),
    "UUID, dashes changed": _as_uuid,
    "UUID, dashes changed, upper case": lambda key: _as_uuid(key).upper(),
    "the first 15 characters": lambda key: key[:15],
    "the last 15 characters": lambda key: key[-15:],
    "a part": lambda key: key[3:-2],
}
# What joins the text with its surroundings: a few digits of them may stay.
PACKED_FORMS: Mapping[str, Callable[[str], str]] = {
    "hex": lambda key: key.encode().hex(),
    "HEX": lambda key: key.encode().hex().upper(),
    "base32": lambda key: base64.b32encode(key.encode()).decode(),
    "base32, lower case": lambda key: base64.b32encode(b"ab" + key.encode()).decode().lower(),
    "base32hex": lambda key: base64.b32hexencode(b"abc" + key.encode()).decode(),
    "base64": lambda key: _b64(key.encode()),
    "base64 after one byte": lambda key: _b64(b"x" + key.encode()),
    "base64 after two bytes": lambda key: _b64(b"xy" + key.encode() + b"z"),
    "base64 for URLs": lambda key: base64.urlsafe_b64encode(f"me:{key}".encode()).decode(),
    "base64 in a URL": lambda key: quote(_b64(key.encode()), safe=""),
    "base64 in JSON of PHP": lambda key: _b64(key.encode()).replace("/", "\\/"),
    "base64 of a slice": lambda key: _b64(key[1:].encode()),
    "base64 of another slice": lambda key: _b64(key[2:-1].encode()),
    "base64 of base64": lambda key: _b64(_b64(key.encode()).encode()),
    "base64 of base64 after two bytes": lambda key: _b64(b"xy" + _b64(b"z" + key.encode()).encode()),
    "base64 of base64 for URLs": lambda key: _b64(base64.urlsafe_b64encode(key.encode())),
    "base64 of hex": lambda key: _b64(key.encode().hex().encode()),
    "hex of base64": lambda key: _b64(key.encode()).encode().hex(),
}
