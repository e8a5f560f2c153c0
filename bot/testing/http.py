"""The web in a dictionary."""

from collections.abc import Mapping

from bot.errors import ContractError, NotFound


class DictHttp:
    """Implements the port Http: an address has a body, or an error that reading it raises.

    ``asked`` lists the addresses in the order of the requests, answered or not.
    """

    def __init__(self, pages: Mapping[str, bytes | Exception]) -> None:
        self.pages = dict(pages)
        self.asked: list[str] = []

    async def get(self, url: str, *, max_bytes: int) -> bytes:
        self.asked.append(url)
        page = self.pages.get(url, NotFound(f"404 at {url}"))
        if isinstance(page, Exception):
            raise page
        if len(page) > max_bytes:
            message = f"{url} has more than {max_bytes} bytes"
            raise ContractError(message)
        return page
