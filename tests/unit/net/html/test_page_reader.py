"""The child process: kept warm, bounded, replaced, and never left behind."""

import asyncio
import sys
import time

import psutil
import pytest

from bot.core.errors import MalformedDataError, ServiceUnavailableError
from bot.core.research import FetchedPage, PageText
from bot.net.html.page_reader import PageReadLimits, SubprocessPageReader
from bot.simulator.hidden_text_pages import VISIBLE_TEXT, plain_page

PLAIN = plain_page("")
# Combining marks in turn of two classes, which take the square of their number to put in order.
COSTLY = "a" + "\u0301\u0327" * 300_000
MIB = 1024 * 1024


def of(text: str, media_type: str = "text/html", path: str = "") -> FetchedPage:
    return FetchedPage(url=f"http://pages.test/{path}?key=secret", content=text.encode(), media_type=media_type)


def is_running(process_id: int | None) -> bool:
    if process_id is None or not psutil.pid_exists(process_id):
        return False
    return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE


async def test_a_page_is_read_by_a_child_that_is_kept() -> None:
    async with SubprocessPageReader() as reader:
        assert reader.process_id is None
        first = await reader.read(of(PLAIN))
        child = reader.process_id
        second = await reader.read(of(PLAIN))
        assert (first, reader.process_id) == (second, child)
        assert isinstance(first, PageText)
        assert VISIBLE_TEXT in first.text
        assert first.url == "http://pages.test/?key=secret"
        assert is_running(child)
    assert not is_running(child)


async def test_a_page_that_takes_too_much_computing_ends_the_child_and_the_next_is_read_by_another() -> None:
    async with SubprocessPageReader(PageReadLimits(cpu_s=1, page_s=15.0)) as reader:
        await reader.read(of(PLAIN))
        child = reader.process_id
        with pytest.raises(MalformedDataError, match="could not be read") as caught:
            await reader.read(of(COSTLY, "text/plain"))
        assert "secret" not in str(caught.value)
        assert not is_running(child)
        assert VISIBLE_TEXT in (await reader.read(of(PLAIN))).text
        assert reader.process_id not in {child, None}


async def test_a_page_that_takes_too_long_is_given_up() -> None:
    async with SubprocessPageReader(PageReadLimits(cpu_s=20, page_s=0.3)) as reader:
        with pytest.raises(MalformedDataError, match=r"within 0\.3 s"):
            await reader.read(of(COSTLY, "text/plain"))
        assert reader.process_id is None


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not bound address space")
async def test_a_page_that_takes_too_much_memory_is_an_error_and_the_limit_holds() -> None:
    limits = PageReadLimits(memory_bytes=160 * MIB, cpu_s=20, page_s=20.0)
    async with SubprocessPageReader(limits) as reader:
        # One character that composes to eighteen.
        with pytest.raises(MalformedDataError, match="memory"):
            await reader.read(of("\ufdfa" * 660_000, "text/plain"))
        assert VISIBLE_TEXT in (await reader.read(of(PLAIN))).text
        assert psutil.Process(reader.process_id).memory_info().vms <= limits.memory_bytes


async def test_a_child_that_is_killed_between_pages_is_replaced() -> None:
    async with SubprocessPageReader() as reader:
        await reader.read(of(PLAIN))
        psutil.Process(reader.process_id).kill()
        results = await asyncio.gather(*(reader.read(of(PLAIN)) for _ in range(2)), return_exceptions=True)
        assert isinstance(results[-1], PageText)


async def test_a_cancelled_page_is_not_the_answer_to_the_next() -> None:
    async with SubprocessPageReader(PageReadLimits(cpu_s=20, page_s=20.0)) as reader:
        await reader.read(of(PLAIN))
        child = reader.process_id
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(of(COSTLY, "text/plain"))
        assert not is_running(child)
        assert VISIBLE_TEXT in (await reader.read(of(PLAIN))).text


async def test_only_so_many_pages_wait() -> None:
    async with SubprocessPageReader(PageReadLimits(waiting=3)) as reader:
        results = await asyncio.gather(*(reader.read(of(PLAIN)) for _ in range(5)), return_exceptions=True)
    assert [type(result) for result in results] == [
        PageText,
        PageText,
        PageText,
        ServiceUnavailableError,
        ServiceUnavailableError,
    ]


async def test_a_child_is_replaced_after_many_pages() -> None:
    async with SubprocessPageReader(PageReadLimits(pages=2)) as reader:
        await reader.read(of(PLAIN))
        first = reader.process_id
        await reader.read(of(PLAIN))
        assert not is_running(first)
        await reader.read(of(PLAIN))
        assert reader.process_id not in {first, None}


async def test_the_child_gets_none_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOXCAST_SOME_KEY", "secret")
    async with SubprocessPageReader() as reader:
        await reader.read(of(PLAIN))
        assert "FOXCAST_SOME_KEY" not in psutil.Process(reader.process_id).environ()


async def test_closing_ends_a_page_that_is_being_read() -> None:
    reader = SubprocessPageReader(PageReadLimits(cpu_s=20, page_s=20.0))
    await reader.read(of(PLAIN))
    reading = asyncio.create_task(reader.read(of(COSTLY, "text/plain")))
    await asyncio.wait([reading], timeout=0.1)
    started = time.monotonic()
    await reader.aclose()
    with pytest.raises(MalformedDataError):
        await reading
    assert time.monotonic() - started < 5.0
    assert reader.process_id is None


async def test_a_page_that_keeps_its_reader_busy_holds_up_no_other() -> None:
    async with SubprocessPageReader(PageReadLimits(cpu_s=20, page_s=20.0)) as reader:
        await reader.read(of(PLAIN))
        first = reader.process_ids
        assert len(first) == 1
        busy = asyncio.create_task(reader.read(of(COSTLY, "text/plain")))
        await asyncio.wait([busy], timeout=0.1)
        assert VISIBLE_TEXT in (await reader.read(of(PLAIN))).text
        assert not busy.done()
        assert len({*reader.process_ids}) == 2
        busy.cancel()
        await asyncio.wait([busy])


async def test_a_page_that_broke_its_reader_is_known_again_under_any_address() -> None:
    async with SubprocessPageReader(PageReadLimits(cpu_s=20, page_s=0.3, remembered=1)) as reader:
        with pytest.raises(MalformedDataError, match="within"):
            await reader.read(of(COSTLY, "text/plain"))
        with pytest.raises(MalformedDataError, match="not tried again"):
            await reader.read(of(COSTLY, "text/plain", path="other"))
        assert reader.process_id is None
        with pytest.raises(MalformedDataError, match="within"):
            await reader.read(of(COSTLY + "b", "text/plain"))
        # Only so many are remembered.
        with pytest.raises(MalformedDataError, match="within"):
            await reader.read(of(COSTLY, "text/plain"))


async def test_the_time_in_line_is_none_of_the_time_of_a_page() -> None:
    async with SubprocessPageReader(PageReadLimits(cpu_s=20, page_s=0.6, children=1)) as reader:
        await reader.read(of(PLAIN))
        busy = [asyncio.create_task(reader.read(of(COSTLY + "x" * n, "text/plain"))) for n in range(2)]
        await asyncio.wait(busy, timeout=0.0)
        assert VISIBLE_TEXT in (await reader.read(of(PLAIN))).text
        for each in busy:
            with pytest.raises(MalformedDataError, match="within"):
                await each
