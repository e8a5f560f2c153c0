"""The writer in front of the fake site, on a real socket: what it sends, what it believes, and what it reads back."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bot.api import (
    Binary,
    Choice,
    Curve,
    CurveShape,
    IntentAction,
    IntentState,
    Prediction,
    Question,
    Rejected,
    Reply,
    Request,
    Sealer,
    Unauthorized,
    Unavailable,
    WriterPlace,
)
from bot.testing.clock import FakeClock
from bot.testing.http import DictHttp
from bot.testing.venues.faults import Fault, Trouble
from bot.testing.venues.metaculus_state import Question as There
from bot.testing.venues.metaculus_world import grid
from bot.testing.wires import MemoryWire
from plugins.metaculus.parse import Unpacked, question_of
from plugins.metaculus.settings import MetaculusSettings
from plugins.metaculus.terms import ref_of
from plugins.metaculus.writer import DEADLINE_S, FRESH_S, MAX_CHARS, SETTLE_S, MetaculusWriter
from tests.plugins.metaculus.conftest import OTHER, TOKEN, Site, one_sealed
from tests.plugins.metaculus.records import batch, intent
from tests.plugins.metaculus.samples import answer

ACKED, REFUSED, UNKNOWN, ABSENT = IntentState.ACKED, IntentState.REFUSED, IntentState.UNKNOWN, IntentState.ABSENT
FORECAST, COMMENT = "/api/questions/forecast/", "/api/comments/create/"


def ref(there: There) -> Any:
    return ref_of(there.post, there.id)


def remark(there: There, text: str = "Because of the wind.", name: str = "remark") -> Any:
    return intent(ref(there), action=IntentAction.COMMENT, text=text, name=name)


async def asked(site: Site, there: There) -> Question:
    """The question as the ledger would hold it."""
    return await site.reader.find(ref(there).key)


async def seal_refusal(site: Site, there: There, prediction: Prediction | None = None) -> str:
    with pytest.raises(Rejected) as caught:
        await site.writer.seal(batch(intent(ref(there), prediction)))
    assert site.writes() == []
    return str(caught.value)


async def test_mc_s1_forecasts_of_every_kind_are_taken_one_question_a_request(site: Site) -> None:
    world = site.fake.world
    rain = world.add_question("Rain?")
    colour = world.add_question("Colour?", type="multiple_choice", options=["Red", "Green", "Other"])
    amount = world.add_question("How much?", type="numeric", scaling=grid(1, 1000, zero_point=0, open_upper=True))
    goals = world.add_question("Goals?", type="discrete", scaling=grid(0, 9, count=10, open_upper=True))
    day = world.add_question("When?", type="date", scaling=grid(1.8e9, 1.9e9, open_lower=True, open_upper=True))
    part = world.add_group("Countries?", ["France", "Spain"]).questions[1]
    branch = world.add_conditional(rain, world.add_question("Snow?")).yes
    spike = Curve((0.0,) * 150 + (1.0,) * 51)
    wanted: list[tuple[There, Prediction]] = [
        (rain, Binary(0.0)),
        (colour, Choice({"Red": 1.0, "Green": 0.0, "Other": 0.0})),
        (amount, spike),
        (goals, Curve((0.0,) * 4 + (1.0,) * 7)),
        (day, spike),
        (part, Binary(0.25)),
        (branch, Binary(0.75)),
    ]
    receipts = await site.send(batch(*(intent(ref(there), given) for there, given in wanted)))
    assert [one.state for one in receipts] == [ACKED] * len(wanted), receipts
    for there, _ in wanted:
        assert len(site.ours(there)) == 1
    bodies = [json.loads(heard.body) for heard in site.fake.requests if heard.method == "POST"]
    assert [[item["question"] for item in body] for body in bodies] == [[there.id] for there, _ in wanted]
    assert isinstance(site.writer, Sealer)


async def test_mc_r2_and_mc_r3_the_request_goes_to_the_path_with_a_slash_and_the_token_in_its_header(
    site: Site,
) -> None:
    rain = site.fake.world.add_question()
    await site.send(batch(intent(ref(rain))))
    [heard] = [heard for heard in site.fake.requests if heard.method == "POST"]
    assert heard.path == FORECAST
    assert heard.headers["authorization"] == f"Token {TOKEN}"
    assert heard.headers["accept-language"] == "en"
    assert heard.headers["content-type"] == "application/json"


async def test_mc_r2_a_redirect_of_a_write_is_not_followed_and_is_a_fault_of_ours(site: Site) -> None:
    rain = site.fake.world.add_question()
    wire = MemoryWire(lambda _: Reply(status=301, headers={"location": "https://www.metaculus.com/elsewhere/"}))
    sealed = await site.sealed(batch(intent(ref(rain))))
    writer = MetaculusWriter(site.settings, replace(site.place, wire=wire))
    [receipt] = await writer.submit(sealed)
    assert receipt.state is REFUSED
    assert "fault of this program" in receipt.detail
    assert len(wire.sent) == 1


async def test_mc_s4_nothing_is_sealed_outside_of_the_window_or_without_leave(site: Site) -> None:
    world, now = site.fake.world, site.clock.now()
    later = world.add_question("Later?", open=now + timedelta(hours=1))
    assert "not open" in await seal_refusal(site, later)
    soon = world.add_question("Soon?", scheduled_close=now + timedelta(seconds=50))
    assert "closed, or about to" in await seal_refusal(site, soon)
    shut = world.add_question("Shut?")
    world.close(shut)
    assert "not open but closed" in await seal_refusal(site, shut)
    viewers = world.add_tournament("viewonly-t", "View only", permission="viewer")
    seen = world.add_question("Seen?", post={"tournaments": [viewers]})
    assert "only for viewer" in await seal_refusal(site, seen)
    group = world.add_group("Countries?", ["France", "Spain"])
    world.close(group.questions[0])
    await seal_refusal(site, group.questions[0])
    assert await site.writer.seal(batch(intent(ref(group.questions[1]))))


async def test_mc_s4_a_request_whose_window_ends_while_it_waits_is_not_sent(site: Site) -> None:
    rain = site.fake.world.add_question(scheduled_close=site.clock.now() + timedelta(seconds=70))
    wanted = await site.sealed(batch(intent(ref(rain)), questions=(await asked(site, rain),)))
    site.clock.step(15)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.writes()) == (ABSENT, [])


async def test_mc_s5_options_are_those_of_a_reading_in_the_same_cycle(site: Site) -> None:
    colour = site.fake.world.add_question("Colour?", type="multiple_choice", options=["Red", "Green", "Other"])
    old = Choice({"Red": 0.5, "Green": 0.3, "Other": 0.2})
    site.fake.world.change_options(colour, ["Red", "Green", "Blue", "Other"])
    assert "does not answer" in await seal_refusal(site, colour, old)
    new = Choice({"Red": 0.4, "Green": 0.3, "Blue": 0.1, "Other": 0.2})
    [receipt] = await site.send(batch(intent(ref(colour), new)))
    assert receipt.state is ACKED, "in the grace period, where what stands is folded"


async def test_mc_s5_a_request_that_was_sealed_long_ago_is_read_anew(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.clock.step(FRESH_S + 1)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.writes()) == (ABSENT, [])


async def test_mc_s5_options_that_change_in_flight_are_a_refusal(site: Site) -> None:
    colour = site.fake.world.add_question("Colour?", type="multiple_choice", options=["Red", "Other"])
    wanted = await site.sealed(batch(intent(ref(colour), Choice({"Red": 0.5, "Other": 0.5}))))
    site.fake.faults.next(Fault.EDITED, method="POST")
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, site.ours(colour)) == (REFUSED, [])


async def test_mc_s6_a_forecast_has_no_end_unless_that_is_configured(site: Site) -> None:
    rain = site.fake.world.add_question()
    [sealed] = await site.writer.seal(batch(intent(ref(rain))))
    assert json.loads(sealed.body) == [{"question": rain.id, "probability_yes": 0.7}]
    lapsing = site.set(expires_after_h=2.0)
    [receipt] = await lapsing.send(batch(intent(ref(rain))))
    assert receipt.state is ACKED
    [forecast] = site.ours(rain)
    assert forecast.end == (site.clock.now() + timedelta(hours=2)).timestamp()


async def test_mc_s7_the_forecast_goes_first_and_the_comment_shows_it(site: Site) -> None:
    rain = site.fake.world.add_question()
    both = batch(remark(rain), intent(ref(rain)), questions=(await asked(site, rain),))
    assert [one.state for one in await site.send(both)] == [ACKED, ACKED]
    assert site.writes() == [FORECAST, COMMENT]
    body = json.loads(next(heard for heard in site.fake.requests if heard.path == COMMENT).body)
    text = "Because of the wind."
    assert body == {"on_post": rain.post, "text": text, "is_private": True, "included_forecast": True}
    [comment] = site.fake.state.comments.values()
    assert comment.forecast is not None


async def test_mc_s7_a_comment_waits_for_its_forecast_and_is_retried_alone(site: Site) -> None:
    rain = site.fake.world.add_question()
    both = batch(remark(rain), intent(ref(rain)), questions=(await asked(site, rain),))
    site.fake.faults.next(Fault.TOO_MANY, method="POST")
    assert [one.state for one in await site.send(both)] == [ABSENT, ABSENT]
    site.fake.faults.next(Fault.TOO_MANY, method="POST", path=COMMENT)
    assert [one.state for one in await site.send(both)] == [ABSENT, ACKED]
    assert len(rain.of(site.bot.id)) == 1
    alone = batch(remark(rain), questions=both.questions)
    assert [one.state for one in await site.send(alone)] == [ACKED]
    assert len(rain.of(site.bot.id)) == 1
    assert len(site.fake.state.comments) == 1


async def test_mc_s8_groups_and_conditionals_have_one_comment_a_post(site: Site) -> None:
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


async def test_mc_s9_a_comment_is_cut_and_never_empty(site: Site) -> None:
    rain = site.fake.world.add_question()
    [sealed] = await site.writer.seal(batch(remark(rain, "x" * 200_000)))
    assert len(json.loads(sealed.body)["text"]) == MAX_CHARS == 150_000
    with pytest.raises(Rejected, match="is empty"):
        await site.writer.seal(batch(remark(rain, " \n\t")))


async def test_mc_s10_what_is_written_was_sealed_byte_for_byte_and_sealing_writes_nothing(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    assert site.writes() == []
    await site.writer.submit(wanted)
    [heard] = [heard for heard in site.fake.requests if heard.method == "POST"]
    sealed = one_sealed(wanted)
    assert heard.body == sealed.body.encode()
    assert sealed.fence == site.clock.now() + timedelta(seconds=FRESH_S + DEADLINE_S + SETTLE_S)
    other = one_sealed(await site.sealed(batch(intent(ref(rain), Binary(0.6)))))
    site.clock.step(1)
    again = one_sealed(await site.sealed(batch(intent(ref(rain)))))
    assert len({sealed.tag, other.tag, again.tag}) == 3


async def test_what_was_not_sealed_is_refused_without_a_write(site: Site) -> None:
    rain = site.fake.world.add_question()
    [receipt] = await site.writer.submit(batch(intent(ref(rain))))
    assert (receipt.state, site.writes()) == (REFUSED, [])


async def test_one_that_cannot_be_sealed_costs_no_other(site: Site) -> None:
    shut, rain = site.fake.world.add_question("Shut?"), site.fake.world.add_question("Rain?")
    site.fake.world.close(shut)
    wanted = await site.sealed(batch(intent(ref(shut)), intent(ref(rain))))
    assert [one.intent for one in wanted.sealed] == [wanted.intents[1].id]


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [
        (Trouble(fault=Fault.DROPPED_BEFORE), False),
        (Trouble(fault=Fault.DROPPED_AFTER), True),
        (Trouble(fault=Fault.ERROR_BEFORE, status=502), False),
        (Trouble(fault=Fault.ERROR_AFTER, status=502), True),
        (Trouble(fault=Fault.PAGE_BEFORE), False),
        (Trouble(fault=Fault.PAGE_AFTER), True),
    ],
    ids=lambda value: value.fault.value if isinstance(value, Trouble) else "",
)
@pytest.mark.parametrize("action", [IntentAction.FORECAST, IntentAction.COMMENT])
async def test_mc_c1_an_answer_that_proves_nothing_is_unknown_and_is_read_back(
    site: Site, fault: Trouble, action: IntentAction, *, arrives: bool
) -> None:
    rain = site.fake.world.add_question()
    one = intent(ref(rain)) if action is IntentAction.FORECAST else remark(rain)
    wanted = await site.sealed(batch(one, questions=(await asked(site, rain),)))
    site.fake.faults.next(fault, method="POST")
    [receipt] = await site.writer.submit(wanted)
    assert receipt.state is UNKNOWN
    assert len(site.writes()) == 1, "nothing is tried twice"
    [read] = await site.writer.standing(wanted)
    assert read.state is (ACKED if arrives else ABSENT)
    assert len(site.ours(rain)) + len(site.fake.state.comments) == arrives


async def test_after_a_write_without_an_answer_the_others_are_not_begun(site: Site) -> None:
    rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
    wanted = await site.sealed(batch(intent(ref(rain)), intent(ref(snow))))
    site.fake.faults.next(Fault.DROPPED_AFTER, method="POST")
    assert [one.state for one in await site.writer.submit(wanted)] == [UNKNOWN, ABSENT]
    assert len(site.writes()) == 1


async def test_where_nobody_listens_nothing_was_written(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    async with site.served.away():
        [receipt] = await site.writer.submit(wanted)
    assert receipt.state is ABSENT


async def test_mc_c2_what_stands_is_compared_with_the_payload(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    assert [one.state for one in await site.writer.standing(wanted)] == [ABSENT]
    site.fake.world.forecast(site.bot, rain, 0.7000001)
    assert [one.state for one in await site.writer.standing(wanted)] == [ABSENT]
    site.fake.world.forecast(site.bot, rain, 0.7)
    [read] = await site.writer.standing(wanted)
    assert read.state is ACKED
    assert read.reference == f"{rain.id} since {site.clock.now().timestamp():.6f}"
    site.fake.world.forecast(site.bot, rain, 0.2)
    assert [one.state for one in await site.writer.standing(wanted)] == [ABSENT]


async def test_a_write_that_reads_back_differently_is_in_doubt(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))

    def bend(body: Any) -> Any:
        body["question"]["my_forecasts"]["latest"]["forecast_values"] = [0.9, 0.1]
        body["question"]["my_forecasts"]["history"] = []
        return body

    site.fake.faults.next(Trouble(fault=Fault.ALTERED, alter=bend), method="GET")
    [receipt] = await site.writer.submit(wanted)
    assert receipt.state is UNKNOWN
    assert "differs" in receipt.detail
    assert [one.state for one in await site.writer.standing(wanted)] == [ACKED]


async def test_a_write_that_cannot_be_read_back_was_taken_all_the_same(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.fake.faults.next(Fault.ERROR_BEFORE, method="GET", times=3)
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, "not be read back" in receipt.detail) == (ACKED, True)


async def test_mc_c3_a_second_sending_replaces_the_first_and_stands_once(site: Site) -> None:
    rain = site.fake.world.add_question()
    for _ in range(2):
        assert [one.state for one in await site.send(batch(intent(ref(rain))))] == [ACKED]
    assert len(rain.of(site.bot.id)) == 2
    assert len(site.ours(rain)) == 1


async def test_mc_c4_an_unknown_comment_is_looked_up_among_ours_before_it_is_sent_again(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = batch(remark(rain), questions=(await asked(site, rain),))
    site.fake.faults.next(Fault.DROPPED_AFTER, method="POST")
    assert [one.state for one in await site.send(wanted)] == [UNKNOWN]
    site.fake.requests.clear()
    assert [one.state for one in await site.writer.standing(wanted)] == [ACKED]
    [heard] = [heard for heard in site.fake.requests if heard.path == "/api/comments/"]
    assert set(heard.query.split("&")) >= {"is_private=true", f"author={site.bot.id}", f"post={rain.post}"}
    assert [one.state for one in await site.send(wanted)] == [ACKED]
    assert len(site.fake.state.comments) == 1


async def test_mc_c4_another_comment_is_not_mistaken_for_it(site: Site) -> None:
    rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
    await site.send(batch(remark(snow), questions=(await asked(site, snow),)))
    await site.send(batch(remark(rain, "Another."), questions=(await asked(site, rain),)))
    assert [one.state for one in await site.writer.standing(batch(remark(rain)))] == [ABSENT]


async def test_mc_c5_a_withdrawal_is_done_once_the_end_is_past(site: Site) -> None:
    rain = site.fake.world.add_question()
    away = batch(intent(ref(rain), action=IntentAction.WITHDRAW))
    await site.send(batch(intent(ref(rain))))
    assert [one.state for one in await site.writer.standing(away)] == [ABSENT]
    assert [one.state for one in await site.send(away)] == [ACKED]
    assert site.ours(rain) == []
    assert [one.state for one in await site.writer.standing(away)] == [ACKED]
    assert [one.state for one in await site.writer.standing(batch(intent(ref(rain))))] == [ABSENT]


async def test_a_withdrawal_after_closing_is_taken(site: Site) -> None:
    rain = site.fake.world.add_question()
    await site.send(batch(intent(ref(rain))))
    site.fake.world.close(rain)
    assert [one.state for one in await site.send(batch(intent(ref(rain), action=IntentAction.WITHDRAW)))] == [ACKED]


async def test_a_question_that_closes_in_flight_is_a_refusal_that_stops_nothing(site: Site) -> None:
    rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
    wanted = await site.sealed(batch(intent(ref(rain)), intent(ref(snow))))
    site.fake.faults.next(Fault.CLOSING, method="POST")
    assert [one.state for one in await site.writer.submit(wanted)] == [REFUSED, ACKED]


async def test_a_refused_account_stops_the_writer(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.bot.access = "disabled"
    [receipt] = await site.writer.submit(wanted)
    assert (receipt.state, "not enabled" in receipt.detail) == (REFUSED, True)
    with pytest.raises(Unauthorized, match=r"venues\.metaculus\.settings"):
        await site.writer.seal(batch(intent(ref(rain))))
    assert TOKEN not in "".join(capfd.readouterr())


async def test_many_posts_that_refuse_this_account_are_an_alarm(site: Site, capfd: pytest.CaptureFixture[str]) -> None:
    there = [site.fake.world.add_question(f"Rain {n}?") for n in range(3)]
    wanted = await site.sealed(batch(*(intent(ref(one)) for one in there)))
    site.fake.world.aib.permission = "viewer"
    assert [one.state for one in await site.writer.submit(wanted)] == [REFUSED] * 3
    said = "".join(capfd.readouterr())
    assert "posts_in_a_row=3" in said
    assert "error" in said


async def test_mc_k1_no_public_comment_is_ever_sealed(site: Site) -> None:
    world = site.fake.world
    for there in (world.add_question(), world.add_group("Countries?", ["France"]).questions[0]):
        [sealed] = await site.writer.seal(batch(remark(there, name=str(there.id))))
        assert json.loads(sealed.body)["is_private"] is True


async def test_orders_are_not_sealed(site: Site) -> None:
    rain = site.fake.world.add_question()
    with pytest.raises(Rejected, match="nothing is traded"):
        await site.writer.seal(batch(intent(ref(rain), action=IntentAction.ORDER)))


async def test_mc_l1_and_reading_stay_out_of_the_judges_book(site: Site) -> None:
    rain = site.fake.world.add_question()
    await site.send(batch(intent(ref(rain))))
    assert site.fake.judge.violations == []
    assert site.fake.judge.most_at_once[str(site.bot.id)] == 1


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
    unpacked = Unpacked()
    unpacked.add(raw)
    asked = unpacked.entries[0].asked
    shape = question_of(unpacked.entries[0]).shape
    given: Prediction = Binary(0.6)
    if isinstance(shape, CurveShape):
        given = Curve(tuple(n / (len(shape.grid) - 1) for n in range(len(shape.grid))))
    elif asked.options:
        given = Choice({option: 1 / len(asked.options) for option in asked.options})
    settings = MetaculusSettings(token=SecretStr(TOKEN))
    http = DictHttp({f"https://www.metaculus.com/api/posts/{raw['id']}/": json.dumps(raw).encode()})
    clock = FakeClock(datetime(2026, 11, 22, tzinfo=UTC))
    writer = MetaculusWriter(settings, WriterPlace(clock=clock, http=http, folder=tmp_path, wire=MemoryWire()))
    [sealed] = await writer.seal(batch(intent(ref_of(raw["id"], asked.id), given)))
    [item] = json.loads(sealed.body)
    assert set(item) == {"question", form}
    assert item["question"] == asked.id


async def test_a_post_that_is_gone_is_refused_before_anything_is_written(site: Site) -> None:
    with pytest.raises(Rejected, match="not visible"):
        await site.writer.seal(batch(intent(ref_of(99999, 88888))))
    rain = site.fake.world.add_question()
    with pytest.raises(Rejected, match="not visible"):
        await site.writer.seal(batch(intent(ref_of(rain.post, 88888))))


async def test_reading_back_that_fails_is_unknown_and_a_refused_token_is_raised(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))
    site.fake.faults.next(Fault.ERROR_BEFORE, method="GET", times=3)
    assert [one.state for one in await site.writer.standing(wanted)] == [UNKNOWN]
    site.bot.token = OTHER
    with pytest.raises(Unauthorized):
        await site.writer.standing(wanted)


async def test_a_wire_that_may_have_sent_is_unknown_whatever_it_says(site: Site) -> None:
    rain = site.fake.world.add_question()
    wanted = await site.sealed(batch(intent(ref(rain))))

    def broken(_: Request) -> Reply:
        message = "broken off"
        raise Unavailable(message)

    for wire in (MemoryWire(broken), MemoryWire(lambda _: Reply(status=201, body=b"x" * 5_000_000))):
        writer = MetaculusWriter(site.settings, replace(site.place, wire=wire))
        assert [one.state for one in await writer.submit(wanted)] == [UNKNOWN]
