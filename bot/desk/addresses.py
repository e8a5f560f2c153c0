"""Web addresses in the one spelling in which they can be compared, and addresses found in text.

A blocked host has many spellings that a browser takes for the same: upper case, a user before it, a port, a dot after
it, percent signs, wide characters, punycode. All become one here, and only here.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

# A real address is shorter, and one that is not read whole must not slip through.
ADDRESS_CHARS = 8_000
_LAYERS_OF_ESCAPES = 4
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_NO_CHARACTERS = re.compile(r"[\x00-\x20\x7f-\xa0]+")
_INNER = re.compile(r"(?:https?:)?//+([^/?#&\s]+[^\s&]*)", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?:https?:/{1,3}|www\.)[^\s<>\"'`|{}\\^\[\]]+"
    r"|(?<![\w@.-])(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}\.?(?::\d+)?(?:[/?#][^\s<>\"'`|{}\\^\[\]]*)?",
    re.IGNORECASE,
)
_HOSTLIKE = re.compile(r"(?:[^/\s@]*@)?(?:[\w-]{1,63}\.)+[^\W\d_]{2,24}\.?(?::\d+)?(?:/|$)")
# Most addresses that come along: nothing in them has another spelling but a doubled slash.
_SIMPLE = re.compile(r"https?://([a-z0-9-]+(?:\.[a-z0-9-]+)*)(/[A-Za-z0-9._~/-]*)?")
_TRAILING = ".,;:!?)*_'\"\u2019\u201d"


@dataclass(frozen=True, slots=True)
class Address:
    """Host without ``www.``, path without a slash at the end, and the pairs of the query in order."""

    host: str
    path: str
    query: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """The address as text, the same for all its spellings."""
        pairs = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.host}{self.path}?{pairs}" if pairs else f"{self.host}{self.path}"

    def within(self, host: str) -> bool:
        """Say whether the address is on that host or on one below it."""
        return self.host == host or self.host.endswith(f".{host}")

    def covers(self, other: "Address") -> bool:
        """Say whether the other one is the same page: on the path or below it, with this query at least.

        The front page of a host covers itself alone.
        """
        if self.host != other.host or not set(self.query) <= set(other.query):
            return False
        return self.path == other.path or (bool(self.path) and other.path.startswith(f"{self.path}/"))


def address_of(text: str) -> Address | None:
    """Read an address, with or without its scheme; None for what is none, or not of the web."""
    if len(text) <= ADDRESS_CHARS and (simple := _SIMPLE.fullmatch(text)) is not None:
        return Address(simple[1].removeprefix("www."), _path(simple[2] or ""), ())
    return _address_of(text)


def _address_of(text: str) -> Address | None:
    straight = _NO_CHARACTERS.sub("", text[:ADDRESS_CHARS]).replace("\\", "/")
    if re.match(r"^https?:", straight, re.IGNORECASE):
        straight = re.sub(r"^https?:/*", "https://", straight, flags=re.IGNORECASE)
    elif straight.startswith("//"):
        straight = f"https:{straight}"
    elif _SCHEME.match(straight) and not re.match(r"^[^/?#]+\.[^/?#:]+:\d+(?:[/?#]|$)", straight):
        return None
    else:
        straight = f"https://{straight}"
    try:
        parts = urlsplit(straight)
        host = host_of(parts.netloc)
    except ValueError:
        return None
    if host is None:
        return None
    path = _path(_unescaped(parts.path))
    return Address(host.removeprefix("www."), path, tuple(parse_qsl(parts.query, keep_blank_values=True)))


def host_of(text: str) -> str | None:
    """Return a host in lower case and punycode, without user, port and last dot; None for what is no host."""
    name = unicodedata.normalize("NFKC", _unescaped(text)).rpartition("@")[2].strip().casefold()
    name = re.sub(r":\d*$", "", name.replace("\u3002", ".")).rstrip(".")
    if not name or re.search(r"[\s/?#@:<>\"]", name.strip("[]").replace(":", "")):
        return None
    if name.isascii():
        return name
    return _punycode(name)


def inner_addresses(text: str) -> Iterator[Address]:
    """Yield the addresses that an address carries inside, as archives, caches and translators do."""
    rest = _unescaped(re.sub(r"^[a-z]+:/*", "", text[:ADDRESS_CHARS].strip(), flags=re.IGNORECASE))
    host, *segments = re.split(r"[/?#&=]+", rest)
    # Translators write a host as one label, with a dash for each dot and two for a dash.
    label = host.rpartition("@")[2].partition(".")[0]
    named = [label.replace("--", "\0").replace("-", ".").replace("\0", "-"), *map("/".join, _tails(segments))]
    for name in (*named, *(found.group(1) for found in _INNER.finditer(rest))):
        if _HOSTLIKE.match(name) and (address := address_of(name)) is not None:
            yield address


def found_in(text: str) -> Iterator[re.Match[str]]:
    """Yield what looks like an address in running text, also without a scheme."""
    # None has white space in it, nor comes without one of these; words are found far quicker than what they are.
    end = 0
    for word in text.split():
        if "." in word or ":/" in word:
            start = text.index(word, end)
            end = start + len(word)
            yield from _IN_TEXT.finditer(text, start, end)


def links_in(text: str) -> list[str]:
    """Return the addresses with a scheme in running text, in order, each once."""
    words = (word for word in text.split() if "://" in word) if "://" in text else ()
    found = (trimmed(match.group()) for word in words for match in _IN_TEXT.finditer(word))
    return list(dict.fromkeys(link for link in found if re.match(r"https?://", link, re.IGNORECASE)))


def trimmed(found: str) -> str:
    """Return an address found in text without the punctuation of the sentence behind it."""
    bare = found.rstrip(_TRAILING)
    return f"{bare})" if found[len(bare) :].startswith(")") and bare.count("(") > bare.count(")") else bare


def _path(text: str) -> str:
    return re.sub(r"/+", "/", text).rstrip("/") if "//" in text else text.rstrip("/")


def _tails(segments: list[str]) -> Iterator[list[str]]:
    # A bound, since each of thousands of segments would begin a tail of its own.
    return (segments[start:] for start in range(min(len(segments), 50)))


def _unescaped(text: str) -> str:
    for _ in range(_LAYERS_OF_ESCAPES):
        plain = unquote(text, errors="replace")
        if plain == text:
            break
        text = plain
    return text


def _punycode(name: str) -> str:
    import idna  # noqa: PLC0415 - most hosts are plain

    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        return name
