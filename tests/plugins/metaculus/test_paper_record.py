"""The paper record: forecasts as the venue would have taken them, and for how long they stood."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from pydantic import SecretStr

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    CurvePrediction,
    IntentAction,
    IntentState,
    PaperBookContext,
    Prediction,
    Question,
    RequestRejectedError,
    SealingSubmitter,
    SubmissionBatch,
    WriteReceipt,
    forecast_coverage,
)
from bot.stats.scores import binary_baseline_scores, peer_scores
from bot.testing.clock import FakeClock
from bot.testing.http import FakeHttpClient
from plugins.metaculus.cdf_rules import CdfRules
from plugins.metaculus.paper_record import MetaculusPaperRecord, open_paper
from plugins.metaculus.post_parser import MetaculusParsedPosts, build_question
from plugins.metaculus.settings import MetaculusSettings
from tests.plugins.metaculus.conftest import TOKEN, MetaculusFixture
from tests.plugins.metaculus.records import batch, choice, intent, numeric, post
from tests.plugins.metaculus.records import question as record

SETTINGS = MetaculusSettings(token=SecretStr(TOKEN))


def asked(raw: object) -> Question:
    unpacked = MetaculusParsedPosts()
    unpacked.add_post(post(question=raw))
    return build_question(unpacked.entries[0])


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


async def write(book: MetaculusPaperRecord, wanted: SubmissionBatch) -> list[WriteReceipt]:
    return list(await book.submit(replace(wanted, sealed=tuple(await book.seal_requests(wanted)))))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def book(tmp_path: Path, clock: FakeClock) -> AsyncIterator[MetaculusPaperRecord]:
    place = PaperBookContext(clock=clock, http=FakeHttpClient({}), folder=tmp_path, cash=1000.0, delay_s=2.0)
    async with open_paper(SETTINGS, place) as opened:
        yield cast("MetaculusPaperRecord", opened)


async def test_mc_s11_paper_sends_no_forecast_no_withdrawal_and_no_comment(
    site: MetaculusFixture, tmp_path: Path
) -> None:
    rain = site.fake.world.add_question()
    [question] = await site.questions()
    place = PaperBookContext(clock=site.clock, http=site.place.http, folder=tmp_path, cash=1000.0, delay_s=2.0)
    site.fake.requests.clear()
    async with open_paper(site.settings, place) as opened:
        assert isinstance(opened, SealingSubmitter)
        for action in (IntentAction.FORECAST, IntentAction.COMMENT, IntentAction.WITHDRAW):
            one = batch(intent(question.ref, action=action, text="Because."), questions=(question,))
            [receipt] = await write(cast("MetaculusPaperRecord", opened), one)
            assert receipt.state is IntentState.ACKED
            assert [read.state for read in await opened.read_submissions(one)] == [IntentState.ACKED]
    assert site.fake.requests == []
    assert rain.forecasts == []


async def test_what_is_kept_is_what_the_venue_would_have_taken(book: MetaculusPaperRecord, clock: FakeClock) -> None:
    spike = CurvePrediction((0.0,) * 100 + (1.0,) * 101)
    given: list[tuple[Question, Prediction]] = [
        (asked(record(50001)), BinaryPrediction(1.0)),
        (asked(choice(50002)), ChoicePrediction({"Red": 1.0, "Green": 0.0, "Other": 0.0})),
        (asked(numeric(50003)), spike),
    ]
    kept = {}
    for question, prediction in given:
        await write(book, batch(intent(question.ref, prediction), questions=(question,)))
        stood = await book.book.active_forecast(question.ref, "default", clock.now())
        assert stood is not None
        kept[question.shape.kind] = stood.predictions["outcome"]
    assert kept["binary"] == BinaryPrediction(0.999)
    assert kept["choice"] == ChoicePrediction({"Red": 0.998, "Green": 0.001, "Other": 0.001})
    curve = kept["curve"]
    assert isinstance(curve, CurvePrediction)
    assert CdfRules(steps=200, open_lower=False, open_upper=True).violations(curve.cdf) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"open_time": "2026-01-01T00:00:01Z"}, "not open yet"),
        ({"scheduled_close_time": "2026-01-01T00:00:50Z"}, "closed, or closes soon"),
        ({"scheduled_close_time": "2026-01-01T00:00:00Z", "open_time": "2025-12-31T00:00:00Z"}, "closed"),
    ],
)
async def test_what_could_not_be_sent_is_not_written_down(
    book: MetaculusPaperRecord, changes: dict[str, str], why: str
) -> None:
    question = asked(record() | changes)
    with pytest.raises(RequestRejectedError, match=why):
        await book.seal_requests(batch(intent(question.ref), questions=(question,)))


async def test_a_prediction_of_another_shape_is_not_written_down(book: MetaculusPaperRecord) -> None:
    question = asked(choice())
    with pytest.raises(RequestRejectedError, match="does not answer"):
        await book.seal_requests(
            batch(intent(question.ref, ChoicePrediction({"Red": 0.5, "Gone": 0.5})), questions=(question,))
        )


async def test_an_empty_comment_is_not_written_down(book: MetaculusPaperRecord) -> None:
    question = asked(record())
    with pytest.raises(RequestRejectedError, match="is empty"):
        await book.seal_requests(
            batch(intent(question.ref, action=IntentAction.COMMENT, text=" "), questions=(question,))
        )


async def test_golden_13_3_what_stood_is_scored_as_the_server_scores_it(
    book: MetaculusPaperRecord, clock: FakeClock
) -> None:
    # See docs/facts/metaculus.md#score-figures: the binary question with a window of 45 s.
    opened, close = moment(1795292807.01732), moment(1795292852.01732)
    raw = record(open_time=opened.isoformat(), scheduled_close_time=(close + timedelta(minutes=1)).isoformat())
    question = asked(raw)
    clock.set_wall_clock((moment(1795292817.678212) - clock.now()).total_seconds())
    await write(book, batch(intent(question.ref, BinaryPrediction(0.8)), questions=(question,)))
    history = await book.book.forecast_history(question.ref, "default")
    share = forecast_coverage(history, opened, close)
    assert share == pytest.approx(0.7630912886725532, abs=1e-6)
    stood = await book.book.active_forecast(question.ref, "default", close)
    assert stood is not None
    own = cast("BinaryPrediction", stood.predictions["outcome"]).probability
    spot = binary_baseline_scores([own], [1.0])[0]
    assert spot == pytest.approx(67.80719051126378, abs=1e-9)
    assert spot * share == pytest.approx(51.7430763885056, abs=1e-4)
    together = (close - moment(1795292818.969561)) / (close - opened)
    assert peer_scores([own, 0.5])[0] * together == pytest.approx(34.51681462831987, abs=1e-4)


async def test_a_withdrawn_forecast_scores_nothing_after(book: MetaculusPaperRecord, clock: FakeClock) -> None:
    question = asked(record())
    await write(book, batch(intent(question.ref), questions=(question,)))
    clock.set_wall_clock(60)
    await write(book, batch(intent(question.ref, action=IntentAction.WITHDRAW), questions=(question,)))
    assert await book.book.active_forecast(question.ref, "default", clock.now()) is None
    assert await book.book.active_forecast(question.ref, "default", clock.now() - timedelta(seconds=1)) is not None
