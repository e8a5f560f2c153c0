"""The reader in front of the fake site, on a real socket."""

import asyncio
import json
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr

from bot.api import (
    AuthenticationError,
    ChoicePrediction,
    ChoiceShape,
    CurveShape,
    MalformedDataError,
    NotFoundError,
    PluginContext,
    Question,
    QuestionReader,
    QuestionRef,
    RequestRejectedError,
    ServiceUnavailableError,
)
from bot.core.clock import SeededRandom
from bot.net.rate_limit import RateLimiter
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.metaculus_world import question_scaling
from bot.testing.clock import START, FakeClock
from bot.testing.http import FakeHttpClient
from plugins.metaculus import rate_limits
from plugins.metaculus.api_client import PAGE_SIZE, MetaculusClient, api_url
from plugins.metaculus.question_names import parse_question_name, question_ref, split_question_ref
from plugins.metaculus.reader import MetaculusReader
from plugins.metaculus.settings import MetaculusSettings
from tests.plugins.metaculus.conftest import OTHER, TOKEN, MetaculusFixture
from tests.plugins.metaculus.records import group, numeric, post, question

SETTINGS = MetaculusSettings(token=SecretStr(TOKEN), tournaments=("sample-aib",))
LIST = api_url(SETTINGS, "posts/", {"tournaments": "sample-aib", "statuses": "open", "with_cp": "true", "limit": 100})


def page(*posts: object) -> bytes:
    """A page of a list; ``next`` is never null."""
    return json.dumps({"next": LIST, "previous": None, "results": list(posts)}).encode()


async def read(
    folder: Path, pages: dict[str, bytes | Exception], settings: MetaculusSettings = SETTINGS
) -> tuple[list[Question], list[str]]:
    http = FakeHttpClient(pages)
    venue = MetaculusReader(settings, PluginContext(clock=FakeClock(), http=http, folder=folder))
    return [one async for one in venue.questions()], http.requested_urls


def ref(there: Any) -> QuestionRef:
    return question_ref(there.post, there.id)


async def test_questions_of_every_kind_are_read(site: MetaculusFixture) -> None:
    world = site.fake.world
    rain = world.add_question("Rain?")
    colour = world.add_question("Colour?", type="multiple_choice", options=["Red", "Green", "Other"])
    world.add_question(
        "How much?", type="numeric", scaling=question_scaling(1.0, 1000.0, zero_point=0.0, open_upper=True)
    )
    world.add_question("Goals?", type="discrete", scaling=question_scaling(0.0, 9.0, count=10, open_upper=True))
    low, high = START.timestamp(), (START + timedelta(days=365)).timestamp()
    world.add_question("When?", type="date", scaling=question_scaling(low, high, open_upper=True))
    world.add_group("Countries?", ["France", "Spain"])
    world.add_conditional(rain, world.add_question("Snow?"))
    world.add_notebook("News")
    found = {one.title: one for one in await site.questions()}
    assert len(found) == 10
    assert found["Colour?"].shape == ChoiceShape(options=tuple(colour.options or ()))
    assert {len(one.shape.grid) for one in found.values() if isinstance(one.shape, CurveShape)} == {201, 11}
    assert found["Countries? (Spain)"].facts["form"] == "group"
    assert found["Rain? (No) \u2192 Snow?"].facts["form"] == "conditional"
    assert isinstance(site.reader, QuestionReader)


async def test_mc_r4_the_open_list_is_read_one_tournament_a_call(site: MetaculusFixture) -> None:
    site.fake.world.add_tournament("minibench", "MiniBench")
    await site.set(tournaments=("sample-aib", "minibench")).questions()
    asked = [heard for heard in site.fake.requests if heard.path == "/api/posts/"]
    assert [parse_qs(heard.query) for heard in asked] == [
        {"tournaments": [name], "statuses": ["open"], "with_cp": ["true"], "limit": ["100"]}
        for name in ("sample-aib", "minibench")
    ]


async def test_mc_r4_a_bad_slug_hides_no_other_tournament(site: MetaculusFixture) -> None:
    site.fake.world.add_question("Rain?")
    assert [one.title for one in await site.set(tournaments=("nope", "sample-aib")).questions()] == ["Rain?"]
    with pytest.raises(RequestRejectedError, match=r"tournament 'nope'.*venues\.metaculus\.settings"):
        await site.set(tournaments=("nope",)).questions()


async def test_mc_r4_a_tournament_that_fails_is_said_after_the_others_were_read(site: MetaculusFixture) -> None:
    site.fake.world.add_question("Rain?")
    site.fake.world.add_tournament("minibench", "MiniBench")
    site.fake.faults.schedule(RequestFault.ERROR_BEFORE, method="GET", times=3)
    reading = site.set(tournaments=("minibench", "sample-aib")).reader.questions()
    assert (await anext(reading)).title == "Rain?"
    with pytest.raises(ServiceUnavailableError):
        await anext(reading)


async def test_mc_r2_every_path_ends_in_a_slash_and_no_read_is_redirected(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question("Rain?")
    await site.questions()
    await site.reader.find_question(ref(rain).key)
    assert [one async for one in site.reader.resolutions([ref(rain)])] == []
    assert site.fake.requests
    assert all(heard.path.endswith("/") for heard in site.fake.requests)
    with pytest.raises(ValueError, match="slash"):
        api_url(SETTINGS, "posts")


async def test_mc_r3_and_mc_r7_the_headers_are_the_documented_ones(site: MetaculusFixture) -> None:
    await site.questions()
    assert site.fake.requests
    for heard in site.fake.requests:
        assert heard.headers["authorization"] == f"Token {TOKEN}"
        assert heard.headers["accept-language"] == "en"


async def test_mc_r3_the_token_is_in_no_error_and_no_log(
    site: MetaculusFixture, caplog: pytest.LogCaptureFixture
) -> None:
    site.bot.token = OTHER
    with pytest.raises(AuthenticationError, match=r"token in \[venues\.metaculus\.settings\]") as caught:
        await site.questions()
    assert TOKEN not in f"{caught.value!r} {caught.value.__cause__!r} {site.settings!r} {caplog.text}"


async def test_mc_f1_and_mc_f2_only_what_can_be_forecast_now_is_read(tmp_path: Path) -> None:
    kinds = {
        40001: question(50001),
        40002: question(50002, status="closed"),
        40003: question(50003, status="upcoming"),
        40004: question(50004, open_time="2026-01-01T00:00:01Z"),
        40005: question(50005, open_time=None),
        40006: question(50006, scheduled_close_time="2026-01-01T00:00:30Z"),
        40007: question(50007, scheduled_close_time="2025-12-31T00:00:00Z"),
        40008: question(50008, type="poll"),
    }
    posts = [post(number, question=asked) for number, asked in kinds.items()]
    for number, permission in ((40009, "viewer"), (40010, None), (40011, "admin"), (40012, "someone")):
        posts.append(post(number, user_permission=permission))
    found, _ = await read(tmp_path, {LIST: page(*posts)})
    assert [one.ref.key for one in found] == ["40001:50001", "40011:50011"]


async def test_mc_f1_a_post_that_is_published_but_not_open_is_left_out(site: MetaculusFixture) -> None:
    now = site.clock.now()
    site.fake.world.add_question("Later?", open=now + timedelta(hours=1))
    site.fake.world.add_question("Now?")
    assert [one.title for one in await site.questions()] == ["Now?"]


async def test_mc_f3_resolved_sub_questions_are_left_out_and_their_siblings_kept(site: MetaculusFixture) -> None:
    countries = site.fake.world.add_group("Countries?", ["France", "Spain", "Italy"])
    site.fake.world.resolve(countries.questions[0], "yes")
    site.fake.world.close(countries.questions[2])
    assert [one.label for one in await site.questions()] == ["Spain"]


def test_mc_f4_several_values_are_repeated_and_never_a_comma_list() -> None:
    url = api_url(SETTINGS, "posts/", {"statuses": ["open", "upcoming"], "limit": 100})
    assert url.endswith("/api/posts/?statuses=open&statuses=upcoming&limit=100")


async def test_mc_f5_unknown_types_are_skipped_and_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    odd = [post(40001, question=question(50001, type="poll")), post(40002, question=question(50002, type="poll"))]
    found, _ = await read(tmp_path, {LIST: page(*odd, post(40003), post(40004, question=question(50004, id="x")))})
    assert [one.ref.key for one in found] == ["40003:50003"]
    noted = capfd.readouterr()
    reported = noted.out + noted.err
    assert "of the unknown type 'poll'" in reported
    assert "bad" in reported


async def test_settings_choose_kinds_forms_and_windows(tmp_path: Path) -> None:
    posts = [
        post(40001),
        post(40002, question=numeric(50002)),
        group(question(50003), number=40003),
        post(40004, question=question(50004, scheduled_close_time="2026-01-02T00:00:00Z")),
    ]

    async def keys(**changes: Any) -> list[str]:
        settings = MetaculusSettings.model_validate({**SETTINGS.model_dump(), **changes})
        found, _ = await read(tmp_path, {LIST: page(*posts)}, settings)
        return [one.ref.key for one in found]

    assert await keys() == ["40004:50004", "40001:50001", "40002:50002", "40003:50003"]
    assert await keys(kinds=("numeric",)) == ["40002:50002"]
    assert await keys(groups=False, kinds=("binary",)) == ["40004:50004", "40001:50001"]
    assert await keys(closes_within_h=48) == ["40004:50004"]


async def test_mc_p1_paging_stops_on_a_short_page_though_next_is_set(site: MetaculusFixture) -> None:
    for number in range(PAGE_SIZE + 5):
        site.fake.world.add_question(f"Rain {number}?")
    assert len(await site.questions()) == PAGE_SIZE + 5
    asked = [parse_qs(heard.query) for heard in site.fake.requests]
    assert [one.get("offset") for one in asked] == [None, ["100"]]
    site.fake.requests.clear()
    await site.set(closes_within_h=0.001).questions()
    assert len(site.fake.requests) == 2, "what is left out counts on its page"


async def test_mc_p2_a_repeated_post_ends_the_loop(tmp_path: Path) -> None:
    full = page(*(post(40000 + n) for n in range(PAGE_SIZE)))
    found, asked = await read(tmp_path, {LIST: full, f"{LIST}&offset=100": full})
    assert len(found) == PAGE_SIZE
    assert asked == [LIST, f"{LIST}&offset=100"]


def test_mc_p2_the_limit_is_never_above_100() -> None:
    assert PAGE_SIZE == 100
    assert parse_qs(urlsplit(LIST).query)["limit"] == ["100"]


async def test_a_list_whose_records_come_twice_is_read_once(site: MetaculusFixture) -> None:
    for number in range(60):
        site.fake.world.add_question(f"Rain {number}?")
    site.fake.faults.schedule(RequestFault.DUPLICATED, method="GET")
    assert len(await site.questions()) == 60


async def test_mc_p3_the_soonest_to_close_is_yielded_first(site: MetaculusFixture) -> None:
    now = site.clock.now()
    for hours in (30, 2, 10):
        site.fake.world.add_question(f"{hours}", scheduled_close=now + timedelta(hours=hours))
    assert [one.title for one in await site.questions()] == ["2", "10", "30"]


async def test_mc_t2_a_bad_record_costs_no_page(site: MetaculusFixture) -> None:
    for title in ("One?", "Two?", "Three?"):
        site.fake.world.add_question(title)

    def bend(body: Any) -> Any:
        body["results"][1]["question"]["status"] = {"open": True}
        return body

    site.fake.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=bend), method="GET")
    assert len(await site.questions()) == 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (FaultDetails(fault=RequestFault.ERROR_BEFORE, status=502), ServiceUnavailableError),
        (FaultDetails(fault=RequestFault.PAGE_BEFORE), MalformedDataError),
        (FaultDetails(fault=RequestFault.DROPPED_BEFORE), ServiceUnavailableError),
    ],
)
async def test_mc_t6_pages_of_edge_servers_are_read_by_their_status(
    site: MetaculusFixture, fault: FaultDetails, error: type[Exception]
) -> None:
    site.fake.world.add_question("Rain?")
    site.fake.faults.schedule(fault, method="GET", times=3)
    with pytest.raises(error):
        await site.questions()


async def test_what_is_hidden_on_the_real_site_is_not_needed(site: MetaculusFixture) -> None:
    site.fake.world.forecast(site.fake.world.add_user("other", token="b" * 40), site.fake.world.add_question(), 0.3)
    [found] = await site.questions()
    assert found.crowd is None


async def test_the_crowd_is_read_where_it_is_shown(site: MetaculusFixture) -> None:
    site.fake.production = False
    other = site.fake.world.add_user("other", token="b" * 40)
    colour = site.fake.world.add_question(
        "Colour?", type="multiple_choice", options=["Red", "Other"], counts_bots=True, cp_reveal=site.clock.now()
    )
    site.fake.world.forecast(other, colour, {"Red": 0.7, "Other": 0.3})
    [found] = await site.questions()
    assert found.crowd is not None
    assert isinstance(found.crowd.prediction, ChoicePrediction)
    assert found.crowd.prediction.probabilities == pytest.approx({"Red": 0.7, "Other": 0.3})


async def test_one_question_is_found_by_key_and_by_address(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question("Rain?")
    key = ref(rain).key
    for name in (key, str(rain.post), f"{site.served.url}/questions/{rain.post}/rain/", f"{key}"):
        assert (await site.reader.find_question(name)).ref.key == key
    countries = site.fake.world.add_group("Countries?", ["France", "Spain"])
    spain = countries.questions[1]
    by_part = f"https://www.metaculus.com/questions/{countries.id}/countries/?sub-question={spain.id}"
    assert (await site.reader.find_question(by_part)).label == "Spain"
    with pytest.raises(RequestRejectedError, match="name one of them"):
        await site.reader.find_question(str(countries.id))
    with pytest.raises(NotFoundError, match="no question 1"):
        await site.reader.find_question(f"{countries.id}:1")
    with pytest.raises(NotFoundError):
        await site.reader.find_question("999999")
    site.fake.world.close(rain)
    with pytest.raises(RequestRejectedError, match="not open but closed"):
        await site.reader.find_question(key)


async def test_what_is_found_is_what_is_listed(site: MetaculusFixture) -> None:
    site.fake.world.add_question("Rain?")
    site.fake.world.add_group("Countries?", ["France"])
    for one in await site.questions():
        assert await site.reader.find_question(one.ref.key) == one


@pytest.mark.parametrize("name", ["rain", "https://example.org/questions/1/", "1:", "0:1", "http://[", "1:2:3", "-1"])
def test_a_name_that_is_none_is_not_found(name: str) -> None:
    with pytest.raises(NotFoundError, match="POST:QUESTION"):
        parse_question_name(name, SETTINGS.base_url)


def test_mc_r5_a_name_of_another_form_is_not_taken_for_one_of_ours() -> None:
    assert split_question_ref(QuestionRef("metaculus", "40001:50001")) == (40001, 50001)
    for other in (QuestionRef("metaculus", "40001"), QuestionRef("elsewhere", "40001:50001")):
        with pytest.raises(NotFoundError):
            split_question_ref(other)


async def test_a_posts_list_that_ignores_its_filter_is_filtered_here(tmp_path: Path) -> None:
    http = FakeHttpClient(
        {
            api_url(SETTINGS, "posts/", {"ids": [40001], "with_cp": "true", "limit": 100}): page(
                post(40001), post(40002)
            )
        },
        idle="fresh",
    )
    assert [one["id"] for one in await MetaculusClient(SETTINGS, http, FakeClock()).posts([40001])] == [40001]


def test_mc_l1_there_is_one_queue_of_a_request_every_3_6_seconds() -> None:
    [rate] = rate_limits(SETTINGS)
    assert (rate.count, rate.per_s, rate.max_in_flight, rate.burst) == (1, 3.6, 1, 1)
    assert rate.methods == frozenset(), "reading and writing alike"
    assert rate.prefixes == ("https://www.metaculus.com/",)
    assert LIST.startswith(rate.prefixes)


async def test_mc_l1_whoever_asks_waits_for_his_turn() -> None:
    clock = FakeClock()
    rates = RateLimiter(rate_limits(SETTINGS), clock=clock, random=SeededRandom(1))
    left: list[float] = []

    async def ask(method: str) -> None:
        async with rates.acquire(method, LIST, patience_s=10.0) as turn:
            left.append(clock.monotonic())
            turn.record_response(200, {})

    asking = [asyncio.create_task(ask(method)) for method in ("GET", "POST", "GET", "POST")]
    await clock.advance(60)
    await asyncio.gather(*asking)
    assert len(left) == 4
    assert all(after - before >= 3.6 for before, after in pairwise(left))
    assert left[-1] < 3 * 3.6 + 1.0


async def test_mc_l2_a_429_is_tried_again_with_and_without_retry_after(site: MetaculusFixture) -> None:
    site.fake.world.add_question("Rain?")
    for output in ("0", None):
        site.fake.requests.clear()
        site.fake.faults.schedule(FaultDetails(fault=RequestFault.TOO_MANY, retry_after=output), method="GET")
        assert len(await site.questions()) == 1
        assert len(site.fake.requests) == 2


async def test_mc_l2_another_4xx_is_not(site: MetaculusFixture) -> None:
    with pytest.raises(RequestRejectedError):
        await site.set(tournaments=("nope",)).questions()
    assert [heard.path for heard in site.fake.requests].count("/api/posts/") == 1
