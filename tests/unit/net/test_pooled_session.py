"""Where a pooled session connects, and how it writes addresses; names lead where a test says."""

import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from bot.core.errors import ConfigError
from bot.core.proxy_settings import NO_PROXY
from bot.net.connections import ProxySelector
from bot.net.pooled_session import PooledSession, RequestProgress
from bot.testing.loopback_server import LoopbackServer, ReceivedRequest, ScriptedResponse


class FixedResolver(AbstractResolver):
    """A network in which every name leads to the same addresses."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self.addresses
        ]

    async def close(self) -> None:
        pass


async def status(url: str, *addresses: str, progress: RequestProgress | None = None) -> int:
    resolver = FixedResolver(*addresses)
    session = PooledSession(ProxySelector(NO_PROXY), connections=2, keepalive_s=5.0, connect_s=1.0, resolver=resolver)
    try:
        response = await session.send("GET", url, {}, None, progress or RequestProgress())
        response.close()
        return response.status
    finally:
        await session.aclose()


@pytest.mark.parametrize(
    "addresses",
    [
        ("169.254.169.254",),
        ("168.63.129.16",),
        ("::ffff:169.254.169.254",),
        ("fd00:ec2::254",),
        ("169.254.169.254", "169.254.170.2"),
    ],
)
async def test_no_name_leads_to_a_metadata_service(addresses: tuple[str, ...]) -> None:
    progress = RequestProgress()
    with pytest.raises(ConfigError, match="the metadata service of a cloud"):
        await status("http://search.example.org/latest/meta-data", *addresses, progress=progress)
    assert not progress.request_started


@pytest.mark.parametrize("host", ["2852039166", "0xa9fea9fe", "169.254.43518", "[::ffff:a9fe:a9fe]"])
async def test_no_other_notation_leads_to_a_metadata_service(host: str) -> None:
    with pytest.raises(ConfigError, match=r"the metadata service of a cloud|is not an address"):
        await status(f"http://{host}/latest/meta-data", "169.254.169.254")


async def test_a_name_of_a_private_network_is_connected_to() -> None:
    async with LoopbackServer(lambda _: ScriptedResponse()) as server:
        port = server.address.rpartition(":")[2]
        assert await status(f"http://printer.lan:{port}/", "127.0.0.1") == 200


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/a%2Fb%3f?q=x%20y%2C+z", "/a%2Fb%3f?q=x%20y%2C+z"),
        ("/a b?q=<|>", "/a%20b?q=%3C%7C%3E"),
        ("/é?q=ü", "/%C3%A9?q=%C3%BC"),
        ("/models/@cf/meta:x;y=(1)?a[]=1&b=~", "/models/@cf/meta:x;y=(1)?a[]=1&b=~"),
    ],
)
async def test_an_address_is_sent_as_it_was_given_with_the_rest_encoded(path: str, sent: str) -> None:
    seen: list[ReceivedRequest] = []

    def answer(received: ReceivedRequest) -> ScriptedResponse:
        seen.append(received)
        return ScriptedResponse()

    async with LoopbackServer(answer) as server:
        await status(server.address + path, "127.0.0.1")
    assert [one.path for one in seen] == [sent]
