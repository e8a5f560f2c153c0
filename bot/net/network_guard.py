"""Refuses connections while code of a plugin runs that is only checked.

It sees the sockets of the interpreter, which asyncio and the usual HTTP libraries use. A library with sockets of its
own and another process are not seen. https://docs.python.org/3/library/audit_events.html
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from ipaddress import ip_address

from bot.core.errors import RequestRejectedError

# Where the address or host is among the arguments of the event.
_HOST_PLACES = {
    "socket.connect": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.sendmsg": 1,
    "socket.sendto": 1,
}
# The guards that are active: whether each permits addresses of this machine, and what it says.
_ACTIVE_GUARDS: list[tuple[bool, str]] = []


@contextmanager
def refuse_connections(why: str, *, permits_loopback: bool = False) -> Iterator[None]:
    """Make connections raise RequestRejectedError with the reason, in all threads; sockets in files are permitted."""
    _install_hook()
    guard = (permits_loopback, why)
    _ACTIVE_GUARDS.append(guard)
    try:
        yield
    finally:
        _ACTIVE_GUARDS.remove(guard)


@cache
def _install_hook() -> None:
    """Install the hook, which cannot be removed again; without an active guard it permits everything."""
    sys.addaudithook(_refuse_event)


def _refuse_event(event: str, arguments: tuple[object, ...]) -> None:
    if not _ACTIVE_GUARDS or event not in _HOST_PLACES:
        return
    address = arguments[_HOST_PLACES[event]]
    if isinstance(address, tuple):
        host = str(address[0])
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = address.decode() if isinstance(address, bytes) else str(address or "")
    else:
        return  # a path of the file system, or a message on a connection that exists
    for permits_loopback, why in _ACTIVE_GUARDS:
        if not (permits_loopback and _is_loopback(host)):
            message = f"no connection to {host or 'any host'}: {why}"
            raise RequestRejectedError(message)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in {"", "localhost"}
