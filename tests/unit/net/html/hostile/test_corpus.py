"""Every page of the hostile corpus over real sockets: fetched by the real guard, read by the real child process."""

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import psutil
import pytest

from bot.core.errors import FoxcastError
from bot.core.research import PageText
from bot.net.html.page_reader import PageReadLimits, SubprocessPageReader
from bot.net.web.fetcher import FetchLimits
from bot.simulator.hostile_pages import all_hostile_pages
from bot.simulator.hostile_web import HostilePage, HostileWeb
from bot.testing.clock import FakeClock

CORPUS = all_hostile_pages()
FAMILIES = sorted({page.family for page in CORPUS})
MIB = 1024 * 1024
FETCHING = FetchLimits(deadline_s=0.7)
READING = PageReadLimits(cpu_s=1, page_s=4.0)
UNSEEN = frozenset({"Cf", "Cc", "Co", "Cs", "Cn"})


@dataclass(slots=True)
class CorpusRun:
    """What came of a family: its faults, connections to what is forbidden, and the memory of both processes."""

    faults: dict[str, str]
    forbidden: int
    child_bytes: int
    grown_bytes: int


def fault(page: HostilePage, came: PageText | FoxcastError) -> str | None:
    """Return what is wrong with what came of a page, or None."""
    if not isinstance(came, PageText):
        return None if isinstance(came, page.expected_errors) else f"ended with {came!r}"
    if page.expected_errors and not page.allows_page:
        return f"was read: {came.text[:60]!r}"
    shown = came.text + came.title
    told = [text for text in page.hidden if text in shown]
    missing = [text for text in page.visible if unicodedata.normalize("NFKC", text) not in came.text]
    odd = {each for each in shown if each != "\n" and unicodedata.category(each) in UNSEEN}
    if told or missing or odd or len(came.text) > READING.chars:
        return f"told {told}, lacks {missing}, odd {odd}, {len(came.text)} characters: {came.text[:200]!r}"
    return None


async def come(web: HostileWeb, reader: SubprocessPageReader, page: HostilePage) -> PageText | FoxcastError:
    try:
        async with web.fetcher(FakeClock(), FETCHING) as fetcher:
            fetched = await fetcher.fetch(page.url, refusal=lambda _: None)
        return await reader.read(fetched)
    except FoxcastError as error:
        return error


async def played(pages: Collection[HostilePage]) -> CorpusRun:
    faults: dict[str, str] = {}
    this, peak = psutil.Process(), 0
    async with HostileWeb(pages) as web, SubprocessPageReader(READING) as reader:
        before = this.memory_info().rss
        for page in pages:
            found = fault(page, await come(web, reader, page))
            faults |= {page.name: found} if found is not None else {}
            peak = max(peak, memory_of(reader.process_id))
        return CorpusRun(faults, web.forbidden_connections, peak, this.memory_info().rss - before)


def third(pages: Sequence[HostilePage]) -> list[HostilePage]:
    """Return every third page, of each three another one: kinds often come in threes."""
    return [page for number, page in enumerate(pages) if number % 3 == number // 3 % 3]


def memory_of(process_id: int | None) -> int:
    try:
        return psutil.Process(process_id).memory_info().rss if process_id is not None else 0
    except psutil.NoSuchProcess:
        return 0


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_family_of_hostile_pages_comes_out_as_pages_or_errors_as_it_should(
    family: str, pytestconfig: pytest.Config
) -> None:
    pages = [page for page in CORPUS if page.family == family]
    run = await played(pages if pytestconfig.getoption("--whole-corpus") else third(pages))
    assert run.faults == {}
    assert run.forbidden == 0
    assert run.child_bytes < READING.memory_bytes
    assert run.grown_bytes < 64 * MIB


def test_the_corpus_has_its_size_and_each_page_a_name_and_an_address_of_its_own() -> None:
    assert len(CORPUS) >= 300
    assert len({page.name for page in CORPUS}) == len(CORPUS)
    served = [page.url for page in CORPUS if page.family != "addresses"]
    assert len(set(served)) == len(served)
