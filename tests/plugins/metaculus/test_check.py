"""What is looked at before anything may be written."""

import pytest

from bot.api import Rejected, Unauthorized
from plugins.metaculus.check import check
from tests.plugins.metaculus.conftest import OTHER, TOKEN, Site


async def test_mc_r1_a_bot_that_may_forecast_passes(site: Site) -> None:
    said = await check(site.settings, site.place)
    assert said[0] == "account samplebot, access tier restricted"
    assert site.fake.requests[0].path == "/api/users/me/"


async def test_mc_r1_a_wrong_token_names_the_setting(site: Site) -> None:
    site.bot.token = OTHER
    with pytest.raises(Unauthorized, match=r"token in \[venues\.metaculus\.settings\]") as caught:
        await check(site.settings, site.place)
    assert TOKEN not in str(caught.value)


async def test_mc_r1_a_person_is_refused(site: Site) -> None:
    site.bot.is_bot = False
    with pytest.raises(Rejected, match="no bot"):
        await check(site.settings, site.place)


@pytest.mark.parametrize("access", ["disabled", "pending"])
async def test_mc_r1_an_account_without_leave_is_refused(site: Site, access: str) -> None:
    site.bot.access = access
    with pytest.raises(Rejected, match=f"it is {access}"):
        await check(site.settings, site.place)


async def test_mc_r1_another_than_the_primary_bot_is_warned_of(site: Site) -> None:
    assert not any("primary" in line for line in await check(site.settings, site.place))
    site.bot.is_primary = False
    assert any("not the primary bot" in line for line in await check(site.settings, site.place))


async def test_mc_r8_tournaments_are_looked_up(site: Site) -> None:
    site.fake.world.add_tournament("viewonly-t", "View only T", permission="viewer")
    said = await check(site.set(tournaments=("sample-aib", "viewonly-t", 32002, "nope")).settings, site.place)
    paths = [heard.path for heard in site.fake.requests if "tournaments" in heard.path]
    looked_up = [f"/api/projects/tournaments/{name}/" for name in ("sample-aib", "viewonly-t", 32002, "nope")]
    # Of the last, that is not there, all names are asked for: what is near it is told.
    assert paths == [*looked_up, "/api/projects/tournaments/"]
    assert any(line.startswith("tournament sample-aib: Sample AI Benchmark") for line in said)
    assert any("is viewer there" in line for line in said)
    assert any("'nope' is not there" in line for line in said)


async def test_mc_r8_where_no_tournament_is_there_nothing_goes_live(site: Site) -> None:
    with pytest.raises(Rejected, match="'nope' is not there"):
        await check(site.set(tournaments=("nope",)).settings, site.place)
