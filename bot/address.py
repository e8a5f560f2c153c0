"""Addresses as errors and logs may show them, and which of them stay inside this machine."""

import ipaddress
from urllib.parse import urlsplit


def public(url: str) -> str:
    """Return an address without user name and query, which may hold keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def is_this_machine(host: str) -> bool:
    """Say whether a host is an address of the loopback interface, or the name that stands for it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
