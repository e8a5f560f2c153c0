"""Metaculus, live: armed, forecast, submitted, read back, commented; and nothing twice. Real commands, real HTTP."""

from datetime import timedelta
from math import log
from pathlib import Path

import pytest

from bot.core.clock import SystemClock
from bot.simulator.fake_service import serve_service
from bot.simulator.venues.metaculus import FakeMetaculus
from bot.simulator.venues.metaculus_world import question_scaling
from tests.acceptance.live_installation import LiveInstallation, writes

TOKEN = "0123456789abcdef0123456789abcdef01234567"  # noqa: S105 - of a fake account
FORECASTS, COMMENTS = "/api/questions/forecast/", "/api/comments/create/"

# A request every 3.6 seconds, as the real site asks for; the simulation of the whole daemon does it in virtual time.
pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]


@pytest.fixture
async def venue() -> FakeMetaculus:
    return FakeMetaculus(SystemClock(), production=True)


def create_installation(folder: Path, url: str, *, tournaments: str = '["sample-aib"]') -> LiveInstallation:
    settings = [f'base_url = "{url}"', f"tournaments = {tournaments}", 'token_file = "secret"']
    return LiveInstallation(folder, "metaculus", secret=TOKEN, settings=settings)


async def test_every_kind_of_question_is_submitted_read_back_and_commented_once(
    venue: FakeMetaculus, tmp_path: Path
) -> None:
    bot = venue.world.add_user("foxbot", token=TOKEN)
    binary = venue.world.add_question("Will the lamp be lit?")
    choice = venue.world.add_question("Which lamp?", type="multiple_choice", options=["Red", "Green", "Blue"])
    number = venue.world.add_question("How many lamps?", type="numeric", scaling=question_scaling(0, 100))
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        reported = await foxcast.once()
        assert reported["ready"] == "metaculus: ready"
        assert reported["submit"] == "3 planned, 0 held, 6 acknowledged"
        once = writes(venue)
        again = await foxcast.once()
        assert again["submit"] == "0 planned, 0 held, 0 acknowledged"
        assert writes(venue) == once
        assert [row["state"] for row in await foxcast.orders()] == ["acked"] * 6
        assert (await foxcast("audit", "verify")).code == 0
        assert foxcast.leaks() == []
    sent = {body[0]["question"]: body[0] for path, body in once if path == FORECASTS}
    assert sent[binary.id]["probability_yes"] == 0.7
    assert sent[choice.id]["probability_yes_per_category"] == pytest.approx({"Red": 0.7, "Green": 0.15, "Blue": 0.15})
    assert len(sent[number.id]["continuous_cdf"]) == 201
    stood = venue.ledger.effects("forecast", account=str(bot.id))
    assert sorted(effect.subject for effect in stood) == sorted(str(one.id) for one in (binary, choice, number))
    comments = [body for path, body in once if path == COMMENTS]
    assert sorted(body["on_post"] for body in comments) == sorted(one.post for one in (binary, choice, number))
    assert all(body["is_private"] and body["included_forecast"] for body in comments)
    assert all("lamps are lit seven times in ten" in body["text"] for body in comments)
    assert not any("https:" in body["text"] or "@" in body["text"] for body in comments)
    assert venue.rate_limit_checker.violations == []


async def test_a_forecast_can_be_taken_back_and_an_unknown_tournament_is_named_with_near_ones(
    venue: FakeMetaculus, tmp_path: Path
) -> None:
    bot = venue.world.add_user("foxbot", token=TOKEN)
    question = venue.world.add_question("Will the oil run out?")
    name = f"metaculus:{question.post}:{question.id}"
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url, tournaments='["sample-aib", "sample-abi"]')
        assert (await foxcast("arm", "metaculus", "--for", "120d")).code == 0
        first = await foxcast("run", "--once")
        assert first.code == 0
        assert "similar names: sample-aib (Sample AI Benchmark)" in first.out + first.err
        asked = await foxcast("withdraw", name, "--reason", "the oil was counted twice")
        assert asked.code == 0
        assert f"foxcast lock {name}" in asked.out
        assert (await foxcast.once())["submit"] == "0 planned, 0 held, 1 acknowledged"
        again = await foxcast("withdraw", name)
        rows = {row["action"]: row["state"] for row in await foxcast.orders()}
    assert [one for one in question.forecasts_of(bot.id) if one.is_standing(venue.now().timestamp())] == []
    assert rows == {"withdraw": "acked", "comment": "acked", "forecast": "acked"}
    assert (again.code != 0, "no forecast of it is published at metaculus" in again.err) == (True, True)
    assert venue.rate_limit_checker.violations == []


async def test_what_the_tournament_counts_is_shown(venue: FakeMetaculus, tmp_path: Path) -> None:
    rival = venue.world.add_user("rival")
    venue.world.add_user("foxbot", token=TOKEN)
    spot = {"score_type": "spot_peer", "counts_bots": True, "spot": venue.now() + timedelta(days=1)}
    scored, void = (venue.world.add_question(f"Will the {what}?", **spot) for what in ("lamp be lit", "wick be dry"))
    for question in (scored, void):
        venue.world.forecast(rival, question, 0.5)
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        await foxcast.once()
        venue.world.resolve(scored, "yes")
        venue.world.resolve(void, "annulled")
        await foxcast.once()
        reported, shown = (await foxcast("score", "--json", "-")).json, (await foxcast("score")).out
    # 0.7 was sent, and the rival had 0.5: docs/facts/metaculus.md#scores, by hand.
    peer = 100 * 2 / 1 * (log(0.7) - (log(0.7) + log(0.5)) / 2)
    baseline = 100 * log(0.7 * 2) / log(2)
    by_title = {row["title"]: row for row in reported["venue_scores"]}
    found = by_title["Will the lamp be lit?"]
    assert found["venue_says"]["spot peer"] == pytest.approx(peer, abs=1e-9)
    assert found["venue_says"]["spot baseline"] == pytest.approx(baseline, abs=1e-9)
    assert found["ours"]["baseline"] == pytest.approx(baseline, abs=1e-9)
    assert by_title["Will the wick be dry?"]["note"] == "not scored: annulled"
    [standing] = reported["venue_standings"]
    assert (standing["contest"], standing["rank"], standing["entrants"]) == ("sample-aib", 1, 2)
    assert standing["points"] == pytest.approx(peer, abs=1e-9)
    assert [one["why"] for one in reported["unscored"]] == ["void: annulled"]
    for line in (
        "metaculus, account default: 2 resolved questions",
        "Standings reported by the venues",
        f"{peer:.2f}",
    ):
        assert line in shown


async def test_a_wrong_token_and_an_account_that_may_not_forecast_hold_everything_and_say_what_to_do(
    venue: FakeMetaculus, tmp_path: Path
) -> None:
    user = venue.world.add_user("foxbot", token=TOKEN, access="disabled")
    venue.world.add_question("Will the lamp be lit?")
    async with serve_service(venue) as served:
        foxcast = create_installation(tmp_path, served.url)
        assert (await foxcast("arm", "metaculus", "--for", "24h")).code == 0
        reported = await foxcast.once()
        assert "may not forecast by API" in reported["ready"]
        assert "its owner must enable API forecasting access" in reported["submit"]
        user.access = "enabled"
        user.token = "f" * 40
        shown = await foxcast("preflight", "metaculus")
        assert "token" in shown.err + shown.out
        user.token = TOKEN
        shown = await foxcast("preflight", "metaculus")
        assert "1 would be sent to the venue, 0 held; nothing was sent" in shown.out
        assert '[{"question":50001,"probability_yes":0.7}]' in shown.out
        assert "then, once it is accepted, the comment:" in shown.out
    assert writes(venue) == []
