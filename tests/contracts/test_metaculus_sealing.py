"""The contract kits for what makes its requests beforehand, at Metaculus: the writer on the fake site, and on paper."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import pytest

from bot.api import BinaryPrediction, PaperBookContext, Question, SealingSubmitter, VenueSpec
from bot.simulator.faults import RequestFault
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.submitter_contracts import SealingSubmitterContract, SubmitterSetup
from bot.testing.submitters import LossySubmitter
from plugins.metaculus import foxcast_venues
from plugins.metaculus.post_parser import MetaculusParsedPosts, build_question
from plugins.metaculus.question_names import question_ref
from plugins.metaculus.writer import MetaculusWriter
from tests.plugins.metaculus.conftest import TOKEN, MetaculusFixture
from tests.plugins.metaculus.conftest import site as site_fixture
from tests.plugins.metaculus.records import batch as batch_of
from tests.plugins.metaculus.records import intent, post, question

SPEC: VenueSpec[Any] = foxcast_venues()[0]
RESTART_S = 1.0

site = site_fixture


class TestWriter(SealingSubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "writer"

    @pytest.fixture
    def setup(self, site: MetaculusFixture) -> SubmitterSetup:
        add, faults = site.fake.world.add_question, site.fake.faults
        rain, snow, over = add("Rain?"), add("Snow?"), add("Over?")
        site.fake.world.close(over)

        def edit() -> None:
            for one in (rain, snow):
                site.fake.world.edit(one, title=f"{one.title} (edited)")

        async def reopen() -> SealingSubmitter:
            site.clock.advance_without_waking(RESTART_S)
            return MetaculusWriter(site.settings, site.place)

        later: Callable[[float], Awaitable[None]] = site.clock.advance
        return SubmitterSetup(
            sealer=site.writer,
            batch=batch_of(
                intent(question_ref(rain.post, rain.id)),
                intent(question_ref(snow.post, snow.id), BinaryPrediction(0.4)),
            ),
            refused_batch=batch_of(intent(question_ref(over.post, over.id))),
            count_effects=lambda: sum(len(one.forecasts_of(site.bot.id)) for one in site.fake.state.questions.values()),
            reopen=reopen,
            advance_time=later,
            now=site.clock.now,
            lose_request=lambda: faults.schedule(RequestFault.DROPPED_BEFORE, method="POST"),
            lose_reply=lambda: faults.schedule(RequestFault.DROPPED_AFTER, method="POST"),
            edit_questions=edit,
            secrets=(TOKEN,),
        )


class TestPaperRecord(SealingSubmitterContract):
    spec = SPEC
    part: ClassVar[Literal["writer", "paper"]] = "paper"
    # One process at a time writes to the record: what is not in it never will be.
    has_fences = False

    @pytest.fixture
    async def setup(self, site: MetaculusFixture, tmp_path: Path) -> AsyncIterator[SubmitterSetup]:
        clock = FakeClock()
        place = PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=tmp_path, cash=1000.0, delay_s=2.0)
        rain, snow = asked(post(40001)), asked(post(40002))
        over = asked(post(40003, question=question(50003, scheduled_close_time="2026-01-01T00:00:00Z", open_time=None)))
        async with AsyncExitStack() as stack:

            async def another() -> SealingSubmitter:
                assert SPEC.paper is not None
                return cast("SealingSubmitter", await stack.enter_async_context(SPEC.paper(site.settings, place)))

            book = LossySubmitter(await another())
            yield SubmitterSetup(
                sealer=book,
                batch=batch_of(intent(rain.ref), intent(snow.ref, BinaryPrediction(0.4)), questions=(rain, snow)),
                refused_batch=batch_of(intent(over.ref), questions=(over,)),
                count_effects=lambda: written(tmp_path),
                reopen=another,
                advance_time=clock.advance,
                now=clock.now,
                lose_request=lambda: book.losses.append("request"),
                lose_reply=lambda: book.losses.append("reply"),
                secrets=(TOKEN,),
            )
        # See docs/facts/metaculus.md#plugin-rules: paper sends nothing.
        assert site.fake.requests == []


def asked(raw: object) -> Question:
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(raw)
    return build_question(unpacked.entries[0])


def written(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "standing.sqlite")) as database:
        return int(database.execute("select count(*) from statement").fetchone()[0])
