"""Trouble with engines is in the log: once a day for each engine and kind of trouble, in however many searches."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.desk.troubles import in_words
from bot.desk.workshop import Engine
from bot.domain.forecast import Limits
from bot.errors import ContractError, Unauthorized, Unavailable
from bot.testing.research import ScriptedEngine
from tests.unit.desk.workbench import BEFORE_DATE, CUTOFF, Desk, hit, market

BACKDATED = market(as_of=CUTOFF)
NOT_SHOWN = "sk-nobody-may-see-this"


def told(logs: Sequence[Any]) -> list[tuple[str, str, str]]:
    return [(log["event"], log["who"], log["why"]) for log in logs if log["log_level"] == "warning"]


async def test_an_engine_that_fails_is_told_once_a_day_and_kind_of_trouble(desk: Desk) -> None:
    expired, down, fine = ScriptedEngine(Unauthorized("401: expired")), ScriptedEngine(Unavailable("503")), desk.engine
    fine.hits = [hit("one")]
    engines = {"first": expired, "second": down, "third": fine}
    desk.engines = [Engine(name=name, engine=engine, abilities=BEFORE_DATE) for name, engine in engines.items()]
    bench = await desk.bench()
    with capture_logs() as logs:
        for query in ("a", "b", "c"):
            await bench.use("web_search", {"query": query})
    event = "search engine does not answer"
    assert told(logs) == [(event, "first", "Unauthorized: 401: expired"), (event, "second", "Unavailable: 503")]
    expired.hits, down.hits = Unavailable("busy"), [hit("two")]
    with capture_logs() as logs:
        await bench.use("web_search", {"query": "d"})
    assert told(logs) == [(event, "first", "Unavailable: busy")]
    desk.clock.step(86_400)
    with capture_logs() as logs:
        await bench.use("web_search", {"query": "e"})
    assert told(logs) == [(event, "first", "Unavailable: busy")]


async def test_all_trials_of_a_workshop_tell_of_one_trouble_once(desk: Desk) -> None:
    desk.engine.hits = Unauthorized("401")
    workshop = desk.workshop()
    with capture_logs() as logs:
        for scope in ("a", "b"):
            bench = await workshop.bench(market(), charge=desk.charge(scope), cutoff=CUTOFF, limits=Limits())
            await bench.use("web_search", {"query": "lamp"})
    assert len(told(logs)) == 1


async def test_it_is_told_that_no_engine_fits_questions_of_earlier_days(desk: Desk) -> None:
    desk.engines = [Engine(name="finder", engine=desk.engine)]
    workshop = desk.workshop()
    with capture_logs() as logs:
        for scope in ("a", "b"):
            for question in (BACKDATED, market()):
                charge = desk.charge(f"{scope} {question.as_of}")
                await workshop.bench(question, charge=charge, cutoff=CUTOFF, limits=Limits())
    ((event, who, why),) = told(logs)
    assert (event, who) == ("no search for questions of earlier days", "finder")
    assert "searches before a date" in why
    desk.engines = None
    with capture_logs() as logs:
        await desk.bench(BACKDATED)
    assert told(logs) == []


def test_our_errors_are_told_with_their_text_in_a_line_of_bounded_length() -> None:
    assert in_words(Unavailable("503:\n  try   later")) == "Unavailable: 503: try later"
    assert in_words(Unavailable("")) == "Unavailable"
    long = in_words(ContractError("<html>" * 10_000))
    assert long.startswith("ContractError: <html>")
    assert len(long) < 600
    assert "\x1b" not in in_words(ContractError("a server that writes \x1b[31m red"))


def test_errors_of_others_are_told_without_their_text() -> None:
    with pytest.raises(ValueError, match=NOT_SHOWN) as caught:
        int(NOT_SHOWN)
    assert re.fullmatch(r"ValueError \(test_troubles\.py:\d+\)", in_words(caught.value))
    assert NOT_SHOWN not in in_words(ExceptionGroup(NOT_SHOWN, [ValueError(NOT_SHOWN)]))
