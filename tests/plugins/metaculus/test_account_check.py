"""What is looked at before anything may be written."""

from datetime import timedelta

import pytest

from bot.api import AuthenticationError, RequestRejectedError
from plugins.metaculus.account_check import check_account
from tests.plugins.metaculus.conftest import OTHER, TOKEN, MetaculusFixture


async def test_mc_r1_a_bot_that_may_forecast_passes(site: MetaculusFixture) -> None:
    reported = await check_account(site.settings, site.place)
    assert reported[0] == "account samplebot, access tier restricted"
    assert site.fake.requests[0].path == "/api/users/me/"


async def test_mc_r1_a_wrong_token_names_the_setting(site: MetaculusFixture) -> None:
    site.bot.token = OTHER
    with pytest.raises(AuthenticationError, match=r"token in \[venues\.metaculus\.settings\]") as caught:
        await check_account(site.settings, site.place)
    assert TOKEN not in str(caught.value)


async def test_mc_r1_a_person_is_refused(site: MetaculusFixture) -> None:
    site.bot.is_bot = False
    with pytest.raises(RequestRejectedError, match="no bot"):
        await check_account(site.settings, site.place)


@pytest.mark.parametrize("access", ["disabled", "pending"])
async def test_mc_r1_an_account_without_leave_is_refused(site: MetaculusFixture, access: str) -> None:
    site.bot.access = access
    with pytest.raises(RequestRejectedError, match=f"access is {access}"):
        await check_account(site.settings, site.place)


async def test_mc_r1_another_than_the_primary_bot_is_warned_of(site: MetaculusFixture) -> None:
    assert not any("primary" in line for line in await check_account(site.settings, site.place))
    site.bot.is_primary = False
    assert any("not the primary bot" in line for line in await check_account(site.settings, site.place))


async def test_mc_r8_tournaments_are_looked_up(site: MetaculusFixture) -> None:
    site.fake.world.add_tournament("viewonly-t", "View only T", permission="viewer")
    reported = await check_account(
        site.set(tournaments=("sample-aib", "viewonly-t", 32002, "nope")).settings, site.place
    )
    paths = [heard.path for heard in site.fake.requests if "tournaments" in heard.path]
    looked_up = [f"/api/projects/tournaments/{name}/" for name in ("sample-aib", "viewonly-t", 32002, "nope")]
    # For the last, which does not exist, the list of all tournaments is read to suggest similar names.
    assert paths == [*looked_up, "/api/projects/tournaments/"]
    assert any(line.startswith("tournament sample-aib: Sample AI Benchmark") for line in reported)
    assert any("is viewer there" in line for line in reported)
    assert any("'nope' does not exist" in line for line in reported)


async def test_mc_r8_where_no_tournament_is_there_nothing_goes_live(site: MetaculusFixture) -> None:
    with pytest.raises(RequestRejectedError, match="'nope' does not exist"):
        await check_account(site.set(tournaments=("nope",)).settings, site.place)


async def test_a_tournament_that_has_ended_is_named_with_its_successor(site: MetaculusFixture) -> None:
    ended = site.fake.clock.now() - timedelta(days=1)
    site.fake.world.add_tournament("summer-futureeval-2026", "FutureEval Summer 2026", close=ended)
    site.fake.world.add_tournament("spring-futureeval-2026", "FutureEval Spring 2026", close=ended)
    site.fake.world.add_tournament("futureeval-minis", "FutureEval Minis")
    site.fake.world.add_tournament("fall-futureeval-2026", "FutureEval Fall 2026")
    reported = await check_account(site.set(tournaments=("summer-futureeval-2026",)).settings, site.place)
    (line,) = [one for one in reported if one.startswith("tournament ")]
    assert "over, or not started" in line
    assert line.endswith("its successor is fall-futureeval-2026 (FutureEval Fall 2026)")
    # One whose slug the site no longer knows, too.
    with pytest.raises(RequestRejectedError, match="its successor may be fall-futureeval-2026"):
        await check_account(site.set(tournaments=("fall-futureeval-2025",)).settings, site.place)
