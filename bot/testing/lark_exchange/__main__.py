"""Serves the exchange of docs/venue-tutorial.md on this machine."""

import asyncio

from bot.testing.lark_exchange import serve_exchange

if __name__ == "__main__":
    asyncio.run(serve_exchange())
