"""A question that is edited after its forecast: what its writer reads decides, and nothing is sent to the new one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from bot.api import ChoicePrediction, CurvePrediction, Intent, IntentAction, IntentState
from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion as There
from bot.simulator.venues.metaculus_state import QuestionScaling
from bot.simulator.venues.metaculus_world import question_scaling
from bot.store.forecast_queries import read_forecast_status
from plugins.metaculus.question_names import question_ref
from tests.plugins.metaculus.conftest import MetaculusFixture
from tests.plugins.metaculus.test_through_outbox import OutboxSetup
from tests.plugins.metaculus.test_through_outbox import outbox_setup as desk_fixture
from tests.recorded_forecasts import record_forecast

outbox_setup = desk_fixture

YEAR = timedelta(days=365)
LINEAR = question_scaling(0.0, 100.0)
LOG = question_scaling(1.0, 1000.0, zero_point=0.0)


def numeric(site: MetaculusFixture, scaling: QuestionScaling = LINEAR, **fields: Any) -> There:
    return site.fake.world.add_question("How much rain?", type="numeric", scaling=scaling, **fields)


def dated(site: MetaculusFixture) -> There:
    begin = site.clock.now()
    span = question_scaling(begin.timestamp(), (begin + timedelta(days=90)).timestamp())
    return site.fake.world.add_question("When will it rain?", type="date", scaling=span)


def chosen(site: MetaculusFixture) -> There:
    return site.fake.world.add_question("Which?", type="multiple_choice", options=["A", "B", "Other"])


def rescaled(**changes: Any) -> Callable[[MetaculusFixture, There], None]:
    def edit(site: MetaculusFixture, there: There) -> None:
        assert there.scaling is not None
        site.fake.world.edit(there, scaling=replace(there.scaling, **changes))

    return edit


def edited(**fields: Any) -> Callable[[MetaculusFixture, There], None]:
    return lambda site, there: site.fake.world.edit(there, **fields)


def a_year_longer(site: MetaculusFixture, there: There) -> None:
    assert there.scaling is not None
    rescaled(high=there.scaling.high + YEAR.total_seconds())(site, there)


def closing_a_year_later(site: MetaculusFixture, there: There) -> None:
    site.fake.world.edit(there, scheduled_close=there.scheduled_close + YEAR)


def resolving_a_year_later(site: MetaculusFixture, there: There) -> None:
    site.fake.world.edit(there, scheduled_resolve=there.scheduled_resolve + YEAR)


def with_option_d(site: MetaculusFixture, there: There) -> None:
    site.fake.world.change_options(there, ["A", "B", "D", "Other"])


@dataclass(frozen=True, slots=True)
class QuestionEdit:
    """A question, what is done to it after its forecast, and what a person reads of it."""

    ask: Callable[[MetaculusFixture], There]
    edit: Callable[[MetaculusFixture, There], None]
    expected_changes: tuple[str, ...]


EDITS = {
    "the range": QuestionEdit(numeric, rescaled(high=200.0), ("the range was 0 to 100 and is 0 to 200 now",)),
    "linear to log": QuestionEdit(
        lambda site: numeric(site, question_scaling(1.0, 1000.0)),
        rescaled(zero_point=0.0),
        ("the scale was linear and is logarithmic now",),
    ),
    "the zero point": QuestionEdit(
        lambda site: numeric(site, LOG),
        rescaled(zero_point=-50.0),
        ("the zero point of the logarithmic scale changed",),
    ),
    "an open bound": QuestionEdit(numeric, rescaled(open_upper=True), ("the upper bound was closed and is open now",)),
    "a closed bound": QuestionEdit(
        lambda site: numeric(site, question_scaling(0.0, 100.0, open_lower=True)),
        rescaled(open_lower=False),
        ("the lower bound was open and is closed now",),
    ),
    "the grid": QuestionEdit(
        lambda site: numeric(site, question_scaling(0.0, 9.0, count=10)),
        lambda site, there: site.fake.world.edit(there, scaling=question_scaling(0.0, 10.0, count=11)),
        ("the range was cut into 10 steps and is cut into 11 now",),
    ),
    "the dates": QuestionEdit(dated, a_year_longer, ("the range was", "now")),
    "title and criteria": QuestionEdit(
        numeric,
        edited(title="How much snow?", criteria="Resolves by another source."),
        ('is "How much snow?" now', "the resolution criteria changed"),
    ),
    "fine print": QuestionEdit(numeric, edited(fine_print="But not in May."), ("the resolution criteria changed",)),
    "description": QuestionEdit(numeric, edited(description="Other background."), ("the description changed",)),
    "closing": QuestionEdit(numeric, closing_a_year_later, ("it was to close on", "and closes on")),
    "resolving": QuestionEdit(numeric, resolving_a_year_later, ("it was to be resolved on", "and is on")),
    "an option added": QuestionEdit(chosen, with_option_d, ('option "D" was added',)),
    "an option removed": QuestionEdit(chosen, edited(options=["A", "Other"]), ('option "B" was removed',)),
    "the kind": QuestionEdit(
        numeric, edited(type="binary", scaling=None), ("the kind was a number or a date and is yes or no now",)
    ),
}


async def plan(outbox_setup: OutboxSetup, there: There) -> Intent:
    """A forecast of the question as it is now, decided to leave."""
    now = outbox_setup.site.clock.now()
    question = await outbox_setup.site.reader.find_question(question_ref(there.post, there.id).key)
    await outbox_setup.ledger.questions.record([question], seen_at=now)
    if there.options is None:
        steps = len(question.shape.grid) - 1  # type: ignore[union-attr]
        low, high = (0.05 if there.scaling and there.scaling.open_lower else 0.0), 1.0
        belief: Any = CurvePrediction(tuple(low + (high - low) * step / steps for step in range(steps + 1)))
    else:
        belief = ChoicePrediction({option: 1.0 / len(there.options) for option in there.options})
    forecast = await record_forecast(outbox_setup.ledger, question, {"outcome": belief}, now)
    name = f"intent-{forecast.id}"
    intent = Intent(
        id=name,
        account="default",
        ref=question.ref,
        forecast=forecast.id,
        action=IntentAction.FORECAST,
        predictions=forecast.predictions,
        batch=name,
    )
    return await outbox_setup.decide(intent)


@pytest.mark.parametrize("name", EDITS)
async def test_nothing_is_sent_onto_a_question_that_changed_after_its_forecast(
    outbox_setup: OutboxSetup, name: str
) -> None:
    case, site = EDITS[name], outbox_setup.site
    there = case.ask(site)
    intent = await plan(outbox_setup, there)
    case.edit(site, there)
    assert await outbox_setup.outbox.flush() == 0
    assert there.forecasts_of(site.bot.id) == []
    assert "/api/questions/forecast/" not in site.writes()
    assert await outbox_setup.state(intent) is IntentState.SUPERSEDED
    [*_, held] = await outbox_setup.ledger.submissions.decisions(intent.forecast)
    assert [words for words in case.expected_changes if words not in held.decision.why] == [], held.decision.why


@pytest.mark.parametrize("name", EDITS)
async def test_it_is_on_record_as_it_is_now_and_due_at_once(outbox_setup: OutboxSetup, name: str) -> None:
    case, site = EDITS[name], outbox_setup.site
    there = case.ask(site)
    intent = await plan(outbox_setup, there)
    case.edit(site, there)
    await outbox_setup.outbox.flush()
    now = await site.reader.find_question(question_ref(there.post, there.id).key)
    known = await outbox_setup.ledger.questions.get(intent.ref)
    assert known.without_metadata == now.without_metadata
    # Held between the reading and the forecast by nothing: neither by a gap between forecasts.
    place = (await read_forecast_status(outbox_setup.ledger.forecasts.readers, intent.ref, "plain")).place
    assert place is not None
    assert place.due_at == site.clock.now()
    assert [words for words in case.expected_changes if words not in place.why] == []


async def test_what_moves_without_another_question_holds_nothing(outbox_setup: OutboxSetup) -> None:
    site = outbox_setup.site
    there = numeric(site)
    intent = await plan(outbox_setup, there)
    site.fake.world.edit(there, weight=0.5, score_type="spot_peer")
    other = site.fake.world.add_user("other")
    site.fake.world.forecast(other, there, [step / 200 for step in range(201)])
    assert await outbox_setup.outbox.flush() == 1
    assert await outbox_setup.state(intent) is IntentState.ACKED
    [attempt] = await outbox_setup.ledger.submissions.attempts([intent.id])
    assert attempt.version == await outbox_setup.ledger.questions.current_version(intent.ref)


async def test_a_list_that_lags_does_not_bring_the_old_text_back(outbox_setup: OutboxSetup) -> None:
    site = outbox_setup.site
    there = numeric(site)
    before = await site.reader.find_question(question_ref(there.post, there.id).key)
    intent = await plan(outbox_setup, there)
    rescaled(high=200.0)(site, there)
    await outbox_setup.outbox.flush()
    newer = await outbox_setup.ledger.questions.get(intent.ref)
    lagging = await outbox_setup.ledger.questions.record([before], seen_at=site.clock.now() + timedelta(minutes=5))
    assert lagging.outdated == {intent.ref}
    assert (await outbox_setup.ledger.questions.get(intent.ref)).without_metadata == newer.without_metadata
    late = await outbox_setup.ledger.questions.record([before], seen_at=site.clock.now() + timedelta(hours=2))
    assert (late.changed, late.outdated) == (1, frozenset())
