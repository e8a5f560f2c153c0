"""Which addresses of the web may be fetched.

URLs parsed once, hosts resolved to numeric addresses, and every address that is not on the open internet refused.
Source: the IANA special-purpose address registries, RFC 6890.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from bot.core.errors import RequestRejectedError, ServiceUnavailableError
from bot.net.urls import loggable_url

if TYPE_CHECKING:
    import httpx

_RESERVED_V4 = {
    IPv4Network("0.0.0.0/8"): "this network",
    IPv4Network("10.0.0.0/8"): "a private network",
    IPv4Network("100.64.0.0/10"): "shared by a provider (CGNAT)",
    IPv4Network("127.0.0.0/8"): "this machine",
    IPv4Network("169.254.0.0/16"): "link-local",
    IPv4Network("172.16.0.0/12"): "a private network",
    IPv4Network("192.0.0.0/24"): "protocol assignments",
    IPv4Network("192.0.2.0/24"): "documentation",
    IPv4Network("192.88.99.0/24"): "6to4 relays",
    IPv4Network("192.168.0.0/16"): "a private network",
    IPv4Network("198.18.0.0/15"): "benchmarking",
    IPv4Network("198.51.100.0/24"): "documentation",
    IPv4Network("203.0.113.0/24"): "documentation",
    IPv4Network("224.0.0.0/4"): "multicast",
    IPv4Network("240.0.0.0/4"): "reserved",
}


# Of IPv6 only this block has been given out for the open internet; the rest holds every wrapped, local and group form.
_ALLOCATED_V6 = IPv6Network("2000::/3")


_RESERVED_V6 = {
    IPv6Network("::/128"): "no address",
    IPv6Network("::1/128"): "this machine",
    IPv6Network("::/96"): "a wrapped IPv4 address",
    IPv6Network("::ffff:0:0/96"): "a wrapped IPv4 address",
    IPv6Network("64:ff9b::/96"): "a wrapped IPv4 address (NAT64)",
    IPv6Network("64:ff9b:1::/48"): "a wrapped IPv4 address (NAT64)",
    IPv6Network("2001::/23"): "protocol assignments",
    IPv6Network("2001:db8::/32"): "documentation",
    IPv6Network("2002::/16"): "a wrapped IPv4 address (6to4)",
    IPv6Network("3fff::/20"): "documentation",
    IPv6Network("fc00::/7"): "a private network",
    IPv6Network("fe80::/10"): "link-local",
    IPv6Network("fec0::/10"): "a private network",
    IPv6Network("ff00::/8"): "multicast",
}


def private_address_reason(address: str) -> str | None:
    """Return why a numeric address must not be connected to, or None for one of the open internet."""
    if "%" in address:
        return "link-local"
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an address"
    why = _reserved_reason(parsed)
    if why is None and not parsed.is_global:
        return "not public"
    return why


def _reserved_reason(address: IPv4Address | IPv6Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((why for network, why in _RESERVED_V4.items() if address in network), None)
    why = next((why for network, why in _RESERVED_V6.items() if address in network), None)
    return why or (None if address in _ALLOCATED_V6 else "not given out")


ALLOWED_PORTS = {"http": 80, "https": 443}


MAX_URL_CHARS = 8192


_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")


# Even an empty user name, which reading drops.
_USER_INFO = re.compile(r"[^/?#]*//[^/?#]*@")


_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")


# Names that by their definition or by custom are answered inside a network. RFC 6761, 6762, 8375, 9476.
_LOCAL_DOMAINS = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "onion", "alt")


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """An address that may be asked for, once its host is resolved and checked.

    ``host`` is a lower-case name or a numeric address without brackets; ``request`` is the path with the query.
    """

    url: str
    scheme: str
    host: str
    port: int
    request: bytes

    @property
    def display_url(self) -> str:
        """The address without its query, for errors."""
        return loggable_url(self.url)


def parse_fetch_target(url: str, *, relative_to: str | None = None) -> FetchTarget:
    """Return what the address asks for; raises Rejected for anything but a plain address of the open web."""
    import httpx  # noqa: PLC0415 - a tenth of a second, and most commands read no address

    if len(url) > MAX_URL_CHARS:
        message = f"an address of {len(url)} characters is not fetched"
        raise RequestRejectedError(message)
    if "\\" in url or not url.isprintable() or " " in url.strip():
        message = "an address with odd characters is not fetched"
        raise RequestRejectedError(message)
    if _USER_INFO.match(url.strip()):
        message = f"{loggable_url(url.strip())}: an address with a user name is not fetched"
        raise RequestRejectedError(message)
    try:
        parsed = httpx.URL(url.strip()) if relative_to is None else httpx.URL(relative_to).join(url.strip())
    except (httpx.InvalidURL, ValueError):
        message = "what is to be fetched is no address"
        raise RequestRejectedError(message) from None
    return _checked_target(parsed.copy_with(fragment=None))


def is_numeric_host(host: str) -> bool:
    """Tell whether the host, as ``FetchTarget`` has it, is an address itself and needs no look-up."""
    return ":" in host or _is_ipv4(host)


def _checked_target(url: httpx.URL) -> FetchTarget:
    text = loggable_url(str(url))
    if url.scheme not in ALLOWED_PORTS:
        message = f"{text}: only http and https are fetched"
        raise RequestRejectedError(message)
    port = ALLOWED_PORTS[url.scheme] if url.port is None else url.port
    if port not in ALLOWED_PORTS.values():
        message = f"{text}: only ports 80 and 443 are fetched from"
        raise RequestRejectedError(message)
    host = url.raw_host.decode("ascii").lower().removesuffix(".")
    if (why := _host_fault(host)) is not None:
        message = f"{text}: {why}"
        raise RequestRejectedError(message)
    return FetchTarget(str(url), url.scheme, host, port, url.raw_path)


def _host_fault(host: str) -> str | None:
    if ":" in host:
        return _address_fault(host) if _is_ipv6(host) else "the host is malformed"
    if _is_ipv4(host):
        return _address_fault(host)
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        return "the host is malformed"
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        # 127.1, 0x7f000001, 2130706433: look-ups take them for addresses, and each system in its own way.
        return "the host is an address in an odd spelling"
    if len(labels) == 1 or any(host == name or host.endswith(f".{name}") for name in _LOCAL_DOMAINS):
        return "the host is a name inside a network"
    return None


def _address_fault(host: str) -> str | None:
    why = private_address_reason(host)
    return why and f"the host is inside ({why})"


def _is_ipv4(host: str) -> bool:
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def _is_ipv6(host: str) -> bool:
    try:
        IPv6Address(host)
    except ValueError:
        return False
    return "%" not in host


# A host and a port in, numeric addresses out; raises Unavailable for a name that has none.
HostResolver = Callable[[str, int], Awaitable[Sequence[str]]]


class SystemResolver:
    """Asks the operating system, which takes no deadline.

    Each look-up has a thread of its own that ends with the program: the executor of the loop, and the program at its
    exit, would wait for all of them. At most ``slots`` look-ups run at a time, including those nobody waits for.
    """

    def __init__(self, slots: int = 8) -> None:
        self._slots = asyncio.Semaphore(slots)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def done(addresses: Sequence[str], error: ServiceUnavailableError | None) -> None:
            self._slots.release()
            if answer.done():
                return
            if error is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(error)

        def look_up() -> None:
            found = _resolve_host(host, port)
            try:
                loop.call_soon_threadsafe(done, *found)
            except RuntimeError:
                return  # the loop has ended, so nobody waits

        threading.Thread(target=look_up, name="foxcast-resolve", daemon=True).start()
        return await answer


def _resolve_host(host: str, port: int) -> tuple[Sequence[str], ServiceUnavailableError | None]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return (), ServiceUnavailableError(f"{host}: the name has no address")
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found)), None
