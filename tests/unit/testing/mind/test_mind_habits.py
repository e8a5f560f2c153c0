"""The bad habits of simulated minds: each is met by the engine with a valid belief and a reason on record."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.domain.belief import unfit
from bot.domain.forecast import TrialEnd
from bot.testing.model_server import Asked, Reply
from bot.testing.world.ask import Form
from bot.testing.world.habits import Habits, Vice, every_vice, mood_of
from bot.testing.world.mind import Mind
from bot.testing.world.news import Kind, Newsroom, Trick
from bot.testing.world.world import World
from tests.unit.testing.mind.bench import START, Papers, benched, put, question_of

WORLD = World(seed=5, start=START)
PAPERS = Papers(newsroom=Newsroom(world=WORLD))
# How a trial ends with a mind that has one vice and no other way, and what stands on record of it.
ALWAYS = {
    Vice.MALFORMED: (None, ("was no valid action", "was mended")),
    Vice.NO_CALL: (TrialEnd.FAILED, ("no valid action after a repair",)),
    Vice.STRAYS: (None, ("There is no tool", "only the first counts", "no valid action", "was no valid action")),
    Vice.NAN: (None, ("NaN is not a number",)),
    Vice.RAMBLES: (TrialEnd.FINISHED, ("submitted",)),
    Vice.REFUSES: (TrialEnd.FAILED, ("ended without submitting",)),
    Vice.CUT_OFF: (TrialEnd.FAILED, ("was cut off",)),
    Vice.OBEYS: (TrialEnd.FINISHED, ("submitted",)),
}


@pytest.mark.parametrize("dialect", ["tools", "json"])
@pytest.mark.parametrize("vice", Vice)
async def test_a_vice_ends_in_a_valid_belief_and_a_reason(vice: Vice, dialect: str, tmp_path: Path) -> None:
    ask = next(one for one in WORLD.asks if one.form is Form.BINARY and one.opens > 30.0)
    day = ask.opens + 0.6 * (ask.until - ask.opens)
    async with benched(tmp_path, Habits(vices={vice: 1.0}), dialect) as (stage, server):
        put(stage, PAPERS, day)
        asked = question_of(WORLD, ask, day)
        played = await stage.play(asked)
    end, reasons = ALWAYS[vice]
    assert played.trial.end in ({TrialEnd.FINISHED, TrialEnd.FAILED} if end is None else {end})
    assert [unfit(step.belief, asked) for step in played.steps] == [None] * len(played.steps)
    told = "\n".join((step.observation.text + "\n".join(step.remarks)) for step in played.steps)
    assert any(reason in told for reason in reasons), told
    assert server.crashes == []


@pytest.mark.timeout(120)
async def test_minds_with_a_little_of_each_vice_mostly_come_to_an_answer(tmp_path: Path) -> None:
    vices = every_vice(0.01)
    ends = []
    async with benched(tmp_path, Habits(vices=vices)) as (stage, _):
        for ask in [one for one in WORLD.asks if one.form is Form.BINARY][:15]:
            day = ask.opens + 0.6 * (ask.until - ask.opens)
            put(stage, PAPERS, day)
            ends.append((await stage.play(question_of(WORLD, ask, day))).trial.end)
    assert set(ends) <= {TrialEnd.FINISHED, TrialEnd.FAILED}
    # One garbled answer in a turn is asked for again; with more of them the gateway would demote the model.
    assert ends.count(TrialEnd.FINISHED) >= 12


@pytest.mark.timeout(120)
async def test_who_obeys_hostile_pages_says_what_they_say_and_who_does_not_is_left_cold(tmp_path: Path) -> None:
    """Among questions with an order in plain sight, the obedient mind ends where it was told."""
    trapped = []
    for ask in (one for one in WORLD.asks if one.form is Form.BINARY):
        for article in PAPERS.newsroom.articles(ask.key):
            day = article.published + 0.2
            open_then = ask.opens < day < ask.closes
            if article.kind is Kind.HOSTILE and article.trick is Trick.INSTRUCTIONS and open_then:
                trapped.append((ask, day, article))
    assert len(trapped) >= 4
    swayed = {}
    for name, habits in (("meek", Habits(noise=0.0, vices={Vice.OBEYS: 1.0})), ("calm", Habits(noise=0.0))):
        (tmp_path / name).mkdir()
        swayed[name] = 0
        async with benched(tmp_path / name, habits) as (stage, _):
            for ask, day, article in trapped[:6]:
                put(stage, PAPERS, day)
                played = await stage.play(question_of(WORLD, ask, day))
                ordered = 0.95 if "0.99" in article.versions[0].text else 0.05
                swayed[name] += played.probability == pytest.approx(ordered)
    assert swayed["meek"] >= 4
    assert swayed["calm"] <= 1


def asked(seed: int = 1, text: str = "Will it rain?") -> Asked:
    body = {"model": "simulated-forecaster", "messages": [{"role": "user", "content": text}], "seed": seed}
    return Asked(number=1, path="/", headers={}, body=body)


def test_the_same_request_is_met_in_the_same_mood_and_another_one_in_another() -> None:
    habits = Habits(latency_s=2.0, vices=every_vice(0.1))
    moods = [mood_of(habits, asked(seed).body, "Will it rain?") for seed in (1, 1, 2)]
    assert moods[0] == moods[1] != moods[2]


def test_noise_lasts_for_a_conversation() -> None:
    first, second = asked(), asked(text="Will it rain? And so on")
    deviates = {mood_of(Habits(), one.body, "Will it rain?").deviate for one in (first, second)}
    assert len(deviates) == 1


def test_each_vice_comes_as_often_as_it_should() -> None:
    habits = Habits(vices={Vice.REFUSES: 0.2, Vice.NAN: 0.1})
    drawn = [mood_of(habits, asked(seed).body, "").vice for seed in range(2000)]
    # Three standard deviations of a binomial law of 2000 draws.
    assert abs(drawn.count(Vice.REFUSES) / 2000 - 0.2) < 0.027
    assert abs(drawn.count(Vice.NAN) / 2000 - 0.1) < 0.021
    assert set(drawn) == {None, Vice.REFUSES, Vice.NAN}


def test_latency_has_the_median_that_it_should() -> None:
    drawn = sorted(mood_of(Habits(latency_s=3.0), asked(seed).body, "").latency_s for seed in range(999))
    assert drawn[499] == pytest.approx(3.0, rel=0.1)
    assert drawn[0] > 0.0


@pytest.mark.parametrize(
    "wrong", [{"vices": {Vice.NAN: 0.7, Vice.REFUSES: 0.5}}, {"vices": {Vice.NAN: -0.1}}, {"factor": 0.0}]
)
def test_habits_that_nobody_can_have_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Habits(**wrong)  # type: ignore[arg-type]


def test_an_answer_stops_where_no_more_tokens_are_allowed() -> None:
    one = asked()
    short = Asked(number=1, path="/", headers={}, body={**one.body, "max_tokens": 3})
    reply: Reply = Mind().answer(short)
    assert (reply.finish, len(reply.text or "")) == ("length", 12)
    assert timedelta(seconds=reply.sent.delay_s) == timedelta()
