"""The mistakes that authors of venues typically make: each fails the kit with words that name it."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from bot.api import BinaryOutcome, Outcome, PluginContext, PluginSettings, RequestRejectedError, VenueSpec, VoidOutcome
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from bot.testing.question_list_contract import ExpectedQuestion, QuestionListContract
from bot.testing.venue_contracts import VenueContract
from tests.contracts import ferry_venue as ferry
from tests.unit.testing.correct_venue import checks_of, run_check


class TestFerryReading(VenueContract):
    spec = ferry.ferry_spec()
    settings = PluginSettings()
    remote_settings: ClassVar[PluginSettings] = PluginSettings()
    pages = ferry.list_pages(ferry.MARKETS)


class TestFerryList(QuestionListContract):
    spec: ClassVar[VenueSpec[Any]] = ferry.ferry_spec()
    settings = PluginSettings()
    pages = ferry.list_pages(ferry.MARKETS)
    outcome_pages = ferry.list_pages(ferry.MARKETS | ferry.OVER)
    expected: ClassVar[dict[str, ExpectedQuestion]] = {
        "skye": (0.375, ferry.CLOSES, "binary"),
        "iona": (0.8, ferry.CLOSES, "binary"),
        "mull": (0.12, ferry.CLOSES, "binary"),
        "first": ({"Ann": 0.6, "Bob": 0.3, "Cat": 0.1}, ferry.CLOSES, "choice"),
        "delay": (None, ferry.CLOSES, "curve"),
    }
    outcomes: ClassVar[dict[str, Outcome]] = {
        "skye": BinaryOutcome(1.0),
        "iona": BinaryOutcome(0.0),
        "mull": VoidOutcome("the venue cancelled it"),
    }
    events: ClassVar[dict[str, str]] = {"skye": "north", "iona": "south", "mull": "south", "first": "race"}
    details: ClassVar[dict[str, dict[str, object]]] = {
        "skye": {"category": "ferries", "spread": 0.04, "criteria": "harbour master"},
        "delay": {"range": (0.0, 60.0), "unit": "minutes", "resolves_at": ferry.RESOLVES},
    }
    cursor_field = "next"
    max_pause_s = 0.03


LISTED = "all_expected_questions_are_listed_and_no_others"
PRICES = "prices_are_those_of_the_page"
TIMES = "closing_times_are_those_of_the_page"
DETAILS = "details_are_those_of_the_page"
OUTCOMES = "outcomes_are_those_of_the_page"
RECORD = "a_record_that_cannot_be_read_costs_that_record_only"
# The check, the fault, and words of the message that name it.
LIST_MISTAKES: list[tuple[str, type, str]] = [
    (PRICES, ferry.PriceOfOtherSide, "price of the other side"),
    (PRICES, ferry.DividedTwice, "divided by 100 twice"),
    (PRICES, ferry.PercentAsProbability, "not percents"),
    (PRICES, ferry.OptionsShifted, "which option is read"),
    (PRICES, ferry.LastOptionsSwapped, "option 'Bob'.*which option is read"),
    (PRICES, ferry.NoPrice, "Is its price read"),
    (LISTED, ferry.FirstPageOnly, "pages after the first"),
    (LISTED, ferry.ResolvedAsOpen, "closed or resolved"),
    (LISTED, ferry.SpreadInCents, "a price or spread outside"),
    (LISTED, ferry.DuplicateKeys, "more than once"),
    (LISTED, ferry.OtherVenueName, "under the venue steamer"),
    ("the_pages_are_more_than_one", ferry.FirstPageOnly, "second page"),
    ("no_page_is_read_twice", ferry.FirstPageTwice, "Take the cursor of the page that was just read"),
    ("a_record_on_two_pages_is_listed_once", ferry.ListedForgotten, "remember the keys that were listed"),
    ("a_second_listing_shows_the_same", ferry.ListedForEver, "but not the second"),
    ("a_second_listing_shows_the_same", ferry.OutcomesOnce, "only the first time"),
    (TIMES, ferry.NaiveTimes, "Times need a zone"),
    (TIMES, ferry.ClosesWhenResolved, "Which field of the record says when trading ends"),
    (TIMES, ferry.LocalTimes, "-5 hours off"),
    ("times_are_plausible", ferry.SecondsAsMilliseconds, "seconds as milliseconds"),
    ("times_are_plausible", ferry.OpensForEver, "though trading ended at"),
    ("times_are_plausible", ferry.PricedWhenClosed, "when the price was read"),
    (DETAILS, ferry.CategoryForgotten, "the cap of that name never binds"),
    (DETAILS, ferry.RulesForgotten, "into Question.criteria"),
    (DETAILS, ferry.HalfSpread, "the best ask less the best bid"),
    (DETAILS, ferry.RangeFromOne, "the lowest and highest value"),
    ("kinds_are_those_of_the_page", ferry.ChoiceAsBinary, "read as binary, expected choice"),
    ("events_are_named_so_that_their_cap_binds", ferry.EventForgotten, "the cap of an event never binds"),
    (OUTCOMES, ferry.OutcomeInverted, "outcome of the other side"),
    (OUTCOMES, ferry.CancelledAsNo, "the venue cancelled it, which is VoidOutcome"),
    (OUTCOMES, ferry.OutcomesTwice, "two outcomes are read of one target"),
    (OUTCOMES, ferry.OpenAsResolved, "open question taken for resolved"),
    (OUTCOMES, ferry.FirstOutcomeOnly, "ask for all that are pending"),
    ("a_question_that_is_gone_costs_no_other_outcome", ferry.UnguardedOutcomes, "ended all outcomes"),
    ("an_outage_is_not_taken_for_open_questions", ferry.OutageSwallowed, "an outage looks as if nothing were resolved"),
    (RECORD, ferry.UnguardedRecords, "ended the whole listing"),
    (RECORD, ferry.PageInOneTry, "not its page"),
    ("pages_without_an_end_are_not_followed_for_ever", ferry.EndlessPages, "bound the number of pages"),
    ("reading_does_not_hold_the_event_loop", ferry.BlockingReader, "time.sleep"),
]


@pytest.mark.parametrize(
    ("check", "fault", "words"), LIST_MISTAKES, ids=[f"{fault.__name__} {check}" for check, fault, _ in LIST_MISTAKES]
)
async def test_a_mistake_in_a_reader_is_named(
    check: str, fault: type[ferry.FerryReader], words: str, tmp_path: Any
) -> None:
    kit = type("Kit", (TestFerryList,), {"spec": ferry.ferry_spec(fault)})()
    place = PluginContext(clock=FakeClock(), http=FakeHttpClient(kit.pages), folder=tmp_path)
    later = replace(place, http=FakeHttpClient(kit.outcome_pages))
    with pytest.raises((AssertionError, pytest.fail.Exception), match=words):
        await run_check(kit, check, context=place, outcome_context=later)


async def test_swallowed_errors_are_named(tmp_path: Any) -> None:
    kit = type("Kit", (TestFerryReading,), {"spec": ferry.ferry_spec(ferry.SwallowedErrors)})()
    place = PluginContext(clock=FakeClock(), http=FakeHttpClient({}), folder=tmp_path)
    with pytest.raises((AssertionError, pytest.fail.Exception), match="swallow"):
        await run_check(
            kit, "errors_of_the_transport_keep_their_meaning", context=place, error=RequestRejectedError("400")
        )


def test_every_check_of_the_list_has_a_mistake() -> None:
    assert {check for check, _, _ in LIST_MISTAKES} == set(checks_of(QuestionListContract))
