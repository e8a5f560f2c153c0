"""The table of config.toml about the addresses at which a running daemon can be watched."""

import ipaddress
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from bot.config.base_schema import ConfigSection

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


def _split_address(text: str) -> tuple[str, int]:
    """Return host and port of ``127.0.0.1:8420`` or ``[::1]:8420``; raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) < 65_536):
        message = 'should be a host and a port, such as "127.0.0.1:8420"'
        raise ValueError(message)
    if host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            message = 'should begin with an IP address of this machine or "localhost", such as "127.0.0.1:8420"'
            raise ValueError(message) from None
    return host, int(port)


def _require_address(text: str) -> str:
    _split_address(text)
    return text


class WebSection(ConfigSection):
    """Where the daemon answers others: the dashboard, health and metrics; without ``listen`` nowhere."""

    listen: Annotated[str, AfterValidator(_require_address)] | None = None
    """Host and port, such as `127.0.0.1:8420`; another host than this machine needs `token_file`. Unset: off."""

    token_file: Path | None = None
    """A file of mode 600 with the token that every request must carry (`Authorization: Bearer ...`); unset: none."""

    hosts: tuple[str, ...] = ()
    """Further names under which browsers reach the server, such as that of a proxy; any other name is refused."""

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port; None where nothing is served."""
        return None if self.listen is None else _split_address(self.listen)

    @property
    def is_local(self) -> bool:
        """Whether only programs of this machine can connect."""
        return self.address is None or self.address[0] in LOCAL_HOSTS

    def located(self, folder: Path) -> Self:
        """Return the section with a relative path resolved in the folder of the file."""
        file = None if self.token_file is None else folder / self.token_file.expanduser()
        return self.model_copy(update={"token_file": file})

    @model_validator(mode="after")
    def _require_token(self) -> Self:
        if not self.is_local and self.token_file is None:
            message = f"listen = {self.listen!r} can be reached by others, so it needs token_file; or use 127.0.0.1"
            raise ValueError(message)
        return self
