"""What an answer proves, and what is read back where it proves nothing."""

from dataclasses import replace
from typing import Any

import pytest

from bot.api import AuthenticationError, HttpRequest, HttpResponse, IntentAction, ServiceUnavailableError
from bot.simulator.faults import FaultDetails, RequestFault
from bot.testing.http import FakeWriteClient
from plugins.metaculus.writer import MetaculusWriter
from tests.plugins.metaculus.conftest import OTHER, TOKEN, MetaculusFixture
from tests.plugins.metaculus.records import batch, intent
from tests.plugins.metaculus.writer_helpers import ABSENT, ACKED, REFUSED, UNKNOWN, asked, ref, remark


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [
        (FaultDetails(fault=RequestFault.DROPPED_BEFORE), False),
        (FaultDetails(fault=RequestFault.DROPPED_AFTER), True),
        (FaultDetails(fault=RequestFault.ERROR_BEFORE, status=502), False),
        (FaultDetails(fault=RequestFault.ERROR_AFTER, status=502), True),
        (FaultDetails(fault=RequestFault.PAGE_BEFORE), False),
        (FaultDetails(fault=RequestFault.PAGE_AFTER), True),
    ],
    ids=lambda value: value.fault.value if isinstance(value, FaultDetails) else "",
)
@pytest.mark.parametrize("action", [IntentAction.FORECAST, IntentAction.COMMENT])
async def test_mc_c1_an_answer_that_proves_nothing_is_unknown_and_is_read_back(
    site: MetaculusFixture, fault: FaultDetails, action: IntentAction, *, arrives: bool
) -> None:
    rain = site.fake.world.add_question()
    one = intent(ref(rain)) if action is IntentAction.FORECAST else remark(rain)
    wanted = await site.sealed(batch(one, questions=(await asked(site, rain),)))
    site.fake.faults.schedule(fault, method="POST")
    [receipt] = await site.writer.submit(wanted)
    assert receipt.state is UNKNOWN
    assert len(site.writes()) == 1, "nothing is tried twice"
    [read] = await site.writer.read_submissions(wanted)
    assert read.state is (ACKED if arrives else ABSENT)
    assert len(site.ours(rain)) + len(site.fake.state.comments) == arrives


async def test_after_a_write_without_an_answer_the_others_are_not_begun(site: MetaculusFixture) -> None:
    rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
    wanted = await site.sealed(batch(intent(ref(rain)), intent(ref(snow))))
    site.fake.faults.schedule(RequestFault.DROPPED_AFTER, method="POST")
    assert [one.state for one in await site.writer.submit(wanted)] == [UNKNOWN, ABSENT]
    assert len(site.writes()) == 1


async def test_where_nobody_listens_nothing_was_written(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    async with site.served.refuse_connections():
        [receipt] = await site.writer.submit(wanted)
    assert receipt.state is ABSENT


async def test_mc_c2_what_stands_is_compared_with_the_payload(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    assert [one.state for one in await site.writer.read_submissions(wanted)] == [ABSENT]
    site.fake.world.forecast(site.bot, rain, 0.7000001)
    assert [one.state for one in await site.writer.read_submissions(wanted)] == [ABSENT]
    site.fake.world.forecast(site.bot, rain, 0.7)
    [read] = await site.writer.read_submissions(wanted)
    assert read.state is ACKED
    assert read.reference == f"{rain.id} since {site.clock.now().timestamp():.6f}"
    site.fake.world.forecast(site.bot, rain, 0.2)
    assert [one.state for one in await site.writer.read_submissions(wanted)] == [ABSENT]


async def test_no_reading_of_what_stands_is_answered_by_a_cache(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    forecast = await site.sealed(batch(intent(ref(rain))))
    comment = await site.sealed(batch(remark(rain), questions=(await asked(site, rain),)))
    for wanted in (forecast, comment):
        assert [one.state for one in await site.writer.read_submissions(wanted)] == [ABSENT]
        site.fake.faults.schedule(RequestFault.DROPPED_AFTER, method="POST")
        assert [one.state for one in await site.writer.submit(wanted)] == [UNKNOWN]
        # A cache with an old answer to the request gives that one.
        site.fake.faults.schedule(RequestFault.STALE, method="GET", times=3)
        assert [one.state for one in await site.writer.read_submissions(wanted)] == [ACKED]


async def test_a_write_that_reads_back_differently_is_in_doubt(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))

    def bend(body: Any) -> Any:
        body["question"]["my_forecasts"]["latest"]["forecast_values"] = [0.9, 0.1]
        body["question"]["my_forecasts"]["history"] = []
        return body

    site.fake.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=bend), method="GET")
    [receipt] = await site.writer.submit(wanted)
    assert receipt.state is UNKNOWN
    assert "differs" in receipt.detail
    assert [one.state for one in await site.writer.read_submissions(wanted)] == [ACKED]


async def test_a_write_that_cannot_be_read_back_was_taken_all_the_same(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.fake.faults.schedule(RequestFault.ERROR_BEFORE, method="GET", times=3)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, "not be read back" in receipt.detail) == (ACKED, True)


async def test_mc_c3_a_second_sending_replaces_the_first_and_stands_once(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    for _ in range(2):
        assert [one.state for one in await site.send(batch(intent(ref(rain))))] == [ACKED]
    assert len(rain.forecasts_of(site.bot.id)) == 2
    assert len(site.ours(rain)) == 1


async def test_mc_c4_an_unknown_comment_is_looked_up_among_ours_before_it_is_sent_again(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = batch(remark(rain), questions=(await asked(site, rain),))
    site.fake.faults.schedule(RequestFault.DROPPED_AFTER, method="POST")
    assert [one.state for one in await site.send(wanted)] == [UNKNOWN]
    site.fake.requests.clear()
    assert [one.state for one in await site.writer.read_submissions(wanted)] == [ACKED]
    [heard] = [heard for heard in site.fake.requests if heard.path == "/api/comments/"]
    assert set(heard.query.split("&")) >= {"is_private=true", f"author={site.bot.id}", f"post={rain.post}"}
    assert [one.state for one in await site.send(wanted)] == [ACKED]
    assert len(site.fake.state.comments) == 1


@pytest.mark.parametrize(
    ("bent", "detail"),
    [
        ({}, ""),
        ({"text": "Because of the rain."}, "accepted, but not as it was sent"),
        ({"is_private": False}, "accepted, but not as it was sent"),
    ],
)
async def test_mc_c4_a_comment_that_was_made_otherwise_than_it_was_sent_is_told(
    site: MetaculusFixture, bent: dict[str, Any], detail: str
) -> None:
    def bend(body: Any) -> Any:
        return {**body, **bent}

    rain = site.fake.world.add_question()
    wanted = batch(remark(rain), questions=(await asked(site, rain),))
    site.fake.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=bend), method="POST")
    [receipt] = await site.send(wanted)
    assert (receipt.state, receipt.detail) == (ACKED, detail)


async def test_mc_c4_another_comment_is_not_mistaken_for_it(site: MetaculusFixture) -> None:
    rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
    await site.send(batch(remark(snow), questions=(await asked(site, snow),)))
    await site.send(batch(remark(rain, "Another."), questions=(await asked(site, rain),)))
    assert [one.state for one in await site.writer.read_submissions(batch(remark(rain)))] == [ABSENT]


async def test_mc_c5_a_withdrawal_is_done_once_the_end_is_past(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    away = batch(intent(ref(rain), action=IntentAction.WITHDRAW))
    await site.send(batch(intent(ref(rain))))
    assert [one.state for one in await site.writer.read_submissions(away)] == [ABSENT]
    assert [one.state for one in await site.send(away)] == [ACKED]
    assert site.ours(rain) == []
    assert [one.state for one in await site.writer.read_submissions(away)] == [ACKED]
    assert [one.state for one in await site.writer.read_submissions(batch(intent(ref(rain))))] == [ABSENT]


async def test_a_withdrawal_after_closing_is_taken(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    await site.send(batch(intent(ref(rain))))
    site.fake.world.close(rain)
    assert [one.state for one in await site.send(batch(intent(ref(rain), action=IntentAction.WITHDRAW)))] == [ACKED]


async def test_a_question_that_closes_in_flight_is_a_refusal_that_stops_nothing(site: MetaculusFixture) -> None:
    rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
    wanted = await site.sealed(batch(intent(ref(rain)), intent(ref(snow))))
    site.fake.faults.schedule(RequestFault.CLOSING, method="POST")
    assert [one.state for one in await site.writer.submit(wanted)] == [REFUSED, ACKED]


async def test_a_refused_account_stops_the_writer(site: MetaculusFixture, capfd: pytest.CaptureFixture[str]) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.bot.access = "disabled"
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, "not enabled" in receipt.detail) == (REFUSED, True)
    with pytest.raises(AuthenticationError, match=r"venues\.metaculus\.settings"):
        await site.writer.seal_requests(batch(intent(ref(rain))))
    assert TOKEN not in "".join(capfd.readouterr())


async def test_many_posts_that_refuse_this_account_are_an_alarm(
    site: MetaculusFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    there = [site.fake.world.add_question(f"Rain {n}?") for n in range(3)]
    wanted = await site.sealed(batch(*(intent(ref(one)) for one in there)))
    site.fake.world.benchmark_tournament.permission = "viewer"
    assert [one.state for one in await site.writer.submit(wanted)] == [REFUSED] * 3
    reported = "".join(capfd.readouterr())
    assert "posts_in_a_row=3" in reported
    assert "error" in reported


async def test_reading_back_that_fails_is_unknown_and_a_refused_token_is_raised(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.fake.faults.schedule(RequestFault.ERROR_BEFORE, method="GET", times=3)
    assert [one.state for one in await site.writer.read_submissions(wanted)] == [UNKNOWN]
    site.bot.token = OTHER
    with pytest.raises(AuthenticationError):
        await site.writer.read_submissions(wanted)


async def test_a_wire_that_may_have_sent_is_unknown_whatever_it_says(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))

    def broken(_: HttpRequest) -> HttpResponse:
        message = "broken off"
        raise ServiceUnavailableError(message)

    for wire in (FakeWriteClient(broken), FakeWriteClient(lambda _: HttpResponse(status=201, body=b"x" * 5_000_000))):
        writer = MetaculusWriter(site.settings, replace(site.place, wire=wire))
        assert [one.state for one in await writer.submit(wanted)] == [UNKNOWN]


async def test_a_blocked_address_is_told_and_does_not_stop_the_writer(
    site: MetaculusFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    wire = FakeWriteClient(lambda _: HttpResponse(status=403, body=b"<html>Blocked</html>"))
    writer = MetaculusWriter(site.settings, replace(site.place, wire=wire))
    [receipt] = await writer.submit(wanted)
    assert (receipt.state, "may block this address" in receipt.detail) == (ABSENT, True)
    assert "operator must act" in "".join(capfd.readouterr())
    assert len(await writer.seal_requests(batch(intent(ref(rain))))) == 1
