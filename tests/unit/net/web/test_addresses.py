"""Which addresses are inside, against the tables of others and against what the system makes of odd spellings."""

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ssrfguard import DEFAULT_DENIED

from bot.core.errors import RequestRejectedError
from bot.net.web.addresses import parse_fetch_target, private_address_reason
from bot.simulator.hostile_responses import INTERNAL_HOSTS

# What Python 3.11.7 calls global and is not: multicast, NAT64 and 6to4 forms of this machine, a metadata service.
CALLED_GLOBAL = (
    "224.0.0.1",
    "239.255.255.250",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "192.0.0.192",
    "ff02::1",
    "fec0::1",
)
# Addresses that well-known services of the open internet published, of both families.
PUBLIC = ("93.184.215.14", "198.41.0.4", "192.5.5.241", "2001:500:200::b", "2001:7fd::1", "2a00:1450:4001::1", "2600::")


@pytest.mark.parametrize("address", CALLED_GLOBAL)
def test_what_python_wrongly_calls_global_is_inside(address: str) -> None:
    assert private_address_reason(address) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_open_internet_is_not_inside(address: str) -> None:
    assert private_address_reason(address) is None


@pytest.mark.parametrize("address", ["fe80::1%eth0", "2001:500:200::b%1", "example", "", "1.2.3", "127.1"])
def test_what_is_no_plain_address_is_inside(address: str) -> None:
    assert private_address_reason(address) is not None


@given(st.one_of(st.ip_addresses(), st.ip_addresses(v=6, network="::/8"), st.ip_addresses(v=6, network="2001::/16")))
def test_nothing_passes_that_python_or_the_registry_of_another_library_refuses(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if private_address_reason(str(address)) is None:
        assert address.is_global
        assert not DEFAULT_DENIED.classify(address).blocked


@pytest.mark.parametrize(
    "network", [block.network for block in DEFAULT_DENIED.blocks if block.reach.value == "denied"], ids=str
)
def test_both_ends_of_each_block_that_the_registries_refuse_are_inside(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> None:
    assert private_address_reason(str(network[0])) is not None
    assert private_address_reason(str(network[-1])) is not None


@pytest.mark.parametrize("host", INTERNAL_HOSTS)
def test_no_spelling_of_an_address_inside_becomes_a_target(host: str) -> None:
    with pytest.raises(RequestRejectedError):
        parse_fetch_target(f"http://{host}/latest/meta-data")


@pytest.mark.parametrize(
    "host", ["127.1", "127.0.1", "0x7f000001", "2130706433", "017700000001", "0x7f.1", "0", "0177.1"]
)
def test_what_the_system_makes_of_an_odd_spelling_is_inside_too(host: str) -> None:
    found = socket.getaddrinfo(host, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    assert all(private_address_reason(str(entry[4][0])) is not None for entry in found)
