"""Which addresses are inside, against the tables of others and against what the system makes of odd spellings."""

import ipaddress
import socket

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ssrfguard import DEFAULT_DENIED

from bot.core.errors import ConfigError, RequestRejectedError
from bot.net.connections import SendTrace
from bot.net.web.addresses import is_metadata_address, parse_fetch_target, private_address_reason
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


METADATA = ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192")
# Prefixes of all lengths of RFC 6052, section 2.2; some belong to well-known services.
NAT64_PREFIXES = ("2001:db8::/32", "2600:1:a00::/40", "2600:1:122::/48", "2600:1:122:300::/56", "2001:67c:27e4::/64",
                  "64:ff9b::/96", "2001:67c:2960:6464::/96")  # fmt: skip


def nat64(prefix: str, address: str) -> str:
    """Return the IPv6 address of an IPv4 one under a prefix, by the table of RFC 6052."""
    network, digits = ipaddress.IPv6Network(prefix), ipaddress.IPv4Address(address).packed
    raw, place = bytearray(network.network_address.packed), network.prefixlen // 8
    for digit in digits:
        place += place == 8
        raw[place] = digit
        place += 1
    return str(ipaddress.IPv6Address(bytes(raw)))


def test_the_nat64_forms_are_those_of_the_standard() -> None:
    """Source: RFC 6052, section 2.4."""
    assert nat64("2001:db8:122::/48", "192.0.2.33") == "2001:db8:122:c000:2:2100::"
    assert nat64("2001:db8:122:344::/64", "192.0.2.33") == "2001:db8:122:344:c0:2:2100:0"
    assert nat64("2001:db8:122:344::/96", "192.0.2.33") == "2001:db8:122:344::c000:221"


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("prefix", NAT64_PREFIXES)
def test_a_metadata_service_is_found_in_every_form_of_its_address(address: str, prefix: str) -> None:
    number = ipaddress.IPv4Address(address)
    sixtofour = ipaddress.IPv6Address(b"\x20\x02" + number.packed + bytes(10))
    for form in (address, f"::ffff:{address}", nat64(prefix, address), str(sixtofour)):
        assert is_metadata_address(form)
        assert private_address_reason(form) == "the metadata service of a cloud"
    assert not is_metadata_address(str(number + 1))


@pytest.mark.parametrize("address", ["fd00:ec2::254", "fd20:ce::254", "fe80::a9fe:a9fe%eth0"])
def test_a_metadata_service_of_ipv6_is_found(address: str) -> None:
    assert is_metadata_address(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_no_public_service_is_taken_for_a_metadata_service(address: str) -> None:
    assert not is_metadata_address(address)


class ConnectedStream(httpcore.AsyncMockStream):
    """A connection whose other end has an address."""

    def __init__(self, address: str) -> None:
        super().__init__([b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret"])
        self.address, self.sent, self.closed = address, b"", False

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the library's signature
        self.sent += buffer

    async def aclose(self) -> None:
        self.closed = True

    def get_extra_info(self, info: str) -> object:
        if info != "server_addr":
            return None
        # A socket that is no internet socket has no address.
        return (self.address, 80) if self.address else ""


class ResolvingBackend(httpcore.AsyncMockBackend):
    """A network in which every name leads to one address."""

    def __init__(self, address: str) -> None:
        super().__init__([])
        self.stream = ConnectedStream(address)

    async def connect_tcp(self, *_: object, **__: object) -> httpcore.AsyncNetworkStream:
        return self.stream


async def ask(host: str, address: str) -> tuple[int | None, ConnectedStream]:
    backend, trace = ResolvingBackend(address), SendTrace()
    async with httpcore.AsyncConnectionPool(network_backend=backend) as pool:
        try:
            response = await pool.request("GET", f"http://{host}/latest/meta-data", extensions={"trace": trace})
        except ConfigError:
            return None, backend.stream
        finally:
            await trace.close_unfinished()
    return response.status, backend.stream


@pytest.mark.parametrize(
    "host", ["search.example.org", "printer.lan", "2852039166", "0xa9fea9fe", "169.254.169.254.nip.io"]
)
@pytest.mark.parametrize("address", ["169.254.169.254", "168.63.129.16", "::ffff:169.254.169.254", "fd00:ec2::254"])
async def test_no_client_sends_anything_to_a_metadata_service_behind_a_name(host: str, address: str) -> None:
    status, stream = await ask(host, address)
    assert (status, stream.sent, stream.closed) == (None, b"", True)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("169.254.169.254", "169.254.169.254"),
        ("[fd00:ec2::254]", "fd00:ec2::254"),
        ("printer.lan", "192.168.1.1"),
        ("printer.lan", ""),
    ],
)
async def test_a_metadata_service_that_config_names_itself_and_private_addresses_are_asked(
    host: str, address: str
) -> None:
    status, stream = await ask(host, address)
    assert status == 200
    assert stream.sent.startswith(b"GET /latest/meta-data")
