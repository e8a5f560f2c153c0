"""The writer in front of the fake site, on a real socket: what it sends, what it believes, and what it reads back."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    CurvePrediction,
    CurveShape,
    HttpResponse,
    IntentAction,
    Prediction,
    RequestRejectedError,
    SealingSubmitter,
    VenueWriterContext,
)
from bot.simulator.faults import FaultDetails, RequestFault
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion as There
from bot.simulator.venues.metaculus_world import question_scaling
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient, FakeWriteClient
from plugins.metaculus.post_parser import MetaculusParsedPosts, build_question
from plugins.metaculus.question_names import question_ref
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.write_requests import MAX_COMMENT_CHARS
from plugins.metaculus.writer import MAX_SEND_AGE_S, SETTLEMENT_DELAY_S, WRITE_DEADLINE_S, MetaculusWriter
from tests.plugins.metaculus.conftest import TOKEN, MetaculusFixture, one_sealed
from tests.plugins.metaculus.documented_samples import answer
from tests.plugins.metaculus.records import batch, intent
from tests.plugins.metaculus.writer_helpers import (
    ABSENT,
    ACKED,
    COMMENT,
    FORECAST,
    REFUSED,
    UNKNOWN,
    asked,
    ref,
    remark,
)


async def seal_refusal(site: MetaculusFixture, there: There, prediction: Prediction | None = None) -> str:
    with pytest.raises(RequestRejectedError) as caught:
        await site.writer.seal_requests(batch(intent(ref(there), prediction)))
    assert site.writes() == []
    return str(caught.value)


async def test_mc_s1_forecasts_of_every_kind_are_taken_one_question_a_request(site: MetaculusFixture) -> None:
    world = site.fake.world
    rain = world.add_question("Rain?")
    colour = world.add_question("Colour?", type="multiple_choice", options=["Red", "Green", "Other"])
    amount = world.add_question(
        "How much?", type="numeric", scaling=question_scaling(1, 1000, zero_point=0, open_upper=True)
    )
    goals = world.add_question("Goals?", type="discrete", scaling=question_scaling(0, 9, count=10, open_upper=True))
    day = world.add_question(
        "When?", type="date", scaling=question_scaling(1.8e9, 1.9e9, open_lower=True, open_upper=True)
    )
    part = world.add_group("Countries?", ["France", "Spain"]).questions[1]
    branch = world.add_conditional(rain, world.add_question("Snow?")).yes
    spike = CurvePrediction((0.0,) * 150 + (1.0,) * 51)
    wanted: list[tuple[There, Prediction]] = [
        (rain, BinaryPrediction(0.0)),
        (colour, ChoicePrediction({"Red": 1.0, "Green": 0.0, "Other": 0.0})),
        (amount, spike),
        (goals, CurvePrediction((0.0,) * 4 + (1.0,) * 7)),
        (day, spike),
        (part, BinaryPrediction(0.25)),
        (branch, BinaryPrediction(0.75)),
    ]
    receipts = await site.send(batch(*(intent(ref(there), given) for there, given in wanted)))
    assert [one.state for one in receipts] == [ACKED] * len(wanted), receipts
    for there, _ in wanted:
        assert len(site.ours(there)) == 1
    bodies = [json.loads(heard.body) for heard in site.fake.requests if heard.method == "POST"]
    assert [[item["question"] for item in body] for body in bodies] == [[there.id] for there, _ in wanted]
    assert isinstance(site.writer, SealingSubmitter)


async def test_mc_r2_and_mc_r3_the_request_goes_to_the_path_with_a_slash_and_the_token_in_its_header(
    site: MetaculusFixture,
) -> None:
    rain = site.fake.world.add_question()
    await site.send(batch(intent(ref(rain))))
    [heard] = [heard for heard in site.fake.requests if heard.method == "POST"]
    assert heard.path == FORECAST
    assert heard.headers["authorization"] == f"Token {TOKEN}"
    assert heard.headers["accept-language"] == "en"
    assert heard.headers["content-type"] == "application/json"


async def test_mc_r2_a_redirect_of_a_write_is_not_followed_and_is_a_fault_of_ours(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wire = FakeWriteClient(
        lambda _: HttpResponse(status=301, headers={"location": "https://www.metaculus.com/elsewhere/"})
    )
    sealed = await site.sealed(batch(intent(ref(rain))))
    writer = MetaculusWriter(site.settings, replace(site.place, wire=wire))
    [receipt] = await writer.submit(sealed)
    assert receipt.state is REFUSED
    assert "error of this program" in receipt.detail
    assert len(wire.sent) == 1


@pytest.mark.parametrize("action", [IntentAction.FORECAST, IntentAction.WITHDRAW])
async def test_only_a_withdrawal_takes_back_so_that_it_leaves_also_while_all_is_halted(
    site: MetaculusFixture, action: IntentAction
) -> None:
    wire = FakeWriteClient(lambda _: HttpResponse(status=400))
    sealed = await site.sealed(batch(intent(ref(site.fake.world.add_question()), action=action)))
    await MetaculusWriter(site.settings, replace(site.place, wire=wire)).submit(sealed)
    assert [one.is_cancellation for one in wire.sent] == [action is IntentAction.WITHDRAW]


async def test_mc_s4_nothing_is_sealed_outside_of_the_window_or_without_leave(site: MetaculusFixture) -> None:
    world, now = site.fake.world, site.clock.now()
    later = world.add_question("Later?", open=now + timedelta(hours=1))
    assert "not open" in await seal_refusal(site, later)
    soon = world.add_question("Soon?", scheduled_close=now + timedelta(seconds=50))
    assert "closed, or closes soon" in await seal_refusal(site, soon)
    shut = world.add_question("Shut?")
    world.close(shut)
    assert "not open but closed" in await seal_refusal(site, shut)
    viewers = world.add_tournament("viewonly-t", "View only", permission="viewer")
    seen = world.add_question("Seen?", post={"tournaments": [viewers]})
    assert "only viewer" in await seal_refusal(site, seen)
    group = world.add_group("Countries?", ["France", "Spain"])
    world.close(group.questions[0])
    await seal_refusal(site, group.questions[0])
    assert await site.writer.seal_requests(batch(intent(ref(group.questions[1]))))


async def test_mc_s4_a_request_whose_window_ends_while_it_waits_is_not_sent(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question(scheduled_close=site.clock.now() + timedelta(seconds=70))
    wanted = await site.sealed(batch(intent(ref(rain)), questions=(await asked(site, rain),)))
    # Ten seconds later a minute is left, which is the margin of the settings.
    site.clock.set_wall_clock(10)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.writes()) == (ABSENT, [])
    site.clock.set_wall_clock(-0.001)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.writes()) == (ACKED, [FORECAST])


async def test_mc_s5_options_are_those_of_a_reading_in_the_same_cycle(site: MetaculusFixture) -> None:
    colour = site.fake.world.add_question("Colour?", type="multiple_choice", options=["Red", "Green", "Other"])
    old = ChoicePrediction({"Red": 0.5, "Green": 0.3, "Other": 0.2})
    site.fake.world.change_options(colour, ["Red", "Green", "Blue", "Other"])
    assert "does not answer" in await seal_refusal(site, colour, old)
    new = ChoicePrediction({"Red": 0.4, "Green": 0.3, "Blue": 0.1, "Other": 0.2})
    [receipt] = await site.send(batch(intent(ref(colour), new)))
    assert receipt.state is ACKED, "in the grace period, where what stands is folded"


async def test_mc_s5_a_request_that_was_sealed_long_ago_is_read_anew(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.clock.set_wall_clock(MAX_SEND_AGE_S + 0.001)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.writes()) == (ABSENT, [])
    site.clock.set_wall_clock(-0.001)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.writes()) == (ACKED, [FORECAST])


async def test_mc_s5_options_that_change_in_flight_are_a_refusal(site: MetaculusFixture) -> None:
    colour = site.fake.world.add_question("Colour?", type="multiple_choice", options=["Red", "Other"])
    wanted = await site.sealed(batch(intent(ref(colour), ChoicePrediction({"Red": 0.5, "Other": 0.5}))))
    site.fake.faults.schedule(RequestFault.EDITED, method="POST")
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.ours(colour)) == (REFUSED, [])


async def test_mc_s6_a_forecast_has_no_end_unless_that_is_configured(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    [sealed] = await site.writer.seal_requests(batch(intent(ref(rain))))
    assert json.loads(sealed.body) == [{"question": rain.id, "probability_yes": 0.7}]
    lapsing = site.set(expires_after_h=2.0)
    [receipt] = await lapsing.send(batch(intent(ref(rain))))
    assert receipt.state is ACKED
    [forecast] = site.ours(rain)
    assert forecast.end == (site.clock.now() + timedelta(hours=2)).timestamp()


async def test_mc_s6_a_renewal_without_an_answer_is_not_taken_for_the_equal_forecast_that_lapses_before_it(
    site: MetaculusFixture,
) -> None:
    rain = site.fake.world.add_question()
    lapsing = site.set(expires_after_h=2.0)
    [first] = await lapsing.send(batch(intent(ref(rain))))
    site.clock.set_wall_clock(3600.0)
    renewal = await lapsing.sealed(batch(intent(ref(rain))))
    site.fake.faults.schedule(RequestFault.DROPPED_BEFORE, method="POST")
    [lost] = await lapsing.writer.submit(renewal)
    [read] = await lapsing.writer.read_submissions(renewal)
    assert (first.state, lost.state, read.state) == (ACKED, UNKNOWN, ABSENT)
    [done] = await lapsing.writer.submit(renewal)
    [read] = await lapsing.writer.read_submissions(renewal)
    assert (done.state, read.state) == (ACKED, ACKED)


async def test_mc_s7_the_forecast_goes_first_and_the_comment_shows_it(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    both = batch(remark(rain), intent(ref(rain)), questions=(await asked(site, rain),))
    assert [one.state for one in await site.send(both)] == [ACKED, ACKED]
    assert site.writes() == [FORECAST, COMMENT]
    body = json.loads(next(heard for heard in site.fake.requests if heard.path == COMMENT).body)
    text = "Because of the wind."
    assert body == {"on_post": rain.post, "text": text, "is_private": True, "included_forecast": True}
    [comment] = site.fake.state.comments.values()
    assert comment.forecast is not None


async def test_mc_s7_a_comment_waits_for_its_forecast_and_is_retried_alone(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    both = batch(remark(rain), intent(ref(rain)), questions=(await asked(site, rain),))
    site.fake.faults.schedule(RequestFault.TOO_MANY, method="POST")
    assert [one.state for one in await site.send(both)] == [ABSENT, ABSENT]
    site.fake.faults.schedule(RequestFault.TOO_MANY, method="POST", path=COMMENT)
    assert [one.state for one in await site.send(both)] == [ABSENT, ACKED]
    assert len(rain.forecasts_of(site.bot.id)) == 1
    alone = batch(remark(rain), questions=both.questions)
    assert [one.state for one in await site.send(alone)] == [ACKED]
    assert len(rain.forecasts_of(site.bot.id)) == 1
    assert len(site.fake.state.comments) == 1


async def test_mc_s8_groups_and_conditionals_have_one_comment_a_post(site: MetaculusFixture) -> None:
    world = site.fake.world
    group = world.add_group("Countries?", ["France", "Spain"])
    parts = world.add_conditional(world.add_question("If?"), world.add_question("Then?"))
    for first, second in (group.questions, (parts.yes, parts.no)):
        for number, there in enumerate((first, second)):
            wanted = batch(
                remark(there, f"Of {there.title}", f"{there.id}-{number}"), questions=(await asked(site, there),)
            )
            assert [one.state for one in await site.send(wanted)] == [ACKED]
        found = [one for one in site.fake.state.comments.values() if one.post == first.post]
        assert [one.text for one in found] == [f"Of {first.title}"]
    for heard in site.fake.requests:
        assert heard.path != COMMENT or "included_forecast" not in json.loads(heard.body)


async def test_mc_s8_a_group_gets_a_comment_again_a_day_later(site: MetaculusFixture) -> None:
    first, second = site.fake.world.add_group("Countries?", ["France", "Spain"]).questions
    for number, there in enumerate((first, second)):
        wanted = batch(remark(there, f"Of {there.title}", f"c{number}"), questions=(await asked(site, there),))
        assert [one.state for one in await site.send(wanted)] == [ACKED]
        site.clock.advance_without_waking(timedelta(hours=25).total_seconds())
    assert [one.text for one in site.fake.state.comments.values()] == [f"Of {first.title}", f"Of {second.title}"]


async def test_mc_s8_a_question_alone_on_its_post_gets_each_comment(site: MetaculusFixture) -> None:
    there = site.fake.world.add_question("Alone?")
    for number, text in enumerate(("First.", "Second.")):
        wanted = batch(remark(there, text, f"c{number}"), questions=(await asked(site, there),))
        assert [one.state for one in await site.send(wanted)] == [ACKED]
    assert [one.text for one in site.fake.state.comments.values()] == ["First.", "Second."]


async def test_mc_s9_a_comment_is_cut_and_never_empty(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    [sealed] = await site.writer.seal_requests(batch(remark(rain, "x" * 200_000)))
    assert len(json.loads(sealed.body)["text"]) == MAX_COMMENT_CHARS == 150_000
    with pytest.raises(RequestRejectedError, match="is empty"):
        await site.writer.seal_requests(batch(remark(rain, " \n\t")))


async def test_mc_s10_what_is_written_was_sealed_byte_for_byte_and_sealing_writes_nothing(
    site: MetaculusFixture,
) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    assert site.writes() == []
    await site.writer.submit(wanted)
    [heard] = [heard for heard in site.fake.requests if heard.method == "POST"]
    sealed = one_sealed(wanted)
    assert heard.body == sealed.body.encode()
    assert sealed.fence == site.clock.now() + timedelta(seconds=MAX_SEND_AGE_S + WRITE_DEADLINE_S + SETTLEMENT_DELAY_S)
    other = one_sealed(await site.sealed(batch(intent(ref(rain), BinaryPrediction(0.6)))))
    site.clock.set_wall_clock(1)
    again = one_sealed(await site.sealed(batch(intent(ref(rain)))))
    assert len({sealed.tag, other.tag, again.tag}) == 3


async def test_what_was_not_sealed_is_refused_without_a_write(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    [receipt] = await site.writer.submit(batch(intent(ref(rain))))
    assert (receipt.state, site.writes()) == (REFUSED, [])


async def test_one_that_cannot_be_sealed_costs_no_other(site: MetaculusFixture) -> None:
    shut, rain = site.fake.world.add_question("Shut?"), site.fake.world.add_question("Rain?")
    site.fake.world.close(shut)
    wanted = await site.sealed(batch(intent(ref(shut)), intent(ref(rain))))
    assert [one.intent for one in wanted.sealed] == [wanted.intents[1].id]


async def test_a_question_that_cannot_be_read_costs_no_other_of_its_post(site: MetaculusFixture) -> None:
    group = site.fake.world.add_group("Countries?", ["France", "Spain"])

    def bend(body: Any) -> Any:
        body["group_of_questions"]["questions"][0]["type"] = 7
        return body

    site.fake.faults.schedule(FaultDetails(fault=RequestFault.ALTERED, alter=bend), method="GET")
    [sealed] = await site.writer.seal_requests(batch(intent(ref(group.questions[1]))))
    assert json.loads(sealed.body)[0]["question"] == group.questions[1].id


async def test_mc_k1_no_public_comment_is_ever_sealed(site: MetaculusFixture) -> None:
    world = site.fake.world
    for there in (world.add_question(), world.add_group("Countries?", ["France"]).questions[0]):
        [sealed] = await site.writer.seal_requests(batch(remark(there, name=str(there.id))))
        assert json.loads(sealed.body)["is_private"] is True


async def test_orders_are_not_sealed(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    with pytest.raises(RequestRejectedError, match="nothing is traded"):
        await site.writer.seal_requests(batch(intent(ref(rain), action=IntentAction.ORDER)))


async def test_mc_l1_and_reading_stay_out_of_the_judges_book(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question()
    await site.send(batch(intent(ref(rain))))
    assert site.fake.rate_limit_checker.violations == []
    assert site.fake.rate_limit_checker.most_at_once[str(site.bot.id)] == 1


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("post_bin", "probability_yes"),
        ("post_mc", "probability_yes_per_category"),
        ("post_num_open_log_full", "continuous_cdf"),
        ("post_disc_full", "continuous_cdf"),
        ("post_date_open", "continuous_cdf"),
        ("post_group_num", "continuous_cdf"),
        ("post_cond", "probability_yes"),
    ],
)
async def test_requests_for_recorded_posts_have_the_documented_form(
    shared: Path, tmp_path: Path, name: str, form: str
) -> None:
    raw = answer(shared, name)
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(raw)
    asked = unpacked.entries[0].question
    shape = build_question(unpacked.entries[0]).shape
    given: Prediction = BinaryPrediction(0.6)
    if isinstance(shape, CurveShape):
        given = CurvePrediction(tuple(n / (len(shape.grid) - 1) for n in range(len(shape.grid))))
    elif asked.options:
        given = ChoicePrediction({option: 1 / len(asked.options) for option in asked.options})
    settings = MetaculusSettings(token=SecretStr(TOKEN))
    http = FakeHttpClient({f"https://www.metaculus.com/api/posts/{raw['id']}/": json.dumps(raw).encode()}, idle="fresh")
    clock = FakeClock(datetime(2026, 11, 22, tzinfo=UTC))
    writer = MetaculusWriter(
        settings, VenueWriterContext(clock=clock, http=http, folder=tmp_path, wire=FakeWriteClient())
    )
    [sealed] = await writer.seal_requests(batch(intent(question_ref(raw["id"], asked.id), given)))
    [item] = json.loads(sealed.body)
    assert set(item) == {"question", form}
    assert item["question"] == asked.id


async def test_a_post_that_is_gone_is_refused_before_anything_is_written(site: MetaculusFixture) -> None:
    with pytest.raises(RequestRejectedError, match="no longer visible"):
        await site.writer.seal_requests(batch(intent(question_ref(99999, 88888))))
    rain = site.fake.world.add_question()
    with pytest.raises(RequestRejectedError, match="no longer visible"):
        await site.writer.seal_requests(batch(intent(question_ref(rain.post, 88888))))
