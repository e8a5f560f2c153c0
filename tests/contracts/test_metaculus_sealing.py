"""The contract kits for what makes its requests beforehand, at Metaculus: the writer on the fake site, and on paper."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest

from bot.api import Binary, PaperPlace, Question, Sealer, VenueSpec
from bot.testing.clock import FakeClock
from bot.testing.http import DictHttp
from bot.testing.sealer_contract import Bench, SealerContract
from bot.testing.venues.faults import Fault
from plugins.metaculus import foxcast_venues
from plugins.metaculus.parse import Unpacked, question_of
from plugins.metaculus.terms import ref_of
from plugins.metaculus.writer import MetaculusWriter
from tests.contracts.wiring import LossySealer
from tests.plugins.metaculus.conftest import TOKEN, Site
from tests.plugins.metaculus.conftest import site as site_fixture
from tests.plugins.metaculus.records import batch as batch_of
from tests.plugins.metaculus.records import intent, post, question

SPEC: VenueSpec[Any] = foxcast_venues()[0]
RESTART_S = 1.0

site = site_fixture


class TestWriter(SealerContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"

    @pytest.fixture
    def bench(self, site: Site) -> Bench:
        add, faults = site.fake.world.add_question, site.fake.faults
        rain, snow, over = add("Rain?"), add("Snow?"), add("Over?")
        site.fake.world.close(over)

        def edit() -> None:
            for one in (rain, snow):
                site.fake.world.edit(one, title=f"{one.title} (edited)")

        async def reopen() -> Sealer:
            site.clock.pass_unnoticed(RESTART_S)
            return MetaculusWriter(site.settings, site.place)

        later: Callable[[float], Awaitable[None]] = site.clock.advance
        return Bench(
            sealer=site.writer,
            batch=batch_of(intent(ref_of(rain.post, rain.id)), intent(ref_of(snow.post, snow.id), Binary(0.4))),
            refused=batch_of(intent(ref_of(over.post, over.id))),
            effects=lambda: sum(len(one.of(site.bot.id)) for one in site.fake.state.questions.values()),
            reopen=reopen,
            later=later,
            now=site.clock.now,
            lose_request=lambda: faults.next(Fault.DROPPED_BEFORE, method="POST"),
            lose_reply=lambda: faults.next(Fault.DROPPED_AFTER, method="POST"),
            edit=edit,
            secrets=(TOKEN,),
        )


class TestPaperRecord(SealerContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"
    # One process at a time writes to the record: what is not in it never will be.
    fences = False

    @pytest.fixture
    async def bench(self, site: Site, tmp_path: Path) -> AsyncIterator[Bench]:
        clock = FakeClock()
        place = PaperPlace(clock=clock, http=DictHttp({}), folder=tmp_path, cash=1000.0, delay_s=2.0)
        rain, snow = asked(post(40001)), asked(post(40002))
        over = asked(post(40003, question=question(50003, scheduled_close_time="2026-01-01T00:00:00Z", open_time=None)))
        async with AsyncExitStack() as stack:

            async def another() -> Sealer:
                assert SPEC.paper is not None
                return cast("Sealer", await stack.enter_async_context(SPEC.paper(site.settings, place)))

            book = LossySealer(await another())
            yield Bench(
                sealer=book,
                batch=batch_of(intent(rain.ref), intent(snow.ref, Binary(0.4)), questions=(rain, snow)),
                refused=batch_of(intent(over.ref), questions=(over,)),
                effects=lambda: written(tmp_path),
                reopen=another,
                later=clock.advance,
                now=clock.now,
                lose_request=lambda: book.losses.append("request"),
                lose_reply=lambda: book.losses.append("reply"),
                secrets=(TOKEN,),
            )
        # MC-S11.
        assert site.fake.requests == []


def asked(raw: object) -> Question:
    unpacked = Unpacked()
    unpacked.add(raw)
    return question_of(unpacked.entries[0])


def written(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "standing.sqlite")) as database:
        return int(database.execute("select count(*) from statement").fetchone()[0])
