"""Web addresses in the one spelling in which they can be compared, and addresses found in text.

A blocked host has many spellings that a browser treats as the same: upper case, a user before it, a port, a dot after
it, percent signs, wide characters, punycode. All are normalised here, and only here. An address can also lead to
another one inside it, in the many ways of archives, mirrors and redirects.
"""

import re
import unicodedata
from binascii import a2b_base64
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from bot.core.light_dataclass import dataclass
from bot.core.plain_text import strip_invisible

# A real address is shorter, and one that is not read whole must not pass unchecked.
ADDRESS_CHARS = 8_000
_LAYERS_OF_ESCAPES = 4
# More addresses inside one address, or more labels in a row, only serve to exhaust the check.
_INNER_ADDRESSES = 50
_LABELS = 40
REMEMBERED_TEXTS = 1024
REMEMBERED_CHARS = 300
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_SCHEME_AND_SLASHES = re.compile(r"^[a-z]+:/*", re.IGNORECASE)
_HOST_END = re.compile(r"[/?#]")
_SEPARATORS = re.compile(r"[/?#&=]+")
_NO_CHARACTERS = re.compile(r"[\x00-\x20\x7f-\xa0]+")
_INNER = re.compile(r"(?:https?:)?//+([^/?#&\s]+[^\s&]*)", re.IGNORECASE)
_IN_TEXT = re.compile(
    r"(?:https?:/{1,3}|www\.)[^\s<>\"'`|{}\\^\[\]]+"
    r"|(?<![\w@.-])(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}\.?(?::\d+)?(?:[/?#][^\s<>\"'`|{}\\^\[\]]*)?",
    re.IGNORECASE,
)
_HOSTLIKE = re.compile(r"(?:[^/\s@]*@)?(?:[\w-]{1,63}\.)+[^\W\d_]{2,24}\.?(?::\d+)?(?:/|$)")
# Most addresses need no change: nothing in them has another spelling except a doubled slash.
_SIMPLE = re.compile(r"https?://([a-z0-9-]+(?:\.[a-z0-9-]+)*)(/[A-Za-z0-9._~/-]*)?")
# An address without a scheme at any position in another one, up to what may end it there.
_ANYWHERE = re.compile(
    r"(?<![\w.-])(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}\.?(?::\d+)?(?:/[^\s&\"'<>,;(){}|+]*)?(?![\w-])", re.IGNORECASE
)
_RUN = re.compile(r"(?:[^\W_]|[.-])+")
_DOTS = str.maketrans({"\u3002": ".", "\uff61": ".", "\\": "/"})
_BASE64 = (re.compile(r"[A-Za-z0-9+/]{16,}"), re.compile(r"[A-Za-z0-9_-]{16,}"))
_TO_STANDARD = str.maketrans("-_", "+/")
_PARAMETERS = re.compile(r";[^/]*")
_DOTTED_PATH = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")
_HOST_PREFIXES = ("www.", "m.", "mobile.", "amp.")
_AMP_END = re.compile(r"(?:/amp|\.amp)(?:\.html?)?$")
_SENTENCE_END = ".,;:!?)'\""
# A dot that may do more than end a word. Of many marks in a row only the first are looked at.
_DOT_IN_WORD = re.compile(rf"\.(?:[{_SENTENCE_END}]{{8}}|[{_SENTENCE_END}]*[^\s{_SENTENCE_END}]|(?<=[wW]{{3}}\.))")
_TRAILING = ".,;:!?)*_'\"\u2019\u201d"


@dataclass(frozen=True, slots=True)
class WebAddress:
    """Host without ``www.``, path without a slash at the end, and the pairs of the query in order."""

    host: str
    path: str
    query: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """The address as text, the same for all its spellings."""
        if not self.query:
            return f"{self.host}{self.path}"
        pairs = "&".join([f"{name}={value}" for name, value in self.query])
        return f"{self.host}{self.path}?{pairs}"

    def is_on_hosts(self, hosts: frozenset[str]) -> bool:
        """Say whether the address is on one of these hosts or on one below it."""
        name = self.host
        while name not in hosts:
            _, dot, name = name.partition(".")
            if not dot:
                return False
        return True

    def covers(self, other: "WebAddress") -> bool:
        """Say whether the other one is the same page: on the path or below it, with this query at least.

        The front page of a host covers only itself.
        """
        if self.host != other.host or not set(self.query) <= set(other.query):
            return False
        return self.path == other.path or (bool(self.path) and other.path.startswith(f"{self.path}/"))

    @property
    def page(self) -> "WebAddress":
        """The page itself, as its close spellings share it: for small screens, in other letters, by another path.

        Hosts rarely distinguish ``/A`` from ``/a``; more often both show the same page.
        """
        host, path = self.host, _PARAMETERS.sub("", self.path).casefold()
        while host.count(".") > 1 and (front := next(filter(host.startswith, _HOST_PREFIXES), "")):
            host = host.removeprefix(front)
        if _DOTTED_PATH.search(path):
            path = _resolve_dots(path)
        path = _AMP_END.sub("", _normalize_path(path))
        path = path.removeprefix("/amp") if path.startswith("/amp/") else path
        query = tuple((name.casefold(), value.casefold()) for name, value in self.query)
        return WebAddress(host, path, query)


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _remember_short_texts(examine: Callable[Concatenate[str, _P], _R]) -> Callable[Concatenate[str, _P], _R]:
    """Remember what a function found in short texts: each address of a search is examined several times.

    Long texts are examined again, since hostile ones would fill the memory.
    """
    remembered = cast("Callable[Concatenate[str, _P], _R]", lru_cache(REMEMBERED_TEXTS)(examine))

    @wraps(examine)
    def examined(text: str, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        is_short = len(text) <= REMEMBERED_CHARS
        return remembered(text, *arguments, **options) if is_short else examine(text, *arguments, **options)

    return examined


@_remember_short_texts
def parse_address(text: str) -> WebAddress | None:
    """Parse an address, with or without its scheme; None for anything else, or if it is not of the web."""
    if len(text) <= ADDRESS_CHARS and (simple := _SIMPLE.fullmatch(text)) is not None:
        return WebAddress(simple[1].removeprefix("www."), _normalize_path(simple[2] or ""), ())
    return _parse_unusual_address(text)


def _parse_unusual_address(text: str) -> WebAddress | None:
    normalized = _NO_CHARACTERS.sub("", text[:ADDRESS_CHARS]).replace("\\", "/")
    if re.match(r"^https?:", normalized, re.IGNORECASE):
        normalized = re.sub(r"^https?:/*", "https://", normalized, flags=re.IGNORECASE)
    elif normalized.startswith("//"):
        normalized = f"https:{normalized}"
    elif _SCHEME.match(normalized) and not re.match(r"^[^/?#]+\.[^/?#:]+:\d+(?:[/?#]|$)", normalized):
        return None
    else:
        normalized = f"https://{normalized}"
    try:
        parts = urlsplit(normalized)
        host = parse_host(parts.netloc)
    except ValueError:
        return None
    if host is None:
        return None
    path = _normalize_path(_unescape(parts.path))
    return WebAddress(host.removeprefix("www."), path, tuple(parse_qsl(parts.query, keep_blank_values=True)))


def parse_host(text: str) -> str | None:
    """Return a host in lower case and punycode, without user, port and last dot; None for an invalid host."""
    name = unicodedata.normalize("NFKC", _unescape(text)).rpartition("@")[2].strip().casefold()
    name = re.sub(r":\d*$", "", name.replace("\u3002", ".")).rstrip(".")
    if not name or re.search(r"[\s/?#@:<>\"]", name.strip("[]").replace(":", "")):
        return None
    if name.isascii():
        return name
    return _to_punycode(name)


@_remember_short_texts
def find_inner_addresses(text: str) -> tuple[WebAddress, ...]:
    """Return the addresses that an address carries inside, as archives, caches and translators write them."""
    rest = _unescape(_SCHEME_AND_SLASHES.sub("", text[:ADDRESS_CHARS].strip()))
    host, *segments = _SEPARATORS.split(rest)
    label = host.rpartition("@")[2].partition(".")[0]
    if "-" not in label and "." not in rest[len(host) :]:
        return ()
    found = (match.group(1) for match in _INNER.finditer(rest))
    anywhere = (match.group() for match in _ANYWHERE.finditer(rest, len(host)))
    names = filter(_HOSTLIKE.match, (_undash_host(label), *_path_tails(segments), *found, *anywhere))
    return tuple(address for address in map(parse_address, names) if address is not None)


def is_too_complex(text: str) -> bool:
    """Say whether an address exceeds the limits within which it is searched: it might hold anything."""
    if len(text) > ADDRESS_CHARS:
        return True
    if "%" not in text and text.count(".") <= _LABELS:
        return False
    plain = _unescape(text)
    if unquote(plain, errors="replace") != plain:
        return True
    segments = sum("." in segment for segment in _SEPARATORS.split(plain))
    return segments > _INNER_ADDRESSES or any(run.count(".") > _LABELS for run in _RUN.findall(plain))


@_remember_short_texts
def mentions_host(text: str, hosts: Collection[str]) -> bool:
    """Say whether an address names one of the hosts, or one below it, at any position and in any usual spelling.

    It checks all rows of labels in it without escapes, so that ``x.example`` is found in
    ``www.x.example.mirror.example`` and in ``?a={"b":"x.example"}``; labels with dashes for dots in its own host; and
    what parts of 16 and more characters hold in base64. It may also find text that is not an address.
    """
    normalized = _unescape(_NO_CHARACTERS.sub("", text[:ADDRESS_CHARS]))
    if _mentions_host_plainly(normalized, hosts):
        return True
    host = _HOST_END.split(_SCHEME_AND_SLASHES.sub("", normalized), maxsplit=1)[0] if "-" in normalized else ""
    if "-" in host and any(_mentions_host_plainly(_undash_host(label), hosts) for label in host.split(".")):
        return True
    return any(_mentions_host_plainly(_unescape(text), hosts) for text in _decode_base64_parts(normalized))


def _mentions_host_plainly(text: str, hosts: Collection[str]) -> bool:
    if not text.isascii():
        text = strip_invisible(unicodedata.normalize("NFKC", text).translate(_DOTS))
    text = text.casefold()
    # Most addresses do not have the letters of any host. Others may have them once they are written in punycode.
    if text.isascii() and True not in [host in text for host in hosts]:
        return False
    for run in _RUN.findall(text):
        if "." not in run:
            continue
        labels = (run if run.isascii() else _to_punycode(run)).split(".")[: _LABELS + 1]
        ends = range(2, len(labels) + 1)
        if any(".".join(labels[start:end]) in hosts for end in ends for start in range(max(0, end - 6), end - 1)):
            return True
    return False


def _decode_base64_parts(text: str) -> Iterator[str]:
    """Yield the decoded text of long base64 parts; a part may begin with up to three other characters."""
    found = (part.translate(_TO_STANDARD) for pattern in _BASE64 for part in pattern.findall(text))
    # Both alphabets find most parts, and each once is enough.
    for coded in (part[start:] for part in dict.fromkeys(found) for start in range(4)):
        # A single letter after groups of four has no meaning.
        padded = coded[: len(coded) - (len(coded) % 4 == 1)]
        decoded = a2b_base64(padded + "=" * (-len(padded) % 4))
        if b"." in decoded or b"%" in decoded:
            yield decoded.decode(errors="replace")


def _undash_host(label: str) -> str:
    """Return a host that translators and caches wrote as one label: a dash for each dot and two for a dash."""
    return label.replace("--", "\0").replace("-", ".").replace("\0", "-")


def _resolve_dots(path: str) -> str:
    """Return a path without ``.`` and ``..`` steps."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment != ".":
            segments.append(segment)
    joined = "/".join(filter(None, segments))
    return f"/{joined}" if joined else ""


def find_addresses(text: str) -> Iterator[re.Match[str]]:
    """Yield what looks like an address in running text, also without a scheme."""
    # None contains white space or lacks one of these; splitting into words is far faster than parsing. The dot at the
    # end of a sentence is part of none, and many texts have no other.
    if ":/" not in text and _DOT_IN_WORD.search(text) is None:
        return
    end = 0
    for word in text.split():
        if ("." in word and ("." in word.rstrip(_SENTENCE_END) or "www." in word.lower())) or ":/" in word:
            start = text.index(word, end)
            end = start + len(word)
            yield from _IN_TEXT.finditer(text, start, end)


def find_links(text: str) -> list[str]:
    """Return the addresses with a scheme in running text, in order, each once."""
    words = (word for word in text.split() if "://" in word) if "://" in text else ()
    found = (trim_punctuation(match.group()) for word in words for match in _IN_TEXT.finditer(word))
    return list(dict.fromkeys(link for link in found if re.match(r"https?://", link, re.IGNORECASE)))


def trim_punctuation(found: str) -> str:
    """Return an address found in text without the punctuation of the sentence behind it."""
    bare = found.rstrip(_TRAILING)
    return f"{bare})" if found[len(bare) :].startswith(")") and bare.count("(") > bare.count(")") else bare


def _normalize_path(text: str) -> str:
    return re.sub(r"/+", "/", text).rstrip("/") if "//" in text else text.rstrip("/")


def _path_tails(segments: list[str]) -> Iterator[str]:
    # A limit, since each of thousands of segments would begin a tail of its own.
    starts = [start for start, segment in enumerate(segments) if "." in segment][:_INNER_ADDRESSES]
    return ("/".join(segments[start:]) for start in starts)


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    for _ in range(_LAYERS_OF_ESCAPES):
        plain = unquote(text, errors="replace")
        if plain == text:
            break
        text = plain
    return text


def _to_punycode(name: str) -> str:
    import idna  # noqa: PLC0415 - most hosts are plain

    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        return name
