"""Trouble with engines is in the log: once a day for each engine and kind of trouble, in however many searches."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.core.errors import AuthenticationError, MalformedDataError, ServiceUnavailableError
from bot.forecasting.failures import describe_error
from bot.forecasting.tool_factory import ConfiguredSearchEngine
from bot.testing.research import ScriptedSearchEngine
from tests.unit.forecasting.research_fixture import CUTOFF, ResearchFixture, hit, market, trial_start

BACKDATED = market(as_of=CUTOFF)
NOT_SHOWN = "sk-nobody-may-see-this"


def told(logs: Sequence[Any]) -> list[tuple[str, str, str]]:
    return [(log["event"], log["who"], log["why"]) for log in logs if log["log_level"] == "warning"]


async def test_an_engine_that_fails_is_told_once_a_day_and_kind_of_trouble(research: ResearchFixture) -> None:
    expired, down, fine = (
        ScriptedSearchEngine(AuthenticationError("401: expired")),
        ScriptedSearchEngine(ServiceUnavailableError("503")),
        research.engine,
    )
    fine.hits = [hit("one")]
    engines = {"first": expired, "second": down, "third": fine}
    research.engines = [
        ConfiguredSearchEngine(name=name, engine=engine, bounds_dates=True) for name, engine in engines.items()
    ]
    context = await research.open_trial()
    with capture_logs() as logs:
        for query in ("a", "b", "c"):
            await context.use_tool("web_search", {"query": query})
    event = "search engine does not answer"
    assert told(logs) == [
        (event, "first", "AuthenticationError: 401: expired"),
        (event, "second", "ServiceUnavailableError: 503"),
    ]
    expired.hits, down.hits = ServiceUnavailableError("busy"), [hit("two")]
    with capture_logs() as logs:
        await context.use_tool("web_search", {"query": "d"})
    assert told(logs) == [(event, "first", "ServiceUnavailableError: busy")]
    research.clock.set_wall_clock(86_400)
    with capture_logs() as logs:
        await context.use_tool("web_search", {"query": "e"})
    assert told(logs) == [(event, "first", "ServiceUnavailableError: busy")]


async def test_all_trials_of_a_tool_factory_tell_of_one_trouble_once(research: ResearchFixture) -> None:
    research.engine.hits = AuthenticationError("401")
    tool_factory = research.tool_factory()
    with capture_logs() as logs:
        for scope in ("a", "b"):
            context = await tool_factory.open_trial(market(), trial_start(), charge=research.charge(scope))
            await context.use_tool("web_search", {"query": "lamp"})
    assert len(told(logs)) == 1


async def test_it_is_told_that_no_engine_fits_questions_of_earlier_days(research: ResearchFixture) -> None:
    research.engines = [ConfiguredSearchEngine(name="finder", engine=research.engine)]
    tool_factory = research.tool_factory()
    with capture_logs() as logs:
        for scope in ("a", "b"):
            for question in (BACKDATED, market()):
                charge = research.charge(f"{scope} {question.as_of}")
                await tool_factory.open_trial(question, trial_start(), charge=charge)
    ((event, who, why),) = told(logs)
    assert (event, who) == ("no search for questions of earlier days", "finder")
    assert "searches before a date" in why
    research.engines = None
    with capture_logs() as logs:
        await research.open_trial(BACKDATED)
    assert told(logs) == []


def test_our_errors_are_told_with_their_text_in_a_line_of_bounded_length() -> None:
    assert describe_error(ServiceUnavailableError("503:\n  try   later")) == "ServiceUnavailableError: 503: try later"
    assert describe_error(ServiceUnavailableError("")) == "ServiceUnavailableError"
    long = describe_error(MalformedDataError("<html>" * 10_000))
    assert long.startswith("MalformedDataError: <html>")
    assert len(long) < 600
    assert "\x1b" not in describe_error(MalformedDataError("a server that writes \x1b[31m red"))


def test_errors_of_others_are_told_without_their_text() -> None:
    with pytest.raises(ValueError, match=NOT_SHOWN) as caught:
        int(NOT_SHOWN)
    assert re.fullmatch(r"ValueError \(test_daily_warnings\.py:\d+\)", describe_error(caught.value))
    assert NOT_SHOWN not in describe_error(ExceptionGroup(NOT_SHOWN, [ValueError(NOT_SHOWN)]))
