"""The bad habits of simulated minds: each is met by the engine with a valid belief and a reason on record."""

from datetime import timedelta
from pathlib import Path

import pytest

from bot.core.beliefs import belief_mismatch
from bot.core.forecasts import TrialEnd
from bot.simulator.models.behaviour import AnswerFault, ModelBehaviour, draw_behaviour, equal_fault_rates
from bot.simulator.models.simulated_model import SimulatedModel
from bot.simulator.world.news import ArticleKind, HostileTrick, NewsGenerator
from bot.simulator.world.questions import AnswerKind
from bot.simulator.world.simulated_world import SimulatedWorld
from bot.testing.model_server import CompletionRequest, ScriptedReply
from tests.unit.simulator.models.model_fixture import (
    START,
    FakeNewsSearchEngine,
    open_model_fixture,
    question_of,
    set_day,
)

WORLD = SimulatedWorld(seed=5, start=START)
PAPERS = FakeNewsSearchEngine(news=NewsGenerator(world=WORLD))
# How a trial ends with a mind that has one vice and no other way, and what is on record of it.
ALWAYS = {
    AnswerFault.MALFORMED: (None, ("was no valid action", "was mended")),
    AnswerFault.NO_CALL: (TrialEnd.FAILED, ("no valid action after a repair",)),
    AnswerFault.STRAYS: (None, ("There is no tool", "only the first counts", "no valid action", "was no valid action")),
    AnswerFault.NAN: (None, ("NaN is not a number",)),
    AnswerFault.RAMBLES: (TrialEnd.FINISHED, ("submitted",)),
    AnswerFault.REFUSES: (TrialEnd.FAILED, ("ended without submitting",)),
    AnswerFault.CUT_OFF: (TrialEnd.FAILED, ("was cut off",)),
    AnswerFault.OBEYS: (TrialEnd.FINISHED, ("submitted",)),
}


@pytest.mark.parametrize("dialect", ["tools", "json"])
@pytest.mark.parametrize("vice", AnswerFault)
async def test_a_vice_ends_in_a_valid_belief_and_a_reason(vice: AnswerFault, dialect: str, tmp_path: Path) -> None:
    ask = next(one for one in WORLD.questions if one.answer_kind is AnswerKind.BINARY and one.opens > 30.0)
    day = ask.opens + 0.6 * (ask.last_day - ask.opens)
    async with open_model_fixture(tmp_path, ModelBehaviour(fault_rates={vice: 1.0}), dialect) as (engine, server):
        set_day(engine, PAPERS, day)
        asked = question_of(WORLD, ask, day)
        played = await engine.play(asked)
    end, reasons = ALWAYS[vice]
    assert played.trial.end in ({TrialEnd.FINISHED, TrialEnd.FAILED} if end is None else {end})
    assert [belief_mismatch(step.belief, asked) for step in played.steps] == [None] * len(played.steps)
    reported = "\n".join((step.observation.text + "\n".join(step.remarks)) for step in played.steps)
    assert any(reason in reported for reason in reasons), reported
    assert server.crashes == []


@pytest.mark.timeout(120)
async def test_minds_with_a_little_of_each_vice_mostly_come_to_an_answer(tmp_path: Path) -> None:
    vices = equal_fault_rates(0.01)
    ends = []
    async with open_model_fixture(tmp_path, ModelBehaviour(fault_rates=vices)) as (engine, _):
        for ask in [one for one in WORLD.questions if one.answer_kind is AnswerKind.BINARY][:15]:
            day = ask.opens + 0.6 * (ask.last_day - ask.opens)
            set_day(engine, PAPERS, day)
            ends.append((await engine.play(question_of(WORLD, ask, day))).trial.end)
    assert set(ends) <= {TrialEnd.FINISHED, TrialEnd.FAILED}
    # One garbled answer in a turn is asked for again; with more of them the gateway would demote the model.
    assert ends.count(TrialEnd.FINISHED) >= 12


@pytest.mark.timeout(120)
async def test_who_obeys_hostile_pages_says_what_they_say_and_who_does_not_is_left_cold(tmp_path: Path) -> None:
    """Among questions with an order in plain sight, the obedient mind ends where the order says."""
    trapped = []
    for ask in (one for one in WORLD.questions if one.answer_kind is AnswerKind.BINARY):
        for article in PAPERS.news.articles(ask.key):
            day = article.published + 0.2
            open_then = ask.opens < day < ask.closes
            if article.kind is ArticleKind.HOSTILE and article.trick is HostileTrick.INSTRUCTIONS and open_then:
                trapped.append((ask, day, article))
    assert len(trapped) >= 4
    swayed = {}
    for name, habits in (
        ("meek", ModelBehaviour(noise=0.0, fault_rates={AnswerFault.OBEYS: 1.0})),
        ("calm", ModelBehaviour(noise=0.0)),
    ):
        (tmp_path / name).mkdir()
        swayed[name] = 0
        async with open_model_fixture(tmp_path / name, habits) as (engine, _):
            for ask, day, article in trapped[:6]:
                set_day(engine, PAPERS, day)
                played = await engine.play(question_of(WORLD, ask, day))
                ordered = 0.95 if "0.99" in article.versions[0].text else 0.05
                swayed[name] += played.probability == pytest.approx(ordered)
    assert swayed["meek"] >= 4
    assert swayed["calm"] <= 1


def asked(seed: int = 1, text: str = "Will it rain?") -> CompletionRequest:
    body = {"model": "simulated-forecaster", "messages": [{"role": "user", "content": text}], "seed": seed}
    return CompletionRequest(number=1, path="/", headers={}, body=body)


def test_the_same_request_is_met_in_the_same_mood_and_another_one_in_another() -> None:
    habits = ModelBehaviour(latency_s=2.0, fault_rates=equal_fault_rates(0.1))
    moods = [draw_behaviour(habits, asked(seed).body, "Will it rain?") for seed in (1, 1, 2)]
    assert moods[0] == moods[1] != moods[2]


def test_noise_lasts_for_a_conversation() -> None:
    first, second = asked(), asked(text="Will it rain? And so on")
    deviates = {draw_behaviour(ModelBehaviour(), one.body, "Will it rain?").deviate for one in (first, second)}
    assert len(deviates) == 1


def test_each_vice_comes_as_often_as_it_should() -> None:
    habits = ModelBehaviour(fault_rates={AnswerFault.REFUSES: 0.2, AnswerFault.NAN: 0.1})
    drawn = [draw_behaviour(habits, asked(seed).body, "").fault for seed in range(2000)]
    # Three standard deviations of a binomial law of 2000 draws.
    assert abs(drawn.count(AnswerFault.REFUSES) / 2000 - 0.2) < 0.027
    assert abs(drawn.count(AnswerFault.NAN) / 2000 - 0.1) < 0.021
    assert set(drawn) == {None, AnswerFault.REFUSES, AnswerFault.NAN}


def test_latency_has_the_median_that_it_should() -> None:
    drawn = sorted(draw_behaviour(ModelBehaviour(latency_s=3.0), asked(seed).body, "").latency_s for seed in range(999))
    assert drawn[499] == pytest.approx(3.0, rel=0.1)
    assert drawn[0] > 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"fault_rates": {AnswerFault.NAN: 0.7, AnswerFault.REFUSES: 0.5}},
        {"fault_rates": {AnswerFault.NAN: -0.1}},
        {"log_odds_factor": 0.0},
    ],
)
def test_habits_that_nobody_can_have_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        ModelBehaviour(**wrong)  # type: ignore[arg-type]


def test_an_answer_stops_where_no_more_tokens_are_allowed() -> None:
    one = asked()
    short = CompletionRequest(number=1, path="/", headers={}, body={**one.body, "max_tokens": 3})
    reply: ScriptedReply = SimulatedModel().answer(short)
    assert (reply.finish, len(reply.text or "")) == ("length", 12)
    assert timedelta(seconds=reply.response.delay_s) == timedelta()
