"""Outcomes as the reader tells them, in front of the fake site."""

from typing import Any

from bot.api import BinaryOutcome, QuestionRef, Resolution, VoidOutcome
from plugins.metaculus.api_client import PAGE_SIZE
from plugins.metaculus.question_names import question_ref
from tests.plugins.metaculus.conftest import MetaculusFixture


def ref(there: Any) -> QuestionRef:
    return question_ref(there.post, there.id)


async def outcomes(site: MetaculusFixture, *refs: QuestionRef) -> dict[str, Any]:
    found: list[Resolution] = [one async for one in site.reader.resolutions(refs)]
    assert len({one.ref for one in found}) == len(found)
    return {one.ref.key: one.outcome for one in found}


async def test_outcomes_are_read_a_hundred_posts_a_call(site: MetaculusFixture) -> None:
    there = [site.fake.world.add_question(f"Rain {n}?") for n in range(PAGE_SIZE + 1)]
    world = site.fake.world
    for one in there:
        world.forecast(site.bot, one, 0.6)
        world.resolve(one, "yes")
    found = await outcomes(site, *map(ref, there))
    assert found == {ref(one).key: BinaryOutcome(1.0) for one in there}
    assert len(site.fake.requests) == 2


async def test_outcomes_of_others_are_not_told(site: MetaculusFixture) -> None:
    rain, snow = site.fake.world.add_question("Rain?"), site.fake.world.add_question("Snow?")
    for one in (rain, snow):
        site.fake.world.forecast(site.bot, one, 0.6)
        site.fake.world.resolve(one, "no")
    assert await outcomes(site, ref(rain)) == {ref(rain).key: BinaryOutcome(0.0)}
    assert await outcomes(site) == {}


async def test_mc_v3_branches_of_a_conditional_resolve_apart(site: MetaculusFixture) -> None:
    world = site.fake.world
    condition, child = world.add_question("If?"), world.add_question("Then?")
    parts = world.add_conditional(condition, child)
    for branch in (parts.yes, parts.no):
        world.forecast(site.bot, branch, 0.4)
    refs = (ref(parts.yes), ref(parts.no))
    assert await outcomes(site, *refs) == {}
    world.resolve(condition, "no")
    assert await outcomes(site, *refs) == {refs[0].key: VoidOutcome("annulled")}
    world.resolve(child, "yes")
    assert await outcomes(site, *refs) == {refs[0].key: VoidOutcome("annulled"), refs[1].key: BinaryOutcome(1.0)}


async def test_mc_v4_a_resolution_that_disappears_becomes_void_until_there_is_another(site: MetaculusFixture) -> None:
    world = site.fake.world
    rain = world.add_question("Rain?")
    world.forecast(site.bot, rain, 0.6)
    key = ref(rain).key
    assert await outcomes(site, ref(rain)) == {}
    world.resolve(rain, "yes")
    assert await outcomes(site, ref(rain)) == {key: BinaryOutcome(1.0)}
    world.unresolve(rain)
    reopened = site.set()  # a restart between the two readings
    first = [one async for one in reopened.reader.resolutions([ref(rain)])]
    assert [one.outcome for one in first] == [VoidOutcome("the resolution was undone")]
    site.clock.set_wall_clock(3600)
    again = [one async for one in site.reader.resolutions([ref(rain)])]
    assert again == first, "saying it again changes nothing"
    world.resolve(rain, "no")
    assert await outcomes(site, ref(rain)) == {key: BinaryOutcome(0.0)}


async def test_mc_v4_an_outcome_that_is_hidden_is_not_undone(site: MetaculusFixture) -> None:
    world = site.fake.world
    rain = world.add_question("Rain?")
    world.resolve(rain, "yes")
    site.fake.production = False
    assert await outcomes(site, ref(rain)) == {ref(rain).key: BinaryOutcome(1.0)}
    site.fake.production = True
    assert await outcomes(site, ref(rain)) == {}


async def test_mc_v5_closed_is_said_by_the_status(site: MetaculusFixture) -> None:
    rain = site.fake.world.add_question("Rain?")
    site.fake.world.forecast(site.bot, rain, 0.6)
    site.fake.world.close(rain)
    assert await site.questions() == []
    assert await outcomes(site, ref(rain)) == {}
