from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from sqlite_utils import Database, Migrations

from bot.domain.conduct import Conduct
from bot.domain.inquiry import Charge
from bot.store.calls import Reservation
from bot.store.codec import stamp
from bot.store.conducts import Demotion
from bot.store.schema import MIGRATIONS
from tests.unit.store.conftest import NOON, Scribe

HOUR = timedelta(hours=1)
GOOD = Conduct(role="forecaster", model="house:small", asked=7, unparsed=1, submitted=True, gap=0.125, beliefs=7)
BAD = Conduct(
    role="forecaster",
    model="house:small",
    asked=7,
    unparsed=7,
    submitted=False,
    half=True,
    beliefs=6,
    unread_beliefs=5,
    errors=2,
)


async def test_how_a_model_did_comes_back_as_it_was_newest_first(scribe: Scribe) -> None:
    conducts = scribe.ledger.conducts
    judge = Conduct(role="judge", model="house:small", asked=1, unparsed=0)
    for hour, conduct in enumerate((GOOD, BAD, judge)):
        await conducts.add(conduct, scope="f1", trial=hour + 1, at=NOON + hour * HOUR)
    await conducts.add(replace(GOOD, model="house:large"), scope="f1", trial=1, at=NOON)
    assert await conducts.recent("house:small", limit=9) == (judge, BAD, GOOD)
    assert await conducts.recent("house:small", limit=2) == (judge, BAD)
    assert await conducts.recent("house:small", role="forecaster", limit=9) == (BAD, GOOD)
    assert await conducts.recent("house:small", role="critic", limit=9) == ()
    assert await conducts.recent("house:unknown", limit=9) == ()
    assert await conducts.models() == ("house:large", "house:small")


async def test_of_one_moment_the_conduct_written_last_is_the_newest(scribe: Scribe) -> None:
    for trial, conduct in enumerate((GOOD, BAD), 1):
        await scribe.ledger.conducts.add(conduct, scope="f1", trial=trial, at=NOON)
    assert await scribe.ledger.conducts.recent("house:small", limit=1) == (BAD,)


async def test_conducts_up_to_a_moment_can_be_left_out(scribe: Scribe) -> None:
    conducts = scribe.ledger.conducts
    await conducts.add(BAD, scope="f1", trial=1, at=NOON)
    await conducts.add(GOOD, scope="f1", trial=2, at=NOON + HOUR)
    assert await conducts.recent("house:small", limit=9, after=NOON - HOUR) == (GOOD, BAD)
    assert await conducts.recent("house:small", limit=9, after=NOON) == (GOOD,)
    assert await conducts.recent("house:small", limit=9, after=NOON + HOUR) == ()


async def test_a_trial_taken_up_again_is_graded_once(scribe: Scribe) -> None:
    conducts = scribe.ledger.conducts
    for conduct in (GOOD, GOOD, BAD):
        await conducts.add(conduct, scope="f1", trial=1, at=NOON)
    assert await conducts.recent("house:small", limit=9) == (GOOD,)
    await conducts.add(replace(BAD, role="judge"), scope="f1", trial=1, at=NOON)
    assert len(await conducts.recent("house:small", limit=9)) == 2


async def test_one_half_is_counted_by_question_newest_first(scribe: Scribe) -> None:
    conducts = scribe.ledger.conducts
    even = replace(GOOD, half=True)
    for number, (scope, conduct) in enumerate([("f1", even), ("f1", even), ("f1", even), ("f1", GOOD), ("f2", GOOD)]):
        await conducts.add(conduct, scope=scope, trial=number, at=NOON + number * HOUR)
    await conducts.add(replace(even, role="judge"), scope="f3", trial=1, at=NOON)
    assert await conducts.halves("house:small", role="forecaster", limit=9) == (0.0, 0.75)
    assert await conducts.halves("house:small", role="forecaster", limit=1) == (0.0,)
    assert await conducts.halves("house:small", role="forecaster", limit=9, after=NOON + 2 * HOUR) == (0.0, 0.0)
    assert await conducts.halves("house:small", role="critic", limit=9) == ()


async def test_the_latest_trials_of_each_forecaster_role_and_model_stand_together(scribe: Scribe) -> None:
    conducts, calls = scribe.ledger.conducts, scribe.ledger.calls
    for scope, forecaster in (("f1", "plain"), ("f2", "court")):
        reservation = Reservation(
            id=scope,
            at=NOON,
            charge=Charge(scope=scope, ref="lantern:rain", venue="lantern", forecaster=forecaster, trial=1),
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
    assert [(one.forecaster, one.role, one.model, one.conducts) for one in found] == [
        ("", "forecaster", "house:small", (BAD,)),
        ("court", "forecaster", "house:small", (GOOD,)),
        ("plain", "forecaster", "house:small", (GOOD, BAD)),
        ("plain", "judge", "house:small", (judge,)),
    ]
    limited = await conducts.latest(limit=1, after=NOON)
    assert [one.conducts for one in limited] == [(BAD,), (GOOD,), (GOOD,), (judge,)]
    assert await conducts.latest(limit=9, after=NOON + 9 * HOUR) == ()


def test_of_trials_from_before_these_figures_nothing_is_held_against_a_model(tmp_path: Path) -> None:
    older, newest = Migrations("foxcast"), "0009_beliefs"
    database = Database(tmp_path / "ledger.sqlite")
    for one in MIGRATIONS.pending(database):
        if one.name < newest:
            older(name=one.name)(one.fn)
    older.apply(database)
    row = {"scope": "f1", "trial": 1, "role": "main", "model": "house:small", "at": stamp(NOON)}
    database.table("conduct").insert({**row, "asked": 7, "unparsed": 1, "submitted": 1, "half": 0, "gap": 0.0})
    MIGRATIONS.apply(database)
    found = database.execute("select beliefs, unread_beliefs, errors from conduct").fetchall()
    database.close()
    assert found == [(0, 0, 0)]


async def test_a_model_is_demoted_until_its_time_is_over(scribe: Scribe) -> None:
    demotion = Demotion(model="house:small", at=NOON, until=NOON + HOUR, why="it never submits")
    await scribe.ledger.conducts.demote(demotion)
    assert await scribe.ledger.conducts.demotions(now=NOON) == (demotion,)
    assert await scribe.ledger.conducts.demotions(now=NOON + HOUR - timedelta.resolution) == (demotion,)
    assert await scribe.ledger.conducts.demotions(now=NOON + HOUR) == ()


async def test_a_demotion_is_for_one_role_and_the_table_says_so_in_words(scribe: Scribe) -> None:
    conducts = scribe.ledger.conducts
    judge = Demotion(model="house:small", role="judge", at=NOON, until=NOON + HOUR, why="as a judge: it is asleep")
    main = Demotion(model="house:small", role="main", at=NOON, until=NOON + HOUR, why="it never submits")
    for demotion in (main, judge):
        await conducts.demote(demotion)
    assert await conducts.demotions(now=NOON) == (judge, main)
    assert scribe.rows("select why from demotion where why like '%submits'") == [("as main: it never submits",)]


async def test_of_many_demotions_of_a_model_the_latest_in_force_counts(scribe: Scribe) -> None:
    conducts = scribe.ledger.conducts
    first = Demotion(model="house:small", at=NOON, until=NOON + 9 * HOUR, why="first")
    second = Demotion(model="house:small", at=NOON + HOUR, until=NOON + 3 * HOUR, why="second")
    other = Demotion(model="house:large", at=NOON, until=NOON + 2 * HOUR, why="other")
    for demotion in (second, first, other):
        await conducts.demote(demotion)
    assert await conducts.demotions(now=NOON + HOUR) == (other, second)
    assert await conducts.demotions(now=NOON + 5 * HOUR) == (first,)
