"""Contract kits for venues, round archives, closing planners and question readers.

Tests that a plugin's test module inherits.
"""

# ruff: noqa: S101 - pytest is made of assert
import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from bot.core.errors import (
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
)
from bot.core.interfaces import ClosingPlanner, QuestionReader, RoundArchive
from bot.core.learning import TrainingExample
from bot.core.orders import ClosingProposal, OrderSide
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, VoidOutcome
from bot.core.plugin_specs import PluginContext, PluginSettings, VenueSpec
from bot.core.predictions import BinaryShape, ChoiceShape, CurveShape
from bot.core.questions import Question, describe_changes
from bot.core.values import Json
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.spec_contract import TRANSPORT_ERRORS, PluginSpecContract

OUTCOME_TYPES = {BinaryShape: BinaryOutcome, ChoiceShape: ChoiceOutcome, CurveShape: NumericOutcome}


class VenueContract(PluginSpecContract):
    """What every venue must do.

    ``settings`` reads something that does not change during the test; ``pages`` is the web it reads, by address;
    ``ignored_parameter`` is the parameter of addresses that is ignored there, "" for none; ``remote_settings`` are
    settings that read over HTTP, None for a venue that never does.
    """

    spec: ClassVar[VenueSpec[Any]]
    remote_settings: ClassVar[PluginSettings | None] = None
    pages: ClassVar[Mapping[str, bytes | Exception]] = {}
    ignored_parameter: ClassVar[str] = ""

    @pytest.fixture
    def context(self, tmp_path: Path) -> PluginContext:
        return PluginContext(
            clock=FakeClock(), http=FakeHttpClient(self.pages, idle=self.ignored_parameter), folder=tmp_path
        )

    def test_secrets_are_hidden(self) -> None:
        secret = "do-not-show-me"  # noqa: S105 - looked for in what is printed
        names = [name for name, field in type(self.settings).model_fields.items() if "Secret" in repr(field.annotation)]
        filled = self.settings.model_copy(update={name: SecretStr(secret) for name in names})
        assert secret not in f"{filled!r} {filled} {filled.model_dump_json()}", "a secret of the settings is printed"

    async def test_every_question_is_listed_once_under_the_name_of_the_venue(self, context: PluginContext) -> None:
        listed = await self._questions(context)
        assert listed, "the reader lists nothing: give `pages`, or override the fixture context, with open questions"
        keys = [question.ref.key for question in listed]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        assert not twice, f"listed more than once: {twice}. Is the key unique at the venue, and no page read twice?"
        venues = {question.ref.venue for question in listed}
        assert venues == {self.spec.name}, f"questions are listed under {sorted(venues)}, not {self.spec.name!r}"

    async def test_windows_open_before_they_close(self, context: PluginContext) -> None:
        for question in await self._questions(context):
            if question.opens_at is not None and question.closes_at is not None:
                assert question.opens_at < question.closes_at, (
                    f"{question.ref} closes at {question.closes_at}, before it opens at {question.opens_at}: are the "
                    "fields of the two times mixed up?"
                )

    async def test_a_reopened_reader_reads_the_same(self, context: PluginContext) -> None:
        first, second = await self._questions(context), await self._questions(context)
        assert first == second, f"two readers of the same pages list different questions: {_differing(first, second)}"

    async def test_a_reader_cannot_submit(self, context: PluginContext) -> None:
        async with self.spec.reader(self.settings, context) as venue:
            assert not hasattr(venue, "submit"), "the reader has a method submit: only the writer may have one"

    async def test_nothing_pending_gives_no_outcome(self, context: PluginContext) -> None:
        async with self.spec.reader(self.settings, context) as venue:
            found = [one.ref.key async for one in venue.resolutions(())]
        assert found == [], f"nothing is pending, but resolutions(()) yields {found}: yield only what is asked for"

    async def test_outcomes_answer_pending_questions_in_their_own_shape(self, context: PluginContext) -> None:
        asked = {question.ref: question for question in (await self._questions(context))[::2]}
        async with self.spec.reader(self.settings, context) as venue:
            async for found in venue.resolutions(tuple(asked)):
                assert found.ref in asked, f"resolutions() yields {found.ref}, which is not pending"
                question = asked[found.ref]
                targets = [target.key for target in question.targets]
                assert found.target in targets, f"{found.ref} has no target {found.target!r}, but {targets}"
                assert isinstance(found.outcome, OUTCOME_TYPES[type(question.shape)] | VoidOutcome), (
                    f"{found.ref} is a {question.shape.kind}, but its outcome is {found.outcome}"
                )

    @pytest.mark.parametrize("error", TRANSPORT_ERRORS, ids=lambda error: type(error).__name__)
    async def test_errors_of_the_transport_keep_their_meaning(
        self, context: PluginContext, error: FoxcastError
    ) -> None:
        try:
            await self._read_remotely(replace(context, http=_FixedHttpsClient(error)))
        except type(error):
            return
        pytest.fail(
            f"context.http raised {type(error).__name__} and the reader swallowed it: let it pass, else a venue that "
            "cannot be read looks like one without questions"
        )

    @pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[]", b"{}", b"<html></html>", b"[" * 100_000])
    async def test_an_odd_answer_is_a_contract_error(self, context: PluginContext, body: bytes) -> None:
        try:
            await self._read_remotely(replace(context, http=_FixedHttpsClient(body)))
        except MalformedDataError:
            return
        pytest.fail(
            f"the venue answered {body[:20]!r}, and the reader took it for a list: raise MalformedDataError for an "
            "answer that has not the documented form"
        )

    async def _questions(self, context: PluginContext) -> list[Question]:
        async with self.spec.reader(self.settings, context) as venue:
            return [question async for question in venue.questions()]

    async def _read_remotely(self, context: PluginContext) -> None:
        if self.remote_settings is None:
            pytest.skip("this venue reads nothing over HTTP")
        async with self.spec.reader(self.remote_settings, context) as venue:
            found = [question async for question in venue.questions()]
        if not found:
            pytest.fail(
                "the reader swallowed what went wrong and lists nothing: let errors of context.http pass, and raise "
                "MalformedDataError for an answer that is not what the venue documents"
            )


class ClosingPlannerContract:
    """What every planner that sells positions must do; the proposal is about a position that can be sold."""

    @pytest.fixture
    async def planner(self) -> ClosingPlanner:
        raise NotImplementedError

    @pytest.fixture
    async def proposal(self) -> ClosingProposal:
        raise NotImplementedError

    async def test_it_says_that_it_can(self, planner: ClosingPlanner) -> None:
        assert isinstance(planner, ClosingPlanner), "the planner has no plan_closing"

    async def test_no_more_than_the_position_is_sold_and_nothing_is_paid(
        self, planner: ClosingPlanner, proposal: ClosingProposal
    ) -> None:
        plan = await planner.plan_closing(proposal)
        order, held = plan.order, proposal.position
        assert order is not None, f"no order, though the position can be sold: {plan.why}"
        assert (order.contract, order.leg, order.side) == (held.contract, held.leg, OrderSide.SELL), (
            f"held is {held.leg} of {held.contract}, but the order is to {order.side} {order.leg} of {order.contract}: "
            "close a position by selling the same leg"
        )
        assert 0.0 < order.shares <= held.shares, f"it sells {order.shares:g} shares of {held.shares:g} that are held"
        assert order.cost == 0.0, f"a sale costs nothing, but Order.cost is {order.cost:g}"
        assert order.limit <= order.expected, (
            f"the limit {order.limit:g} is above the expected price {order.expected:g}, so nobody buys: round the "
            "limit of a sale down, and read the bids for that leg"
        )
        assert order.currency == proposal.account.currency, (
            f"the order is in {order.currency}, but the account in {proposal.account.currency}"
        )

    async def test_it_needs_no_cash(self, planner: ClosingPlanner, proposal: ClosingProposal) -> None:
        rich = await planner.plan_closing(proposal)
        poor = await planner.plan_closing(replace(proposal, account=replace(proposal.account, cash=0.0)))
        assert poor.order == rich.order, f"without cash the sale is {poor.order}, with cash {rich.order}"

    async def test_half_of_it_can_be_sold(self, planner: ClosingPlanner, proposal: ClosingProposal) -> None:
        half = replace(proposal.position, shares=proposal.position.shares / 2)
        order = (await planner.plan_closing(replace(proposal, position=half))).order
        assert order is not None, "no order for half of the position, though all of it can be sold"
        assert order.shares <= half.shares, f"it sells {order.shares:g} shares, but only {half.shares:g} are held"


class ArchiveContract:
    """What every archive must do.

    The subclass gives the fixture ``folder`` (a Path): at least two rounds, with outcomes known before
    ``known_before``.
    """

    spec: ClassVar[VenueSpec[Any]]
    settings: ClassVar[PluginSettings]
    known_before: ClassVar[datetime]

    @pytest.fixture
    def archive(self, folder: Path) -> RoundArchive:
        assert self.spec.archive is not None, "VenueSpec.archive is not set"
        return self.spec.archive(self.settings, folder)

    def test_rounds_come_oldest_first_and_once(self, archive: RoundArchive) -> None:
        keys = list(archive.round_keys())
        moments = [archive.read_round(key).as_of for key in keys]
        assert len(keys) > 1, f"the kit needs two rounds or more, and there are {keys}"
        assert len(set(keys)) == len(keys), f"round_keys names a round twice: {keys}"
        assert moments == sorted(moments), f"round_keys is not oldest first: {[str(moment) for moment in moments]}"

    def test_a_round_holds_its_own_questions_and_their_outcomes(self, archive: RoundArchive) -> None:
        for key in archive.round_keys():
            found = archive.read_round(key)
            targets = {(question.ref, target.key) for question in found.questions for target in question.targets}
            outcomes = [(resolution.ref, resolution.target) for resolution in found.resolutions]
            assert found.key == key, f"read_round({key!r}) returns the round {found.key!r}"
            strange = sorted(f"{ref} {target}" for ref, target in set(outcomes) - targets)
            assert not strange, f"round {key} has outcomes of what it does not ask: {strange}"
            assert len(set(outcomes)) == len(outcomes), f"round {key} has two outcomes of one target"

    def test_an_unknown_round_is_not_found(self, archive: RoundArchive) -> None:
        with pytest.raises(NotFoundError, match="no-such-round"):
            archive.read_round("no-such-round")

    def test_examples_were_known_strictly_before_the_moment(self, archive: RoundArchive) -> None:
        moments = [*(archive.read_round(key).as_of for key in archive.round_keys()), self.known_before]
        known = [_count_known(list(archive.examples(moment)), moment) for moment in moments]
        assert known == sorted(known), f"fewer examples are known later than earlier: {known}"
        assert known[-1] > 0, f"no outcome is known before {self.known_before}, which `known_before` promises"

    def test_nothing_was_known_long_ago(self, archive: RoundArchive) -> None:
        found = list(archive.examples(datetime(1970, 1, 2, tzinfo=UTC)))
        assert found == [], (
            f"{len(found)} examples were known in 1970: leave out what was resolved at or after the moment"
        )

    def test_a_sheet_that_is_not_there_is_not_found(self, archive: RoundArchive, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError):
            archive.read_forecast_file(tmp_path / "nothing.json")

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{}", b"\x1f\x8b\x08 cut short"])
    def test_a_sheet_of_another_form_is_refused(self, archive: RoundArchive, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "odd.json"
        path.write_bytes(content)
        with pytest.raises(MalformedDataError):
            archive.read_forecast_file(path)


class _FixedHttpsClient:
    """Gives the same answer to every request; the addresses must use https."""

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
        assert url.startswith("https://"), f"the reader asks {url} without https"
        assert max_bytes > 0, f"the reader asks {url} for at most {max_bytes} bytes"
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _count_known(examples: list[TrainingExample], moment: datetime) -> int:
    for example in examples:
        asked, found = example.question, example.resolution
        assert found.resolved_at < moment, f"{found.ref} was known at {found.resolved_at}, not before {moment}"
        assert asked.ref == found.ref, f"an example has the question {asked.ref} and the outcome of {found.ref}"
        targets = [target.key for target in asked.targets]
        assert found.target in targets, f"{found.ref} has no target {found.target!r}, but {targets}"
        assert asked.as_of is None or asked.as_of < moment, f"{asked.ref} was asked at {asked.as_of}, after {moment}"
    return len(examples)


# Names that no venue has: they may be looked up only at the venue, and must not cause a crash.
ODD_NAMES = (
    "",
    "   ",
    "no-such-question-exists-here",
    "../../etc/passwd",
    "?x=1#y",
    "https://evil.example/questions/1",
    "https://evil.example\\@127.0.0.1/1",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "\x00",
    "\ud800",
    "-1",
    "9" * 400,
    "%2e%2e%2f",
    "x" * 5000,
)


class QuestionReaderContract:
    """What every reader that finds questions must do.

    The subclass gives the fixtures ``finder`` and ``reached`` (a function that returns the hosts that were requested so
    far) and ``hosts`` (those of the venue); ``unfit`` is the name of something that exists and cannot be forecast, None
    where there is no such thing.
    """

    # As above.
    spec: ClassVar[VenueSpec[Any]]

    @pytest.fixture
    def unfit(self) -> str | None:
        return None

    async def test_a_listed_question_is_found_by_its_key(self, finder: QuestionReader) -> None:
        for question in await _list_questions(finder):
            found = await finder.find_question(question.ref.key)
            _require_same(found, question)

    async def test_a_listed_question_is_found_by_its_address(self, finder: QuestionReader) -> None:
        listed = await _list_questions(finder)
        for question in listed:
            if question.url is None:
                continue
            if sum(one.url == question.url for one in listed) > 1:
                # For the address of several questions the error lists their names.
                with pytest.raises(RequestRejectedError, match=re.escape(question.ref.key)):
                    await finder.find_question(question.url)
                continue
            _require_same(await finder.find_question(question.url), question)

    async def test_blanks_around_a_name_do_not_matter(self, finder: QuestionReader) -> None:
        question = (await _list_questions(finder))[0]
        found = (await finder.find_question(f"  {question.ref.key}\n")).ref
        assert found == question.ref, f"with blanks around it, the name of {question.ref} finds {found}: strip it"

    @pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:40]))
    async def test_an_odd_name_is_not_found(self, finder: QuestionReader, name: str) -> None:
        with pytest.raises((NotFoundError, RequestRejectedError)):
            await finder.find_question(name)

    @pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:40]))
    async def test_no_name_leads_to_another_host(
        self, finder: QuestionReader, name: str, hosts: frozenset[str], reached: Callable[[], frozenset[str]]
    ) -> None:
        # The other check covers the errors.
        with contextlib.suppress(Exception):
            await finder.find_question(name)
        others = sorted(reached() - hosts)
        assert not others, f"the name {name[:40]!r} leads to {others}: take only the id out of an address, and quote it"

    async def test_what_cannot_be_forecast_is_rejected_with_a_reason(
        self, finder: QuestionReader, unfit: str | None
    ) -> None:
        if unfit is not None:
            try:
                found = await finder.find_question(unfit)
            except RequestRejectedError as error:
                reason = str(error)
            else:
                pytest.fail(
                    f"find_question({unfit!r}) returns {found.ref}, which cannot be forecast: raise "
                    "RequestRejectedError with the state that it is in"
                )
            assert reason.strip(), "RequestRejectedError has no reason"


async def _list_questions(finder: QuestionReader) -> list[Question]:
    found = [question async for question in finder.questions()]
    assert found, "the reader lists nothing: the fixture `finder` needs open questions"
    return found


def _require_same(found: Question, listed: Question) -> None:
    changes = [*describe_changes(listed, found), *_differing([_without_crowd(listed)], [_without_crowd(found)])]
    assert not changes, f"find_question reads {listed.ref} differently from the list: {'; '.join(changes)}"


def _differing(first: Sequence[Question], second: Sequence[Question]) -> list[str]:
    """Return the names of the fields that differ, and of the questions that only one list has."""
    one, other = ({question.ref: question for question in questions} for questions in (first, second))
    single = [f"only one has {ref}" for ref in sorted(one.keys() ^ other.keys())]
    return single + [
        f"{field.name} of {ref}"
        for ref in sorted(one.keys() & other.keys())
        for field in dataclasses.fields(Question)
        if getattr(one[ref], field.name) != getattr(other[ref], field.name)
    ]


def _without_crowd(question: Question) -> Question:
    """Return the content of a question, without what changes between two readings."""
    return replace(question, crowd=None)
