"""Which numeric addresses belong to the open internet: everything else is inside this machine or its network.

``ipaddress.is_global`` is asked too, but it is not enough: for Python 3.11.7 multicast, NAT64 and 6to4 forms of
127.0.0.1 and 192.0.0.192 are global. Wrapped IPv4 addresses are refused whole and never unwrapped.
Source: the IANA special-purpose address registries, RFC 6890.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_REFUSED_V4 = {
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
_GIVEN_OUT_V6 = IPv6Network("2000::/3")
_REFUSED_V6 = {
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


def inside(address: str) -> str | None:
    """Return why a numeric address must not be connected to, or None for one of the open internet."""
    if "%" in address:
        return "link-local"
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an address"
    why = _listed(parsed)
    if why is None and not parsed.is_global:
        return "not public"
    return why


def _listed(address: IPv4Address | IPv6Address) -> str | None:
    if isinstance(address, IPv4Address):
        return next((why for network, why in _REFUSED_V4.items() if address in network), None)
    why = next((why for network, why in _REFUSED_V6.items() if address in network), None)
    return why or (None if address in _GIVEN_OUT_V6 else "not given out")
