"""A real HTTP proxy over loopback sockets, which leads names to servers of a test, and a certificate for these."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ProxyServer:
    """Tunnels (CONNECT) and forwards (absolute addresses) to ``routes``: ``name:port`` to a port of this machine.

    ``login`` is the ``name:password`` that it asks for; ``status`` is what it answers instead of doing anything, and
    ``silent`` never to answer. ``requests`` are the method and the target of each request, ``carried`` the bytes that
    went to the servers through all tunnels, ``heads`` the heads as they came.
    """

    def __init__(
        self, routes: Mapping[str, int], *, login: str | None = None, status: int | None = None, silent: bool = False
    ) -> None:
        self.routes = routes
        self.requests: list[tuple[str, str]] = []
        self.heads: list[str] = []
        self.carried = bytearray()
        self.port = 0
        self._talks: dict[asyncio.Task[object], list[asyncio.StreamWriter]] = {}
        self._expected = None if login is None else f"Basic {b64encode(login.encode()).decode()}"
        self._status = status
        self._silent = silent

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def aclose(self) -> None:
        """Break all connections and wait for their end."""
        for task, writers in self._talks.items():
            task.cancel()
            for writer in writers:
                writer.transport.abort()
        await asyncio.gather(*self._talks)

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        if (task := asyncio.current_task()) is not None:
            self._talks[task] = writers
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _ = head.split("\r\n")[0].split(" ")
            self.heads.append(head)
            self.requests.append((method, target))
            if self._silent:
                await reader.read()
            elif (status := self._refusal(head, target)) is not None:
                writer.write(f"HTTP/1.1 {status} The Proxy Refuses\r\nContent-Length: 0\r\n\r\n".encode())
            else:
                far = await asyncio.open_connection("127.0.0.1", self.routes[_host_and_port(target)])
                writers.append(far[1])
                await self._lead(method, target, head, (reader, writer), far)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # somebody hung up, which is what some tests are about, or the test has ended
        finally:
            for one in writers:
                one.close()

    def _refusal(self, head: str, target: str) -> int | None:
        if self._status is not None:
            return self._status
        if self._expected is not None and f"\r\nproxy-authorization: {self._expected}\r\n".lower() not in head.lower():
            return 407
        return None if _host_and_port(target) in self.routes else 502

    async def _lead(self, method: str, target: str, head: str, near: Pipe, far: Pipe) -> None:
        if method == "CONNECT":
            near[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far[1].write(_origin_head(head, target))
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(near[0], far[1], self.carried))
            both.create_task(_copy(far[0], near[1]))


@asynccontextmanager
async def serving_proxy(proxy: ProxyServer) -> AsyncIterator[ProxyServer]:
    async with await asyncio.start_server(proxy.meet, "127.0.0.1", 0) as listening:
        proxy.port = listening.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            await proxy.aclose()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray | None = None) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            if kept is not None:
                kept += data
            writer.write(data)
            await writer.drain()
    writer.close()


def _host_and_port(target: str) -> str:
    host = target.removeprefix("http://").partition("/")[0]
    return host if ":" in host else f"{host}:80"


def _origin_head(head: str, target: str) -> bytes:
    """Return a head as it goes on to the server, which is to close its connection."""
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    path = "/" + target.removeprefix("http://").partition("/")[2]
    kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:"))]
    return "\r\n".join([first.replace(target, path), *kept, "Connection: close", "", ""]).encode("latin-1")


def make_certificate(folder: Path, *names: str) -> tuple[Path, ssl.SSLContext]:
    """Return the file of an authority, and the context of a server that it vouches for under these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of a test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority, both = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both.write_bytes(secret + authority.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return authority, context
