"""One reading of an address for all that follows: what is checked here is what is connected to and asked for.

Two parsers that read one address differently are the oldest way around a guard, so nothing downstream parses it again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bot.errors import Rejected
from bot.fetch.addresses import inside

if TYPE_CHECKING:
    import httpx

PORTS = {"http": 80, "https": 443}
LONGEST = 8192
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# Even an empty user name, which reading drops.
_USER = re.compile(r"[^/?#]*//[^/?#]*@")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Names that by their definition or by custom are answered inside a network. RFC 6761, 6762, 8375, 9476.
_LOCAL = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "onion", "alt")


@dataclass(frozen=True, slots=True)
class Target:
    """An address that may be asked for, once its host is resolved and checked.

    ``host`` is a lower-case name or a numeric address without brackets; ``request`` is the path with the query.
    """

    url: str
    scheme: str
    host: str
    port: int
    request: bytes

    @property
    def shown(self) -> str:
        """The address without its query, for errors."""
        return shown(self.url)


def read(url: str, *, relative_to: str | None = None) -> Target:
    """Return what the address asks for; raises Rejected for anything but a plain address of the open web."""
    import httpx  # noqa: PLC0415 - a tenth of a second, and most commands read no address

    if len(url) > LONGEST:
        message = f"an address of {len(url)} characters is not fetched"
        raise Rejected(message)
    if "\\" in url or not url.isprintable() or " " in url.strip():
        message = "an address with odd characters is not fetched"
        raise Rejected(message)
    if _USER.match(url.strip()):
        message = f"{shown(url.strip())}: an address with a user name is not fetched"
        raise Rejected(message)
    try:
        parsed = httpx.URL(url.strip()) if relative_to is None else httpx.URL(relative_to).join(url.strip())
    except (httpx.InvalidURL, ValueError):
        message = "what is to be fetched is no address"
        raise Rejected(message) from None
    return _target(parsed.copy_with(fragment=None))


def shown(url: str) -> str:
    """Return an address without user name, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_numeric(host: str) -> bool:
    """Tell whether the host, as ``Target`` has it, is an address itself and needs no look-up."""
    return ":" in host or _is_quad(host)


def _target(url: httpx.URL) -> Target:
    text = shown(str(url))
    if url.scheme not in PORTS:
        message = f"{text}: only http and https are fetched"
        raise Rejected(message)
    port = PORTS[url.scheme] if url.port is None else url.port
    if port not in PORTS.values():
        message = f"{text}: only ports 80 and 443 are fetched from"
        raise Rejected(message)
    host = url.raw_host.decode("ascii").lower().removesuffix(".")
    if (why := _wrong(host)) is not None:
        message = f"{text}: {why}"
        raise Rejected(message)
    return Target(str(url), url.scheme, host, port, url.raw_path)


def _wrong(host: str) -> str | None:
    if ":" in host:
        return _wrong_number(host) if _is_v6(host) else "the host is malformed"
    if _is_quad(host):
        return _wrong_number(host)
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        return "the host is malformed"
    if _NUMERIC.fullmatch(labels[-1]):
        # 127.1, 0x7f000001, 2130706433: look-ups take them for addresses, and each system in its own way.
        return "the host is an address in an odd spelling"
    if len(labels) == 1 or any(host == name or host.endswith(f".{name}") for name in _LOCAL):
        return "the host is a name inside a network"
    return None


def _wrong_number(host: str) -> str | None:
    why = inside(host)
    return why and f"the host is inside ({why})"


def _is_quad(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _is_v6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return "%" not in host
