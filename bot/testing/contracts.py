"""Contract kits: what every venue, archive and submitter must do, as tests that a plugin inherits.

Subclass a kit in a test module under a name that begins with ``Test``, fill in its attributes and fixtures, and
pytest runs it. The kits need pytest with pytest-asyncio in auto mode and look at nothing but the public ports.
"""
# ruff: noqa: S101 - pytest is made of assert

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import SecretStr, ValidationError

from bot.domain.order import ClosingWish, Side
from bot.domain.prediction import Binary, BinaryShape, ChoiceShape, CurveShape
from bot.domain.question import Question
from bot.domain.resolution import Chosen, Example, Happened, Landed, Void
from bot.domain.step import Json
from bot.domain.submission import Batch, Intent, IntentState, Receipt
from bot.errors import ContractError, FoxcastError, NotFound, Rejected, Unauthorized, Unavailable
from bot.ports import Archive, ClosingPlanner, Sealer, Submitter
from bot.specs import API_VERSION, Can, Settings, VenueSpec, Workplace
from bot.testing.clock import FakeClock
from bot.testing.http import DictHttp

HONEST = frozenset({IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN})
OUTCOME_OF = {BinaryShape: Happened, ChoiceShape: Chosen, CurveShape: Landed}
TRANSPORT_ERRORS = (
    Unauthorized("401"),
    Unavailable("503", retry_after_s=7.0),
    Rejected("400"),
    ContractError("more bytes than allowed"),
)


class VenueContract:
    """What every venue must do.

    ``settings`` reads something that does not change during the test; ``pages`` is the web it reads, by address;
    ``idle`` is the parameter of addresses that means nothing there, "" for none; ``remote`` are settings that read over
    HTTP, None for a venue that never does.
    """

    spec: ClassVar[VenueSpec[Any]]
    settings: ClassVar[Settings]
    remote: ClassVar[Settings | None] = None
    pages: ClassVar[Mapping[str, bytes | Exception]] = {}
    idle: ClassVar[str] = ""

    @pytest.fixture
    def workplace(self, tmp_path: Path) -> Workplace:
        return Workplace(clock=FakeClock(), http=DictHttp(self.pages, idle=self.idle), folder=tmp_path)

    def test_it_is_built_for_this_version(self) -> None:
        assert self.spec.api_version == API_VERSION

    def test_abilities_equal_what_is_offered(self) -> None:
        offered = {
            Can.SUBMIT: self.spec.writer,
            Can.PAPER: self.spec.paper,
            Can.PUSH_PRICES: self.spec.prices,
            Can.ARCHIVE: self.spec.archive,
        }
        expected = {ability for ability, factory in offered.items() if factory is not None}
        assert self.spec.abilities & offered.keys() == expected

    def test_unknown_settings_are_refused(self) -> None:
        with pytest.raises(ValidationError, match="no_such_setting"):
            self.spec.settings.model_validate({"no_such_setting": 1})

    def test_settings_cannot_be_changed(self) -> None:
        assert isinstance(self.settings, self.spec.settings)
        for name in type(self.settings).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(self.settings, name, None)

    def test_secrets_are_hidden(self) -> None:
        secret = "do-not-show-me"  # noqa: S105 - looked for in what is printed
        names = [name for name, field in type(self.settings).model_fields.items() if "Secret" in repr(field.annotation)]
        filled = self.settings.model_copy(update={name: SecretStr(secret) for name in names})
        assert secret not in f"{filled!r} {filled} {filled.model_dump_json()}"

    async def test_every_question_is_listed_once_under_the_name_of_the_venue(self, workplace: Workplace) -> None:
        listed = await self._questions(workplace)
        assert listed
        assert len({question.ref for question in listed}) == len(listed)
        assert {question.ref.venue for question in listed} == {self.spec.name}

    async def test_windows_open_before_they_close(self, workplace: Workplace) -> None:
        for question in await self._questions(workplace):
            if question.opens_at is not None and question.closes_at is not None:
                assert question.opens_at < question.closes_at, question.ref

    async def test_a_reopened_reader_reads_the_same(self, workplace: Workplace) -> None:
        assert await self._questions(workplace) == await self._questions(workplace)

    async def test_a_reader_cannot_submit(self, workplace: Workplace) -> None:
        async with self.spec.reader(self.settings, workplace) as venue:
            assert not hasattr(venue, "submit")

    async def test_nothing_pending_gives_no_outcome(self, workplace: Workplace) -> None:
        async with self.spec.reader(self.settings, workplace) as venue:
            assert [found async for found in venue.resolutions(())] == []

    async def test_outcomes_answer_pending_questions_in_their_own_shape(self, workplace: Workplace) -> None:
        asked = {question.ref: question for question in (await self._questions(workplace))[::2]}
        async with self.spec.reader(self.settings, workplace) as venue:
            async for found in venue.resolutions(tuple(asked)):
                question = asked[found.ref]
                question.target(found.target)
                assert isinstance(found.outcome, OUTCOME_OF[type(question.shape)] | Void), found

    @pytest.mark.parametrize("error", TRANSPORT_ERRORS, ids=lambda error: type(error).__name__)
    async def test_errors_of_the_transport_keep_their_meaning(self, workplace: Workplace, error: FoxcastError) -> None:
        with pytest.raises(type(error)):
            await self._read_remotely(replace(workplace, http=_Answering(error)))

    @pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[]", b"{}", b"<html></html>", b"[" * 100_000])
    async def test_an_odd_answer_is_a_contract_error(self, workplace: Workplace, body: bytes) -> None:
        with pytest.raises(ContractError):
            await self._read_remotely(replace(workplace, http=_Answering(body)))

    async def _questions(self, workplace: Workplace) -> list[Question]:
        async with self.spec.reader(self.settings, workplace) as venue:
            return [question async for question in venue.questions()]

    async def _read_remotely(self, workplace: Workplace) -> None:
        if self.remote is None:
            pytest.skip("this venue reads nothing over HTTP")
        async with self.spec.reader(self.remote, workplace) as venue:
            assert [question async for question in venue.questions()]


class ClosingContract:
    """What every planner must do that sells positions whatever the belief; the wish is about one that can be sold."""

    @pytest.fixture
    async def planner(self) -> ClosingPlanner:
        raise NotImplementedError

    @pytest.fixture
    async def wish(self) -> ClosingWish:
        raise NotImplementedError

    async def test_it_says_that_it_can(self, planner: ClosingPlanner) -> None:
        assert isinstance(planner, ClosingPlanner)

    async def test_no_more_than_the_position_is_sold_and_nothing_is_paid(
        self, planner: ClosingPlanner, wish: ClosingWish
    ) -> None:
        plan = await planner.plan_closing(wish)
        order, held = plan.order, wish.position
        assert order is not None, plan.why
        assert (order.contract, order.leg, order.side) == (held.contract, held.leg, Side.SELL)
        assert 0.0 < order.shares <= held.shares
        assert order.cost == 0.0
        assert order.limit <= order.expected
        assert order.currency == wish.account.currency

    async def test_it_needs_no_cash(self, planner: ClosingPlanner, wish: ClosingWish) -> None:
        rich = await planner.plan_closing(wish)
        poor = await planner.plan_closing(replace(wish, account=replace(wish.account, cash=0.0)))
        assert poor.order == rich.order

    async def test_half_of_it_can_be_sold(self, planner: ClosingPlanner, wish: ClosingWish) -> None:
        half = replace(wish.position, shares=wish.position.shares / 2)
        order = (await planner.plan_closing(replace(wish, position=half))).order
        assert order is not None
        assert order.shares <= half.shares


class ArchiveContract:
    """What every archive must do.

    The subclass gives the fixture ``folder`` (a Path): at least two rounds, with outcomes known before ``late``.
    """

    spec: ClassVar[VenueSpec[Any]]
    settings: ClassVar[Settings]
    late: ClassVar[datetime]

    @pytest.fixture
    def archive(self, folder: Path) -> Archive:
        assert self.spec.archive is not None
        return self.spec.archive(self.settings, folder)

    def test_rounds_come_oldest_first_and_once(self, archive: Archive) -> None:
        keys = list(archive.rounds())
        moments = [archive.round(key).as_of for key in keys]
        assert len(keys) > 1
        assert len(set(keys)) == len(keys)
        assert moments == sorted(moments)

    def test_a_round_holds_its_own_questions_and_their_outcomes(self, archive: Archive) -> None:
        for key in archive.rounds():
            found = archive.round(key)
            targets = {(question.ref, target.key) for question in found.questions for target in question.targets}
            outcomes = [(resolution.ref, resolution.target) for resolution in found.resolutions]
            assert found.key == key
            assert set(outcomes) <= targets
            assert len(set(outcomes)) == len(outcomes)

    def test_an_unknown_round_is_not_found(self, archive: Archive) -> None:
        with pytest.raises(NotFound, match="no-such-round"):
            archive.round("no-such-round")

    def test_examples_were_known_strictly_before_the_moment(self, archive: Archive) -> None:
        moments = [*(archive.round(key).as_of for key in archive.rounds()), self.late]
        known = [_known(list(archive.examples(moment)), moment) for moment in moments]
        assert known == sorted(known)
        assert known[-1] > 0

    def test_nothing_was_known_long_ago(self, archive: Archive) -> None:
        assert list(archive.examples(datetime(1970, 1, 2, tzinfo=UTC))) == []

    def test_a_sheet_that_is_not_there_is_not_found(self, archive: Archive, tmp_path: Path) -> None:
        with pytest.raises(NotFound):
            archive.sheet(tmp_path / "nothing.json")

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{}", b"\x1f\x8b\x08 cut short"])
    def test_a_sheet_of_another_form_is_refused(self, archive: Archive, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "odd.json"
        path.write_bytes(content)
        with pytest.raises(ContractError):
            archive.sheet(path)


class SubmitterContract:
    """What every writer and paper book must do where the last answer to a question stands; orders have their own kit.

    Those that make their requests beforehand are asked for them first, and refuse in ``submit`` what they refuse here.
    The subclass gives the fixtures ``submitter`` (open, with nothing standing), ``batch`` (accepted as it stands, with
    binary predictions), ``refused_batch`` (every intent of it is refused) and ``answers`` (a function that counts the
    answers standing at the other side, by other means than the submitter).
    """

    # Whose half this is, so that a test can tell whether every venue has its kits.
    spec: ClassVar[VenueSpec[Any]]
    part: ClassVar[Literal["writer", "paper"]]

    async def test_nothing_stands_before_it_is_submitted(self, submitter: Submitter, batch: Batch) -> None:
        assert _states(batch, await submitter.standing(batch)) == {IntentState.ABSENT}

    async def test_what_was_acknowledged_stands(self, submitter: Submitter, batch: Batch) -> None:
        batch = await _ready(submitter, batch)
        assert _states(batch, await submitter.submit(batch)) == {IntentState.ACKED}
        assert _states(batch, await submitter.standing(batch)) == {IntentState.ACKED}

    async def test_submitting_twice_is_standing_once(
        self, submitter: Submitter, batch: Batch, answers: Callable[[], int]
    ) -> None:
        batch = await _ready(submitter, batch)
        await submitter.submit(batch)
        once = answers()
        batch = await _ready(submitter, batch)
        await submitter.submit(batch)
        assert answers() == once > 0
        assert _states(batch, await submitter.standing(batch)) == {IntentState.ACKED}

    async def test_the_later_answer_stands(self, submitter: Submitter, batch: Batch) -> None:
        batch = await _ready(submitter, batch)
        changed = replace(batch, intents=tuple(_changed(intent) for intent in batch.intents), sealed=())
        await submitter.submit(batch)
        assert _states(changed, await submitter.standing(changed)) == {IntentState.ABSENT}
        changed = await _ready(submitter, changed)
        await submitter.submit(changed)
        assert _states(changed, await submitter.standing(changed)) == {IntentState.ACKED}
        assert _states(batch, await submitter.standing(batch)) == {IntentState.ABSENT}

    async def test_a_refusal_is_a_receipt_with_a_reason(
        self, submitter: Submitter, refused_batch: Batch, answers: Callable[[], int]
    ) -> None:
        refused_batch = await _ready(submitter, refused_batch)
        receipts = await submitter.submit(refused_batch)
        assert _states(refused_batch, receipts) == {IntentState.REFUSED}
        assert all(receipt.detail for receipt in receipts)
        assert answers() == 0
        assert IntentState.ACKED not in _states(refused_batch, await submitter.standing(refused_batch))

    async def test_an_empty_batch_leaves_no_trace(
        self, submitter: Submitter, batch: Batch, answers: Callable[[], int]
    ) -> None:
        assert list(await submitter.submit(replace(batch, intents=()))) == []
        assert answers() == 0


class _Answering:
    """Gives the same answer to every request; the addresses must be encrypted ones."""

    def __init__(self, answer: bytes | Exception) -> None:
        self._answer = answer

    async def post(
        self,
        url: str,
        body: Json,
        *,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> bytes:
        return await self.get(url, max_bytes=max_bytes, headers=headers)

    async def get(self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None) -> bytes:
        assert url.startswith("https://"), url
        assert max_bytes > 0
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _known(examples: list[Example], moment: datetime) -> int:
    for example in examples:
        assert example.resolution.resolved_at < moment, example
        assert example.question.ref == example.resolution.ref
        example.question.target(example.resolution.target)
        assert example.question.as_of is None or example.question.as_of < moment, example
    return len(examples)


def _states(batch: Batch, receipts: object) -> set[IntentState]:
    """Return the states after checking that there is one honest receipt per intent."""
    assert isinstance(receipts, list | tuple)
    assert all(isinstance(receipt, Receipt) for receipt in receipts)
    assert sorted(receipt.intent for receipt in receipts) == sorted(intent.id for intent in batch.intents)
    states = {receipt.state for receipt in receipts}
    assert states <= HONEST | {IntentState.ABSENT}
    return states


async def _ready(submitter: Submitter, batch: Batch) -> Batch:
    """Return the batch as it is written: with its requests, where the submitter makes them beforehand."""
    if not isinstance(submitter, Sealer):
        return batch
    return replace(batch, sealed=tuple(await submitter.seal(batch)))


def _changed(intent: Intent) -> Intent:
    moved = {
        key: Binary(prediction.probability / 2 or 0.5) if isinstance(prediction, Binary) else prediction
        for key, prediction in intent.predictions.items()
    }
    return replace(intent, id=f"{intent.id}-changed", predictions=moved)
