"""Which addresses of the web may be fetched.

URLs are parsed once, hosts are resolved, and addresses that are not public are refused.

Source: the IANA special-purpose address registries, RFC 6890.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING

from bot.core.errors import ConfigError, RequestRejectedError, ServiceUnavailableError
from bot.core.light_dataclass import dataclass
from bot.net import load_httpx
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
# The only IPv6 block that is allocated for the public internet; the rest are embedded, local and multicast addresses.
_ALLOCATED_V6 = IPv6Network("2000::/3")
_RESERVED_V6 = {
    IPv6Network("::/128"): "no address",
    IPv6Network("::1/128"): "this machine",
    IPv6Network("::/96"): "an embedded IPv4 address",
    IPv6Network("::ffff:0:0/96"): "an embedded IPv4 address",
    IPv6Network("64:ff9b::/96"): "an embedded IPv4 address (NAT64)",
    IPv6Network("64:ff9b:1::/48"): "an embedded IPv4 address (NAT64)",
    IPv6Network("2001::/23"): "protocol assignments",
    IPv6Network("2001:db8::/32"): "documentation",
    IPv6Network("2002::/16"): "an embedded IPv4 address (6to4)",
    IPv6Network("3fff::/20"): "documentation",
    IPv6Network("fc00::/7"): "a private network",
    IPv6Network("fe80::/10"): "link-local",
    IPv6Network("fec0::/10"): "a private network",
    IPv6Network("ff00::/8"): "multicast",
}
# Where clouds give each of their machines its keys without a password. One of them is a public address. Sources: the
# documentation of AWS (also of its containers), Google Cloud, Azure, Alibaba Cloud and Oracle Cloud.
_METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fe80::a9fe:a9fe",
        ),
    )
)
_METADATA_TEXT = "the metadata service of a cloud"


def is_metadata_address(address: str) -> bool:
    """Return whether a numeric address is the metadata service of a cloud, also in a form embedded in IPv6."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if parsed in _METADATA_ADDRESSES:
        return True
    if isinstance(parsed, IPv4Address):
        return False
    raw = parsed.packed
    # Where 6to4 (RFC 3056) and prefixes of NAT64 (RFC 6052, section 2.2) put it; byte 8 is left out there.
    embedded = (raw[2:6], raw[12:16], *((raw[:8] + raw[9:])[start : start + 4] for start in range(4, 9)))
    return any(IPv4Address(part) in _METADATA_ADDRESSES for part in embedded)


def require_no_metadata_service(host: str, address: str) -> None:
    """Raise ConfigError if a host that config names leads to a metadata service without being its address itself."""
    if is_metadata_address(address) and host.strip("[]").lower() != address:
        message = (
            f"{host} leads to {address}, {_METADATA_TEXT}; correct the address in config, or name {address} itself"
        )
        raise ConfigError(message)


def private_address_reason(address: str) -> str | None:
    """Return why a numeric address must not be connected to, or None for a public one."""
    if is_metadata_address(address):
        return _METADATA_TEXT
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
    return why or (None if address in _ALLOCATED_V6 else "not allocated")


ALLOWED_PORTS = {"http": 80, "https": 443}
MAX_URL_CHARS = 8192
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# Also an empty user name, which parsing drops.
_USER_INFO = re.compile(r"[^/?#]*//[^/?#]*@")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Names that are resolved inside a network by definition or by custom. Source: RFC 6761, 6762, 8375, 9476.
_LOCAL_DOMAINS = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "onion", "alt")


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """An address that may be requested once its host is resolved and checked.

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
    """Return the target of an address; raises RequestRejectedError for anything but a plain public web address."""
    load_httpx()
    import httpx  # noqa: PLC0415 - a tenth of a second, and most commands read no address

    if len(url) > MAX_URL_CHARS:
        message = f"an address of {len(url)} characters is not fetched"
        raise RequestRejectedError(message)
    if "\\" in url or not url.isprintable() or " " in url.strip():
        message = "an address with blanks, backslashes or control characters is not fetched"
        raise RequestRejectedError(message)
    if _USER_INFO.match(url.strip()):
        message = f"{loggable_url(url.strip())}: an address with a user name is not fetched"
        raise RequestRejectedError(message)
    try:
        parsed = httpx.URL(url.strip()) if relative_to is None else httpx.URL(relative_to).join(url.strip())
    except (httpx.InvalidURL, ValueError):
        message = "the address to fetch is malformed"
        raise RequestRejectedError(message) from None
    return _checked_target(parsed.copy_with(fragment=None))


def is_numeric_host(host: str) -> bool:
    """Return whether the host of a ``FetchTarget`` is a numeric address, which needs no name resolution."""
    return ":" in host or _is_ipv4(host)


def _checked_target(url: httpx.URL) -> FetchTarget:
    text = loggable_url(str(url))
    if url.scheme not in ALLOWED_PORTS:
        message = f"{text}: only http and https are fetched"
        raise RequestRejectedError(message)
    port = ALLOWED_PORTS[url.scheme] if url.port is None else url.port
    if port not in ALLOWED_PORTS.values():
        message = f"{text}: only ports 80 and 443 are allowed"
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
        # Such as 127.1, 0x7f000001, 2130706433: systems resolve them to addresses, each in its own way.
        return "the host is an address in an unusual notation"
    if len(labels) == 1 or any(host == name or host.endswith(f".{name}") for name in _LOCAL_DOMAINS):
        return "the host is a name of a private network"
    return None


def _address_fault(host: str) -> str | None:
    why = private_address_reason(host)
    return why and f"the host is not public ({why})"


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


# Takes a host and a port, returns numeric addresses; raises ServiceUnavailableError for a name without any.
HostResolver = Callable[[str, int], Awaitable[Sequence[str]]]


class SystemResolver:
    """Resolves names with the operating system, which takes no deadline.

    Each lookup has a daemon thread: the executor of the event loop, and the program at its exit, would wait for all
    lookups. At most ``slots`` lookups run at a time, including abandoned ones.
    """

    def __init__(self, slots: int = 8) -> None:
        self._slots = asyncio.Semaphore(slots)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[str]] = loop.create_future()

        def finish(addresses: Sequence[str], error: ServiceUnavailableError | None) -> None:
            self._slots.release()
            if answer.done():
                return
            if error is None:
                answer.set_result(addresses)
            else:
                answer.set_exception(error)

        def resolve_in_thread() -> None:
            result = _resolve_host(host, port)
            try:
                loop.call_soon_threadsafe(finish, *result)
            except RuntimeError:
                return  # The event loop has ended.

        threading.Thread(target=resolve_in_thread, name="foxcast-resolve", daemon=True).start()
        return await answer


def _resolve_host(host: str, port: int) -> tuple[Sequence[str], ServiceUnavailableError | None]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return (), ServiceUnavailableError(f"{host}: the name has no address")
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found)), None
