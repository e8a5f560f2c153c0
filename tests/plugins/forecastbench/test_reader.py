import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from bot.api import BinaryOutcome, ConfigError, MalformedDataError, NotFoundError, PluginContext, Question, VenueReader
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.forecastbench.file_format import question_ref
from plugins.forecastbench.reader import open_reader
from plugins.forecastbench.round_files import sample_folder
from plugins.forecastbench.settings import ForecastBenchSettings
from tests.plugins.forecastbench.records import market, question_file, resolution_file, row, series

BASE = "https://example.org/datasets"
SAMPLE_ROUNDS = ["2026-05-24", "2026-06-07", "2026-06-21"]


@asynccontextmanager
async def opened(
    pages: Mapping[str, bytes | Exception] | None = None, **settings: object
) -> AsyncIterator[tuple[VenueReader, FakeHttpClient]]:
    http = FakeHttpClient({f"{BASE}/{path}": page for path, page in (pages or {}).items()})
    context = PluginContext(clock=FakeClock(), http=http, folder=Path("unused"))
    async with open_reader(ForecastBenchSettings.model_validate(settings), context) as venue:
        yield venue, http


async def listed(pages: Mapping[str, bytes | Exception] | None = None, **settings: object) -> list[Question]:
    async with opened(pages, **settings) as (venue, _):
        return [question async for question in venue.questions()]


def batches(questions: list[Question]) -> list[str]:
    return list(dict.fromkeys(question.batch or "" for question in questions))


async def test_the_newest_round_is_read_by_default() -> None:
    assert batches(await listed()) == ["2026-06-21"]


async def test_all_rounds_are_read_newest_first() -> None:
    assert batches(await listed(rounds="all")) == SAMPLE_ROUNDS[::-1]


async def test_named_rounds_are_read() -> None:
    assert batches(await listed(rounds=["2026-05-24", "2026-06-07"])) == ["2026-06-07", "2026-05-24"]


async def test_a_round_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFoundError, match="2026-06-08-llm"):
        await listed(rounds=["2026-06-08"])


async def test_a_folder_without_rounds_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="name the folder"):
        await listed(source=str(tmp_path))


async def test_an_empty_folder_has_no_newest_round(tmp_path: Path) -> None:
    (tmp_path / "question_sets").mkdir()
    with pytest.raises(NotFoundError, match="holds no"):
        await listed(source=str(tmp_path))


async def test_one_file_is_a_round_with_the_outcomes_beside_it(tmp_path: Path) -> None:
    shutil.copytree(sample_folder(), tmp_path / "data")
    source = str(tmp_path / "data" / "question_sets" / "2026-05-24-llm.json")
    async with opened(source=source, rounds="all") as (venue, _):
        questions = [question async for question in venue.questions()]
        outcomes = [found async for found in venue.resolutions([question.ref for question in questions])]
    assert batches(questions) == ["2026-05-24"]
    assert len(outcomes) == 53


async def test_one_file_is_no_other_round() -> None:
    source = str(sample_folder() / "question_sets" / "2026-05-24-llm.json")
    with pytest.raises(NotFoundError, match="is the round of 2026-05-24"):
        await listed(source=source, rounds=["2026-06-07"])


async def test_published_rounds_are_read_gzipped(shared: Path) -> None:
    questions = await listed(source=str(shared / "data" / "forecastbench"))
    assert batches(questions) == ["2026-04-26"]
    assert len(questions) == 500


def page(value: object) -> bytes:
    return json.dumps(value).encode()


async def test_the_link_to_the_newest_set_is_followed_as_a_name() -> None:
    link = b"2026-03-01-llm.json"
    assert len(link) == 19
    pages = {
        "question_sets/latest-llm.json": link,
        "question_sets/2026-03-01-llm.json": page(question_file(market(), series())),
    }
    async with opened(pages, source=BASE + "/") as (venue, http):
        assert len([question async for question in venue.questions()]) == 2
    assert http.requested_urls == [f"{BASE}/{path}" for path in pages]


async def test_a_link_that_a_server_resolves_itself_is_as_good() -> None:
    content = page(question_file(market()))
    pages = {"question_sets/latest-llm.json": content, "question_sets/2026-03-01-llm.json": content}
    assert batches(await listed(pages, source=BASE)) == ["2026-03-01"]


@pytest.mark.parametrize(
    "link",
    [
        b"../../etc/passwd",
        b"https://elsewhere.example/2026-03-01-llm.json",
        b"2026-03-01-human.json",
        b"2026-13-01-llm.json",
        b"2026-03-01-llm.json\n2026-03-15-llm.json",
        b"",
    ],
)
async def test_a_link_to_anything_else_is_not_followed(link: bytes) -> None:
    async with opened({"question_sets/latest-llm.json": link}, source=BASE) as (venue, http):
        with pytest.raises(MalformedDataError):
            await anext(aiter(venue.questions()))
    assert http.requested_urls == [f"{BASE}/question_sets/latest-llm.json"]


async def test_an_address_cannot_list_its_rounds() -> None:
    with pytest.raises(ConfigError, match="list of due dates"):
        await listed(source=BASE, rounds="all")


async def test_outcomes_come_from_the_address_for_pending_questions_only() -> None:
    due = date(2026, 3, 1)
    rows = (row(), row(id="m2", resolved_to=0), row(id="m3", resolved=False, resolved_to=0.7))
    pages = {"resolution_sets/2026-03-01_resolution_set.json": page(resolution_file(*rows))}
    pending = [
        question_ref(due, "manifold", "m1"),
        question_ref(due, "manifold", "m3"),
        question_ref(due, "fred", "CPIX"),
    ]
    async with opened(pages, source=BASE) as (venue, _):
        outcomes = [found async for found in venue.resolutions(pending)]
    assert [(found.ref, found.outcome) for found in outcomes] == [(pending[0], BinaryOutcome(1.0))]


async def test_a_round_without_outcomes_yet_does_not_hold_up_the_others() -> None:
    pages = {"resolution_sets/2026-03-01_resolution_set.json": page(resolution_file(row()))}
    pending = [question_ref(date(2026, 2, 15), "manifold", "m1"), question_ref(date(2026, 3, 1), "manifold", "m1")]
    async with opened(pages, source=BASE) as (venue, http):
        assert len([found async for found in venue.resolutions(pending)]) == 1
    assert len(http.requested_urls) == 2


async def test_a_folder_without_outcomes_of_a_round_has_none() -> None:
    async with opened() as (venue, _):
        assert [found async for found in venue.resolutions([question_ref(date(2026, 3, 1), "manifold", "m1")])] == []


async def test_what_was_left_out_is_logged_once() -> None:
    content = page(question_file(market(), market(id=5), market(id=["m1", "m2"])))
    pages = {"question_sets/2026-03-01-llm.json": content}
    async with opened(pages, source=BASE, rounds=["2026-03-01"]) as (venue, _):
        with capture_logs() as logs:
            for _ in range(2):
                assert len([question async for question in venue.questions()]) == 1
    assert [(entry["event"], entry["combinations"], entry["bad"]) for entry in logs] == [("questions ignored", 1, 1)]


@pytest.mark.parametrize(
    "settings",
    [
        {"source": "http://example.org"},
        {"rounds": "newest"},
        {"rounds": []},
        {"rounds": ["2026-02-30"]},
        {"number": 4},
        {"organization": "a.b"},
        {"organization": "../a"},
        {"model": ""},
        {"question_sets": "other"},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ForecastBenchSettings.model_validate(settings)
