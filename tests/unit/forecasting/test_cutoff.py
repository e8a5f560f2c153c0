"""A day without a time: for a question of an earlier day it counts to its end."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bot.forecasting.leak_guard.cutoff import is_after_cutoff
from bot.forecasting.trial_memory import FilterCounts
from bot.testing.research import FakePageFetcher, PlainTextReader, ScriptedModelGateway, drop_results
from tests.unit.forecasting.research_fixture import CUTOFF, ResearchFixture, hit, market

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
DAY = datetime(2026, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize(
    ("published", "cutoff", "late"),
    [
        (DAY, NOON, True),
        (DAY.replace(tzinfo=None), NOON, True),
        (DAY.astimezone(timezone(timedelta(hours=5))), NOON, True),
        (DAY + timedelta(hours=8), NOON, False),
        (DAY - timedelta(days=1), NOON, False),
        (DAY - timedelta(days=1), DAY, False),
        (NOON, NOON, True),
        (None, NOON, False),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=5))), NOON, False),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))), NOON, True),
    ],
)
def test_of_an_earlier_day_a_date_without_a_time_counts_to_its_end(
    published: datetime | None, cutoff: datetime, *, late: bool
) -> None:
    assert is_after_cutoff(published, cutoff, backdated=True) is late


@pytest.mark.parametrize("published", [DAY, NOON, NOON + timedelta(minutes=1), NOON + timedelta(days=1), None])
def test_today_nothing_is_late(published: datetime | None) -> None:
    assert not is_after_cutoff(published, NOON, backdated=False)


async def test_a_live_search_keeps_what_was_published_since_the_trial_began_and_bounds_no_engine(
    research: ResearchFixture,
) -> None:
    minute = CUTOFF + timedelta(minutes=1)
    research.engine.hits = [hit("today", published_at=CUTOFF.replace(hour=0)), hit("since", published_at=minute)]
    research.fetcher, research.reader = (
        FakePageFetcher({hit("since").url: "News\nIt is lit."}),
        PlainTextReader({hit("since").url: minute}),
    )
    research.clock.set_wall_clock(600)
    context = await research.open_trial(market())
    text = (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    assert ["About today" in text, "About since" in text] == [True, True]
    assert "It is lit." in (await context.use_tool("lookup_url", {"url": hit("since").url})).observation.text
    assert research.engine.searched[0].before is None
    assert context.caught == FilterCounts()


async def test_engines_are_asked_for_whole_days_and_results_of_the_days_before_alone(research: ResearchFixture) -> None:
    cutoff = CUTOFF - timedelta(days=1, hours=9)
    day = cutoff.replace(hour=0)
    research.engine.hits = [hit("same", published_at=day), hit("before", published_at=day - timedelta(days=1))]
    context = await research.open_trial(market(as_of=cutoff), cutoff=cutoff)
    text = (await context.use_tool("web_search", {"query": "lamp"})).observation.text
    assert research.engine.searched[0].before == day
    assert "About before" in text
    assert "About same" not in text
    assert context.caught.dates == 1


async def test_a_page_that_dates_itself_to_the_day_of_the_cutoff_is_not_read(research: ResearchFixture) -> None:
    cutoff, url = CUTOFF - timedelta(hours=9), "https://news.example/lamp"
    research.models = ScriptedModelGateway(roles={"filter": drop_results()})
    research.fetcher = FakePageFetcher({url: "Lamp\nIt was lit."})
    research.reader = PlainTextReader({url: cutoff.replace(hour=0)})
    research.engine.hits = [hit("lamp")]
    context = await research.open_trial(market(as_of=cutoff), cutoff=cutoff)
    await context.use_tool("web_search", {"query": "lamp"})
    assert (await context.use_tool("lookup_url", {"url": url})).failed
    assert context.caught.dates == 1
