from dataclasses import replace
from datetime import timedelta

from bot.core.language_models import CostAttribution, ModelPerformance
from bot.store.model_calls import CallReservation, ModelDemotion
from tests.unit.store.conftest import NOON, LedgerFixture

HOUR = timedelta(hours=1)
GOOD = ModelPerformance(
    role="forecaster", model="house:small", asked=7, unparsed=1, submitted=True, submission_gap=0.125, beliefs=7
)
BAD = ModelPerformance(
    role="forecaster",
    model="house:small",
    asked=7,
    unparsed=7,
    submitted=False,
    ended_at_half=True,
    beliefs=6,
    unread_beliefs=5,
    errors=2,
)


async def test_how_a_model_did_comes_back_as_it_was_newest_first(ledger_fixture: LedgerFixture) -> None:
    conducts = ledger_fixture.ledger.model_performance
    judge = ModelPerformance(role="judge", model="house:small", asked=1, unparsed=0)
    for hour, conduct in enumerate((GOOD, BAD, judge)):
        await conducts.add(conduct, scope="f1", trial=hour + 1, at=NOON + hour * HOUR)
    await conducts.add(replace(GOOD, model="house:large"), scope="f1", trial=1, at=NOON)
    assert await conducts.recent("house:small", limit=9) == (judge, BAD, GOOD)
    assert await conducts.recent("house:small", limit=2) == (judge, BAD)
    assert await conducts.recent("house:small", role="forecaster", limit=9) == (BAD, GOOD)
    assert await conducts.recent("house:small", role="critic", limit=9) == ()
    assert await conducts.recent("house:unknown", limit=9) == ()
    assert await conducts.models() == ("house:large", "house:small")


async def test_of_one_moment_the_conduct_written_last_is_the_newest(ledger_fixture: LedgerFixture) -> None:
    for trial, conduct in enumerate((GOOD, BAD), 1):
        await ledger_fixture.ledger.model_performance.add(conduct, scope="f1", trial=trial, at=NOON)
    assert await ledger_fixture.ledger.model_performance.recent("house:small", limit=1) == (BAD,)


async def test_conducts_up_to_a_moment_can_be_left_out(ledger_fixture: LedgerFixture) -> None:
    conducts = ledger_fixture.ledger.model_performance
    await conducts.add(BAD, scope="f1", trial=1, at=NOON)
    await conducts.add(GOOD, scope="f1", trial=2, at=NOON + HOUR)
    assert await conducts.recent("house:small", limit=9, after=NOON - HOUR) == (GOOD, BAD)
    assert await conducts.recent("house:small", limit=9, after=NOON) == (GOOD,)
    assert await conducts.recent("house:small", limit=9, after=NOON + HOUR) == ()


async def test_a_trial_taken_up_again_is_graded_once(ledger_fixture: LedgerFixture) -> None:
    conducts = ledger_fixture.ledger.model_performance
    for conduct in (GOOD, GOOD, BAD):
        await conducts.add(conduct, scope="f1", trial=1, at=NOON)
    assert await conducts.recent("house:small", limit=9) == (GOOD,)
    await conducts.add(replace(BAD, role="judge"), scope="f1", trial=1, at=NOON)
    assert len(await conducts.recent("house:small", limit=9)) == 2


async def test_one_half_is_counted_by_question_newest_first(ledger_fixture: LedgerFixture) -> None:
    conducts = ledger_fixture.ledger.model_performance
    even = replace(GOOD, ended_at_half=True)
    for number, (scope, conduct) in enumerate([("f1", even), ("f1", even), ("f1", even), ("f1", GOOD), ("f2", GOOD)]):
        await conducts.add(conduct, scope=scope, trial=number, at=NOON + number * HOUR)
    await conducts.add(replace(even, role="judge"), scope="f3", trial=1, at=NOON)
    assert await conducts.shares_ended_at_half("house:small", role="forecaster", limit=9) == (0.0, 0.75)
    assert await conducts.shares_ended_at_half("house:small", role="forecaster", limit=1) == (0.0,)
    assert await conducts.shares_ended_at_half("house:small", role="forecaster", limit=9, after=NOON + 2 * HOUR) == (
        0.0,
        0.0,
    )
    assert await conducts.shares_ended_at_half("house:small", role="critic", limit=9) == ()


async def test_the_latest_trials_of_each_forecaster_role_and_model_stand_together(
    ledger_fixture: LedgerFixture,
) -> None:
    conducts, calls = ledger_fixture.ledger.model_performance, ledger_fixture.ledger.calls
    for scope, forecaster in (("f1", "plain"), ("f2", "court")):
        reservation = CallReservation(
            id=scope,
            at=NOON,
            charge=CostAttribution(scope=scope, ref="lantern:rain", venue="lantern", forecaster=forecaster, trial=1),
            role="forecaster",
            provider="house",
            model="house:small",
            request=scope,
            worst_usd=1.0,
        )
        await calls.reserve(reservation)
    judge = replace(GOOD, role="judge")
    for trial, (scope, conduct) in enumerate([("f1", BAD), ("f1", GOOD), ("f1", judge), ("f2", GOOD), ("f3", BAD)]):
        await conducts.add(conduct, scope=scope, trial=trial, at=NOON + trial * HOUR)
    found = await conducts.latest(limit=9, after=NOON - HOUR)
    assert [(one.forecaster, one.role, one.model, one.trials) for one in found] == [
        ("", "forecaster", "house:small", (BAD,)),
        ("court", "forecaster", "house:small", (GOOD,)),
        ("plain", "forecaster", "house:small", (GOOD, BAD)),
        ("plain", "judge", "house:small", (judge,)),
    ]
    limited = await conducts.latest(limit=1, after=NOON)
    assert [one.trials for one in limited] == [(BAD,), (GOOD,), (GOOD,), (judge,)]
    assert await conducts.latest(limit=9, after=NOON + 9 * HOUR) == ()


async def test_a_model_is_demoted_until_its_time_is_over(ledger_fixture: LedgerFixture) -> None:
    demotion = ModelDemotion(model="house:small", at=NOON, until=NOON + HOUR, why="it never submits")
    await ledger_fixture.ledger.model_performance.demote(demotion)
    assert await ledger_fixture.ledger.model_performance.demotions(now=NOON) == (demotion,)
    assert await ledger_fixture.ledger.model_performance.demotions(now=NOON + HOUR - timedelta.resolution) == (
        demotion,
    )
    assert await ledger_fixture.ledger.model_performance.demotions(now=NOON + HOUR) == ()


async def test_a_demotion_is_for_one_role(ledger_fixture: LedgerFixture) -> None:
    conducts = ledger_fixture.ledger.model_performance
    judge = ModelDemotion(model="house:small", role="judge", at=NOON, until=NOON + HOUR, why="as a judge: it is asleep")
    main = ModelDemotion(model="house:small", role="main", at=NOON, until=NOON + HOUR, why="it never submits")
    for demotion in (main, judge):
        await conducts.demote(demotion)
    assert await conducts.demotions(now=NOON) == (judge, main)
    assert ledger_fixture.rows("select role, why from demotion where role = 'main'") == [("main", "it never submits")]


async def test_of_many_demotions_of_a_model_the_latest_in_force_counts(ledger_fixture: LedgerFixture) -> None:
    conducts = ledger_fixture.ledger.model_performance
    first = ModelDemotion(model="house:small", at=NOON, until=NOON + 9 * HOUR, why="first")
    second = ModelDemotion(model="house:small", at=NOON + HOUR, until=NOON + 3 * HOUR, why="second")
    other = ModelDemotion(model="house:large", at=NOON, until=NOON + 2 * HOUR, why="other")
    for demotion in (second, first, other):
        await conducts.demote(demotion)
    assert await conducts.demotions(now=NOON + HOUR) == (other, second)
    assert await conducts.demotions(now=NOON + 5 * HOUR) == (first,)
