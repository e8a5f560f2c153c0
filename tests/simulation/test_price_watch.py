"""A watch on prices over a real ledger in virtual time: days of quotes, silences and failures."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.core.errors import AuthenticationError, MalformedDataError, ServiceUnavailableError, StoreError
from bot.core.predictions import BinaryPrediction, ChoicePrediction
from bot.core.questions import CrowdForecast, QuestionRef
from bot.jobs.price_watch import (
    RECORD_INTERVAL_S,
    RESELECT_INTERVAL_S,
    UNAUTHORIZED_WAIT_S,
    WATCH_INTERVAL,
    WATCH_RUN_S,
)
from tests.simulation.virtual_price_watch import VirtualPriceWatch, play, served, twice
from tests.unit.store.conftest import NOON

HOUR = 3600.0


def test_a_price_that_moves_far_is_recorded_and_makes_the_question_due(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        stand.quote(0.45)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        assert stand.prices() == [0.25, 0.45]
        # ln(0.45/0.55) - ln(0.25/0.75) = 0.898
        assert stand.dues() == [("lantern:rain", "plain", "price moved by 0.90 in log-odds")]
        (due_at,) = stand.ledger_fixture.rows("select due_at from schedule")
        assert datetime.fromisoformat(due_at[0]) == NOON + timedelta(minutes=10)

    assert play(tmp_path, scenario) == "lantern: 1 quotes, 1 prices moved, 1 planned"


def test_small_moves_are_not_written_down_until_they_add_up_and_never_make_due_alone(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        for price in (0.252, 0.254, 0.256, 0.258, 0.26, 0.262):
            stand.quote(price)
            await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        # The first that is 0.05 in log-odds away from 0.25: ln(0.26/0.74) - ln(0.25/0.75) = 0.0526.
        assert stand.prices() == [0.25, 0.26]
        assert stand.dues() == []

    assert play(tmp_path, scenario).startswith("lantern: 6 quotes, 1 prices moved, 0 planned")


def test_a_flood_of_quotes_costs_one_write_every_few_seconds(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        for number in range(2000):
            stand.quote(0.3 if number % 2 else 0.6)
            await stand.clock.sleep(0.01)
        assert len(stand.prices()) <= 2 + 20.0 / RECORD_INTERVAL_S

    assert play(tmp_path, scenario).startswith("lantern: 2000 quotes")


def test_a_silent_feed_wakes_nobody_but_to_choose_and_its_next_move_is_on_record_as_soon(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        before = stand.clock.loop.turns
        await stand.clock.sleep(4.0 * HOUR)
        assert stand.clock.loop.turns - before < 4.0 * HOUR / RECORD_INTERVAL_S
        stand.quote(0.45)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        assert stand.prices() == [0.25, 0.45]

    assert play(tmp_path, scenario) == "lantern: 1 quotes, 1 prices moved, 1 planned"


def test_repeated_late_and_unwanted_quotes_leave_no_trace(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        stand.quote(0.5)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        stand.quote(ChoicePrediction({"a": 0.5, "b": 0.5}))
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        stand.quote(0.5)
        stand.quote(0.7, ago_s=30.0)
        stand.quote(0.7, key="snow")
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        assert stand.prices() == [0.25, 0.5]

    play(tmp_path, scenario)


def test_a_quote_heard_before_what_was_polled_is_old_news(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        question = await stand.add()
        await stand.begin()
        assert question.crowd is not None
        stand.quote(0.3)
        await stand.clock.sleep(1.0)
        polled = replace(
            question, crowd=replace(question.crowd, prediction=BinaryPrediction(0.8), at=stand.clock.now())
        )
        await stand.ledger.questions.record([polled], seen_at=stand.clock.now())
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        stand.quote(0.4)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        assert stand.prices() == [0.25, 0.8, 0.4]

    play(tmp_path, scenario)


@pytest.mark.parametrize("behind_s", [200.0, -200.0])
def test_the_clock_of_a_feed_may_be_wrong(tmp_path: Path, behind_s: float) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        crowd = CrowdForecast(prediction=BinaryPrediction(0.5), at=stand.clock.now())
        await stand.add(crowd=crowd)
        await stand.begin()
        for price in (0.6, 0.75, 0.9):
            heard = stand.clock.now()
            stand.quote(price, ago_s=behind_s)
            await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
            current = (await stand.ledger.questions.get(QuestionRef("lantern", "rain"))).crowd
            assert current is not None
            assert heard <= current.at <= heard + timedelta(seconds=1)
        assert stand.prices() == [0.5, 0.6, 0.75, 0.9]

    play(tmp_path, scenario)


def test_a_polled_price_under_a_time_to_come_keeps_no_move_back(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        crowd = CrowdForecast(prediction=BinaryPrediction(0.5), at=stand.clock.now() + timedelta(hours=1))
        await stand.add(crowd=crowd)
        await stand.begin()
        stand.quote(0.9)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        assert stand.prices() == [0.5, 0.9]

    play(tmp_path, scenario)


def test_a_text_that_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        question = await stand.add()
        await stand.begin()
        await stand.ledger.questions.record([replace(question, title="Snow?")], seen_at=stand.clock.now())
        stand.quote(0.5)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        current = await stand.ledger.questions.get(question.ref)
        assert (current.title, current.crowd and current.crowd.prediction) == ("Snow?", BinaryPrediction(0.5))
        [(ref, forecaster, why)] = stand.dues()
        assert (ref, forecaster, why.split(":")[0]) == ("lantern:rain", "plain", "the question changed")

    play(tmp_path, scenario)


def test_only_what_is_open_and_forecast_is_watched_the_soonest_to_close_first(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        for key, days in (("never", 30), ("late", 20), ("soon", 2), ("middle", 10), ("gone", -1)):
            await stand.add(key, closes_at=NOON + timedelta(days=days))
        await stand.add("new", forecast=False, closes_at=NOON + timedelta(days=1))
        done = await stand.add("done", closes_at=NOON + timedelta(days=1))
        await stand.ledger_fixture.resolve(done, 1.0)
        await stand.begin()
        assert stand.feed.requested_questions == [
            tuple(QuestionRef("lantern", key) for key in ("soon", "middle", "late"))
        ]

    play(tmp_path, scenario, most=3)


def test_the_feed_is_opened_anew_when_there_are_other_questions_and_not_while_they_stay(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        rain, snow = QuestionRef("lantern", "rain"), QuestionRef("lantern", "snow")
        await stand.add("rain")
        await stand.begin()
        await stand.clock.sleep(4 * RESELECT_INTERVAL_S)
        assert stand.feed.requested_questions == [(rain,)]
        await stand.add("snow")
        await stand.clock.sleep(2 * RESELECT_INTERVAL_S)
        assert [set(refs) for refs in stand.feed.requested_questions] == [{rain}, {rain, snow}]
        stand.quote(0.9, key="snow")
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        assert stand.prices("snow") == [0.25, 0.9]

    play(tmp_path, scenario)


def test_a_feed_that_stays_silent_is_opened_again_after_longer_and_longer_waits_and_told_once(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        for _ in range(1000):
            stand.feed.end_with_error(ServiceUnavailableError("silent"))
        await stand.begin()
        await stand.clock.sleep(24 * HOUR - 60.0)
        # At their longest the waits are 150 s on average: 24 h / 150 s = 576.
        assert 450 < len(stand.feed.requested_questions) < 720

    with capture_logs() as logs:
        play(tmp_path, scenario)
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == ["prices cannot be watched"]


def test_a_feed_that_breaks_once_a_day_is_opened_again_at_once_without_a_word(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        for number in range(5):
            await stand.clock.sleep(HOUR)
            stand.quote(0.3 + number / 10)
            stand.feed.end_with_error(ServiceUnavailableError("ended")) if number % 2 else stand.feed.end_feed()
        await stand.clock.sleep(60.0)
        assert len(stand.feed.requested_questions) == 6
        assert stand.feed.listener_count == 1
        assert stand.prices()[-1] == 0.7

    with capture_logs() as logs:
        play(tmp_path, scenario)
    assert [log for log in logs if log["log_level"] in {"warning", "error"}] == []


def test_a_feed_that_works_again_says_so(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        for _ in range(3):
            stand.feed.end_with_error(ServiceUnavailableError("down"))
        await stand.begin()
        await stand.clock.sleep(HOUR)
        stand.quote(0.5)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)

    with capture_logs() as logs:
        play(tmp_path, scenario)
    reported = [log["event"] for log in logs if log["event"].startswith("prices")]
    assert reported == ["prices cannot be watched", "prices are watched again"]


def test_the_wait_that_the_other_side_asks_for_is_kept(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        stand.feed.end_with_error(ServiceUnavailableError("429", retry_after_s=1800.0))
        await stand.clock.sleep(1790.0)
        assert len(stand.feed.requested_questions) == 1
        await stand.clock.sleep(20.0)
        assert len(stand.feed.requested_questions) == 2

    play(tmp_path, scenario)


def test_refused_credentials_are_told_and_tried_again_after_an_hour(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        stand.feed.end_with_error(AuthenticationError("401"))
        await stand.clock.sleep(UNAUTHORIZED_WAIT_S - 10.0)
        assert len(stand.feed.requested_questions) == 1
        await stand.clock.sleep(20.0)
        assert len(stand.feed.requested_questions) == 2

    with capture_logs() as logs:
        play(tmp_path, scenario)
    assert [log["why"] for log in logs if log["log_level"] == "error"] == ["401"]


@pytest.mark.parametrize("error", [MalformedDataError("odd"), StoreError("full"), ZeroDivisionError()])
def test_what_no_waiting_mends_ends_the_run_and_is_for_the_daemon_to_record(tmp_path: Path, error: Exception) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        stand.feed.end_with_error(error)
        await stand.begin()
        await stand.clock.sleep(2 * RESELECT_INTERVAL_S)

    with pytest.raises(type(error)):
        play(tmp_path, scenario)


def test_under_the_daemon_a_watch_that_fails_begins_again_within_a_minute(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        stand.feed.end_with_error(ZeroDivisionError())
        await stand.clock.sleep(WATCH_INTERVAL.total_seconds() + 10.0)
        assert len(stand.feed.requested_questions) == 2
        stand.quote(0.5)
        await stand.clock.sleep(RECORD_INTERVAL_S + 1.0)
        assert stand.prices() == [0.25, 0.5]

    assert play(tmp_path, scenario, run=served) == "failed done"


def test_what_a_failed_read_of_the_ledger_leaves_of_a_batch_is_recorded_by_the_next_run(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        for key in ("rain", "snow"):
            await stand.add(key)
        await stand.begin()
        stand.question_readers.failures = 1
        for key in ("rain", "snow"):
            stand.quote(0.5, key=key)
        await stand.clock.sleep(WATCH_INTERVAL.total_seconds() + 3.0 * RECORD_INTERVAL_S)
        assert [stand.prices(key) for key in ("rain", "snow")] == [[0.25, 0.5], [0.25, 0.5]]

    assert play(tmp_path, scenario, run=served) == "failed done"


def test_the_connection_is_made_anew_every_day(tmp_path: Path) -> None:
    async def scenario(stand: VirtualPriceWatch) -> None:
        await stand.add()
        await stand.begin()
        await stand.clock.sleep(WATCH_RUN_S - 10.0)
        assert len(stand.feed.requested_questions) == 1
        await stand.clock.sleep(60.0)
        assert len(stand.feed.requested_questions) == 2

    play(tmp_path, scenario, run=twice)


def test_asked_to_stop_it_ends_within_a_moment_also_while_it_waits(tmp_path: Path) -> None:
    for failures in (0, 12):

        async def scenario(stand: VirtualPriceWatch, failures: int = failures) -> None:
            await stand.add()
            for _ in range(failures):
                stand.feed.end_with_error(ServiceUnavailableError("down"))
            await stand.begin()
            await stand.clock.sleep(HOUR)
            ended = asyncio.get_running_loop().time()
            stand.stopping.set()
            while stand.feed.listener_count:
                await stand.clock.sleep(0.01)
            assert asyncio.get_running_loop().time() - ended < 0.1

        folder = tmp_path / str(failures)
        folder.mkdir()
        play(folder, scenario)
