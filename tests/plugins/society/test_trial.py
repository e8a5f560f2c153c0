"""A trial from the first move to the answer: who is told what, what is on record, and how the belief moves."""

import json
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import pytest

from bot.core.beliefs import ConfidenceLevel, Step, belief_mismatch
from bot.core.forecasts import Trial, TrialLimits
from bot.core.language_models import ModelAnswer, ModelCompletion, ModelDialect, Prompt
from bot.core.predictions import ChoiceShape, CurveShape
from bot.core.research import SourcePolicy
from bot.forecasting.agent.prompt_texts import judging_text
from bot.forecasting.trial import TrialSettings, run_trial
from bot.simulator.models.prompt_reading import fenced_parts
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.trial_context import ScriptedModel, ScriptedTrialContext, changed_prefixes, fixed_text_tool
from plugins.society.forecaster import CourtForecaster
from plugins.society.scenario_files import load_shipped_scenario
from plugins.society.settings import CourtSettings, count_moves
from plugins.society.vote_pooling import VoteAggregate
from tests.plugins.society.cases import (
    CUTOFF,
    ScriptedParticipant,
    done,
    heard,
    named,
    priced,
    probability,
    question,
    reads,
    scripted_context,
    searches,
    silence,
    steps_of,
    told,
)

DAYS = tuple(CUTOFF.timestamp() + 86_400.0 * day for day in range(60))
CHOICE = ChoiceShape(options=("red", "green", "blue"))
NUMBER = CurveShape(grid=tuple(float(point) for point in range(0, 101, 5)), unit="points", open_upper=True)
DATE = CurveShape(grid=DAYS, unit="date", open_upper=True)


def texts_of(prompt: Prompt) -> list[str]:
    return [message.text for message in prompt.messages[1:]]


def jurors(*answers: float) -> dict[str, Any]:
    return {f"juror_{number}": ScriptedParticipant(answers=(answer,)) for number, answer in enumerate(answers, 1)}


async def test_the_belief_moves_from_the_crowd_to_an_estimate_to_the_running_mean_of_the_votes() -> None:
    steps = await done(
        scripted_context(ScriptedParticipant(answers=(0.5, 0.9)), **jurors(0.6, 0.8, 0.1)), asked=priced(0.3)
    )
    assert [round(probability(step), 6) for step in steps] == [0.3] * 4 + [0.5] * 4 + [0.6, 0.7, 0.5, 0.5]
    assert [step.action.name for step in steps] == [
        "generate_jury", "message", "web_search", "process_articles", *["message"] * 8
    ]  # fmt: skip
    assert [step.belief.reason for step in steps][-2:] == ["mean of 3 of 3 jurors"] * 2
    assert all(belief_mismatch(step.belief, question()) is None for step in steps)
    assert steps[-1].belief.confidence is ConfidenceLevel.MEDIUM


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    # Of 0.2, 0.5 and 0.8 with 0.9: logit mean by hand, (-1.386294 + 0 + 1.386294 + 2.197225) / 4 = 0.549306.
    [
        (VoteAggregate.MEAN, 0.6),
        (VoteAggregate.MEDIAN, 0.65),
        (VoteAggregate.LOGIT_MEAN, 0.633975),
        (VoteAggregate.JUDGE, 0.9),
    ],
)
async def test_the_aggregate_is_chosen_and_all_of_them_are_on_record(aggregate: VoteAggregate, expected: float) -> None:
    settings = CourtSettings(aggregate=aggregate, jurors=4)
    steps = await done(
        scripted_context(ScriptedParticipant(answers=(0.5, 0.9)), **jurors(0.2, 0.5, 0.8, 0.9)), settings
    )
    assert probability(steps[-1]) == pytest.approx(expected, abs=1e-6)
    last = told(steps[-1], "tally")
    assert last["votes"] == {f"juror_{n}": {"outcome": vote} for n, vote in enumerate((0.2, 0.5, 0.8, 0.9), 1)}
    assert {name: last[name]["outcome"] for name in ("mean", "median", "judge")} == {
        "mean": 0.6, "median": 0.65, "judge": 0.9
    }  # fmt: skip
    assert last["logit_mean"]["outcome"] == pytest.approx(0.633975, abs=1e-6)
    # Population standard deviation of the four: sqrt((0.16 + 0.01 + 0.04 + 0.09) / 4).
    assert last["spread"]["outcome"] == pytest.approx(0.273861, abs=1e-6)
    assert told(steps[-1], "aggregate") == aggregate


@pytest.mark.parametrize("count", [1, 3, 5, 11, 25])
async def test_a_jury_has_as_many_jurors_as_are_set(count: int) -> None:
    at = scripted_context()
    steps = await done(at, CourtSettings(jurors=count))
    assert len(told(named(steps, "jury")[0], "jurors")) == count
    assert [told(step, "to") for step in named(steps, "votes")] == [f"juror_{n}" for n in range(1, count + 1)]
    assert len(told(steps[-1], "tally")["votes"]) == count


async def test_each_role_is_asked_by_its_own_model_where_there_is_one() -> None:
    names = ("head", "clerk", "judge", "prosecution", "defence", "juror_2", "juror")
    models: dict[str, Any] = {name: ScriptedParticipant() for name in names}
    at = scripted_context(**models)
    await done(at)
    counted = {name: sum(one.role == name for one in at.prompts) for name in (*names, "main", "juror_1")}
    # The head writes queries and the summary; the judge speaks twice; the main model rates the articles.
    assert counted == {"head": 2, "clerk": 1, "judge": 2, "prosecution": 1, "defence": 1, "juror_2": 1, "juror": 2,
                       "main": 1, "juror_1": 0}  # fmt: skip
    assert sorted((performance.role, performance.asked) for performance in at.reported_performances) == sorted(
        (name, counted[name]) for name in (*names, "main")
    )


async def test_all_who_share_a_role_have_one_verdict_and_jurors_should_have_voted() -> None:
    at = scripted_context(
        juror=ScriptedParticipant(answers=(0.5,)), juror_2=ScriptedParticipant(says={"vote": silence()})
    )
    await done(at)
    told_of = {performance.role: performance for performance in at.reported_performances}
    assert len(told_of) == len(at.reported_performances) == 3
    assert (told_of["juror"].submitted, told_of["juror"].ended_at_half, told_of["juror"].asked) == (True, True, 2)
    assert (told_of["juror_2"].submitted, told_of["juror_2"].unparsed) == (False, 2)
    assert (told_of["main"].submitted, told_of["main"].asked) == (None, 8)


async def test_jurors_deliberate_on_the_reasons_of_the_others_without_names_and_vote_again() -> None:
    first = ScriptedParticipant(answers=(0.2, 0.4), says={"vote": {"statement": "the tide is low"}})
    at = scripted_context(
        juror_1=first,
        juror_2=ScriptedParticipant(answers=(0.9, 0.8), says={"deliberate": {"statement": "storms pass"}}),
    )
    steps = await done(at, CourtSettings(scenario="full", jurors=2, rounds=0))
    words = heard(at, "juror_2")
    assert "Another juror (A)" in words
    assert "the tide is low" in words
    assert "juror_1" not in words
    assert "name 1" not in words
    # Its own words stand in its own answer and nowhere else.
    assert "storms pass" not in words
    assert [round(probability(step), 6) for step in named(steps, "first_vote")] == [0.2, 0.55]
    assert [round(probability(step), 6) for step in named(steps, "second_vote")] == [0.65, 0.6]
    assert told(named(steps, "probabilities")[0], "tally")["mean"] == {"outcome": 0.6}


async def test_the_full_trial_has_eighteen_arguments_and_each_side_answers_the_other() -> None:
    at = scripted_context(
        prosecution=ScriptedParticipant(says={"argue": {"statement": "for it"}}), defence=ScriptedParticipant()
    )
    steps = await done(at, CourtSettings(scenario="full", jurors=1))
    argued = [step for step in steps if 5 <= told(step, "step") <= 22]
    assert [told(step, "to") for step in argued] == ["prosecution", "defence"] * 9
    assert "Rebuttal 8 of 8" in heard(at, "defence")
    assert heard(at, "defence").count("for it") == 9


async def test_points_of_both_sides_become_evidence_with_their_sources() -> None:
    against = {
        "points": [
            {"text": "storm", "source": "https://port.example/closed"},
            "a bare word",
            {"source": "x"},
            {"text": "Storm", "source": "rumour"},
        ]
    }
    steps = await done(scripted_context(defence=ScriptedParticipant(says={"argue": against})))
    belief = steps[-1].belief
    assert [(one.text, one.source) for one in belief.evidence_for] == [("it sailed", "search_1_result_1")]
    assert [(one.text, one.source) for one in belief.evidence_against] == [
        ("storm", "https://port.example/closed"),
        ("a bare word", "source not stated"),
    ]
    assert belief.searches == ("ship harbour",)


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        (None, "a low probability", "a high probability"),
        (NUMBER, "a low value", "a high value"),
        (DATE, "an early date", "a late date"),
    ],
)
async def test_the_sides_argue_what_fits_the_question(shape: Any, low: str, high: str) -> None:
    curve = {f"p{level}": place * 10.0 for place, level in enumerate((5, 10, 25, 50, 75, 90, 95))}
    answer = 0.5 if shape is None else curve if shape is NUMBER else dict.fromkeys(curve, "2026-01-20")
    at = scripted_context(
        ScriptedParticipant(answers=(answer,)), prosecution=ScriptedParticipant(), defence=ScriptedParticipant()
    )
    await done(at, asked=question(shape))
    assert f"you argue for {high}" in heard(at, "prosecution")
    assert f"you argue for {low}" in heard(at, "defence")


@pytest.mark.parametrize("dialect", [ModelDialect.TOOLS, ModelDialect.JSON])
@pytest.mark.parametrize("shape", [CHOICE, NUMBER])
async def test_choices_numbers_and_several_targets_are_voted_on(shape: Any, dialect: ModelDialect) -> None:
    percent = dialect is ModelDialect.JSON
    shares = {"red": 50, "green": 30, "blue": 20} if percent else {"red": 0.5, "green": 0.3, "blue": 0.2}
    levels = {f"p{level}": place * 10.0 for place, level in enumerate((5, 10, 25, 50, 75, 90, 95), 1)}
    one = shares if shape is CHOICE else levels

    def script(prompt: Any) -> Any:
        if not percent:
            return ScriptedParticipant(answers=(dict.fromkeys(("a", "b"), one),))(prompt)
        schema: Any = prompt.schema
        tool = schema["properties"]["action"]["const"]
        fields = schema["properties"]["arguments"]["properties"]
        actor = ScriptedParticipant(answers=(dict.fromkeys(("a", "b"), one),))
        given = {name: actor.value(tool, name, field) for name, field in fields.items()}
        return ModelCompletion(text=json.dumps({"action": tool, "arguments": given}))

    at = scripted_context(models={"main": ScriptedModel(script, dialect)})
    asked = question(shape, targets=("a", "b"))
    steps = await done(at, asked=asked)
    assert all(belief_mismatch(step.belief, asked) is None for step in steps)
    mean = told(steps[-1], "tally")["mean"]
    assert set(mean) == {"a", "b"}
    expected = {"red": 0.5, "green": 0.3, "blue": 0.2}
    if shape is CHOICE:
        assert mean["a"] == pytest.approx(expected, abs=0.02)
    else:
        assert mean["a"]["p50"] == pytest.approx(40.0, abs=0.5)


@pytest.mark.parametrize(
    ("limit", "played"),
    [
        (200, [("jury", 1), ("queries", 1), ("search", 1), ("ranking", 1), ("summary", 1), ("rules", 1),
               ("prosecution_opening", 1), ("defence_opening", 1), ("votes", 3), ("synthesis", 1)]),
        (10, [("jury", 1), ("queries", 1), ("search", 1), ("ranking", 1), ("summary", 1), ("rules", 1), ("votes", 3),
              ("synthesis", 1)]),
        (5, [("jury", 1), ("votes", 3), ("synthesis", 1)]),
    ],
)  # fmt: skip
async def test_steps_for_the_vote_are_reserved(limit: int, played: list[tuple[str, int]]) -> None:
    steps = await done(scripted_context(**jurors(0.6, 0.8, 0.1), limits=TrialLimits(steps=limit)))
    assert [*Counter(told(step, "name") for step in steps).items()] == played
    assert steps[-1].final
    assert probability(steps[-1]) == pytest.approx(0.5)
    left_out = {remark for step in steps for remark in step.remarks if "was left out" in remark}
    assert len(left_out) == 10 - len(played)
    assert all(remark.endswith("the steps left are for a verdict") for remark in left_out)


@pytest.mark.parametrize(("limit", "is_answer"), [(5, True), (4, True), (3, True), (2, False)])
async def test_with_steps_for_less_than_half_of_the_votes_a_trial_has_failed(limit: int, is_answer: bool) -> None:  # noqa: FBT001 - a case
    limits = TrialLimits(steps=limit)
    at = scripted_context(limits=limits)

    async def log(_number: int, _step: Step) -> None:
        """Keep nothing."""

    court = CourtForecaster(CourtSettings())
    trial = await run_trial(court, question(), at, TrialSettings(limits=limits, log=log))
    assert (trial.is_answer, trial.steps) == (is_answer, limit)


@dataclass(kw_only=True)
class SlowTrialContext(ScriptedTrialContext):
    """A context whose models take their time, on a virtual clock that also says how much of it is left."""

    clock: VirtualClock
    call_seconds: float

    async def ask_model(self, role: str, prompt: Prompt, *, seed: int | None = None) -> ModelAnswer:
        await self.clock.sleep(self.call_seconds)
        return await ScriptedTrialContext.ask_model(self, role, prompt, seed=seed)

    def is_final_answer_time(self, place: str) -> bool:
        self.seconds_left = self.limits.seconds - self.clock.monotonic()
        return ScriptedTrialContext.is_final_answer_time(self, place)


@pytest.mark.parametrize(
    ("seconds", "call_seconds", "ended_s", "votes"),
    [
        # By default a trial has the time that it needs: all 28 steps, 26 of them calls that wait for each other.
        (1680.0, 4.0, 104.0, 10),
        (1680.0, 60.0, 1560.0, 10),
        # With less, some exchanges and the second vote are left out, never the first vote.
        (100.0, 4.0, 88.0, 5),
        (60.0, 4.0, 56.0, 5),
        (40.0, 4.0, 40.0, 5),
    ],
)
def test_a_court_of_28_steps_votes_within_its_time_also_with_a_slow_model(
    seconds: float, call_seconds: float, ended_s: float, votes: int
) -> None:
    limits = TrialLimits(steps=count_moves(load_shipped_scenario("full")), seconds=seconds)
    kept: list[Step] = []

    async def log(_number: int, step: Step) -> None:
        kept.append(step)

    async def main(clock: VirtualClock) -> tuple[Trial, float]:
        at = SlowTrialContext(
            clock=clock, call_seconds=call_seconds, limits=limits, cutoff=CUTOFF,
            models={"main": ScriptedModel(ScriptedParticipant())}, scripted_tools=[searches(), reads()],
        )  # fmt: skip
        court = CourtForecaster(CourtSettings(scenario="full"))
        return await run_trial(court, question(), at, TrialSettings(limits=limits, log=log)), clock.monotonic()

    trial, took_s = run_in_virtual_time(main)
    assert trial.is_answer
    assert trial.belief is not None
    assert (trial.belief.stated, trial.belief.reason) == (True, "mean of 5 of 5 jurors")
    assert sum(step.action.arguments.get("kind") == "vote" for step in kept) == votes
    assert took_s == pytest.approx(ended_s)
    assert took_s <= seconds


async def test_what_the_policy_of_a_source_wants_first_is_used_and_kept_as_an_article() -> None:
    history = fixed_text_tool("series_history", "The level was 3.")
    tools = [searches(), reads(), history]
    at = scripted_context(scripted_tools=tools, policy=SourcePolicy(first="series_history"))
    steps = await done(at)
    assert at.tool_calls[0][0] == "series_history"
    kept = {one["id"]: one for one in told(named(steps, "ranking")[0], "articles")}
    assert (kept["series_history"]["score"], kept["series_history"]["kept"]) == (10, True)
    assert any("The level was 3." in message.text for one in at.prompts for message in one.prompt.messages)


async def test_an_exchange_of_several_turns_goes_back_and_forth(tmp_path: Any) -> None:
    file = tmp_path / "talk.toml"
    file.write_text("""
[[agents]]
name = "judge"
[[agents]]
name = "witness"
[[steps]]
name = "hearing"
action = "message"
initiator = "judge"
receiver = "witness"
message = "What did you see at {step}, {word}?"
max_turns = 2
store = "word"
silent = true
[[steps]]
action = "message"
kind = "synthesis"
initiator = "witness"
receiver = "judge"
message = "{word}"
""")
    words = {"say": {"statement": "a sail"}}
    at = scripted_context(
        judge=ScriptedParticipant(answers=(0.6,), says={"say": {"statement": "Which one?"}}),
        witness=ScriptedParticipant(says=words),
    )
    steps = await done(at, CourtSettings(scenario=str(file)))
    assert [(told(step, "from"), told(step, "to")) for step in steps] == [
        ("judge", "witness"), ("witness", "judge"), ("judge", "witness"), ("witness", "judge")
    ]  # fmt: skip
    assert "Which one?" in heard(at, "witness")
    assert told(steps[0], "silent")
    assert "nothing was stored under word when step 0 read it" in steps[0].remarks
    assert probability(steps[-1]) == 0.6


@pytest.mark.parametrize("scenario", ["ten", "full"])
async def test_all_requests_of_a_trial_begin_alike_and_each_conversation_only_grows(scenario: str) -> None:
    at = scripted_context(rater=ScriptedParticipant())
    await done(at, CourtSettings(scenario=scenario))
    assert changed_prefixes(at.prompts) == []
    asked = [one.prompt for one in at.prompts if one.role != "rater"]
    # One list of tools and one system text for everybody, and one call that is asked for each time.
    assert len({tuple(map(id, prompt.tools)) for prompt in asked}) == 1
    assert len({prompt.messages[0].text for prompt in asked}) == 1
    assert {len(prompt.allowed) for prompt in asked} == {1}
    # Question and case file come first, and the case file only grows.
    openings = [[*takewhile(lambda text: "# Your part" not in text, texts_of(prompt))] for prompt in asked]
    assert all(later[: len(before)] == before for before, later in pairwise(sorted(openings, key=len)))
    assert len(openings[-1]) == {"ten": 1 + 5, "full": 1 + 20}[scenario]


async def test_everybody_reads_what_the_court_has_heard_once_and_before_their_own_part() -> None:
    at = scripted_context(
        ScriptedParticipant(says={"say": {"statement": "count the masts"}}),
        prosecution=ScriptedParticipant(says={"argue": {"statement": "it has sailed"}}),
        defence=ScriptedParticipant(says={"argue": {"statement": "a storm came"}}),
        juror=ScriptedParticipant(),
    )
    await done(at, CourtSettings(rounds=2))
    words = heard(at, "juror")
    places = [words.index(part) for part in ("# Question", "The whole story.", "words to estimate", "count the masts",
              "it has sailed", "a storm came", "# Your part", "- age: age", "# Your task")]  # fmt: skip
    assert places == sorted(places)
    assert (words.count("count the masts"), words.count("it has sailed"), words.count("The whole story.")) == (1, 3, 2)
    # A side reads its own words in the case file, and is not told them again.
    assert heard(at, "defence").count("a storm came") == 2


async def test_profile_and_rules_are_instructions_and_all_else_is_fenced() -> None:
    at = scripted_context(
        ScriptedParticipant(says={"say": {"statement": "count the masts"}, "estimate": {"statement": "a fair wind"}}),
        juror=ScriptedParticipant(),
    )
    await done(at)
    fenced = [text for _, text in fenced_parts(heard(at, "juror"))]
    assert any("a fair wind" in text for text in fenced)
    assert any("The whole story." in text for text in fenced)
    assert not any("count the masts" in text or "age 3" in text for text in fenced)
    assert "\n- age: age 3\n- background: background 3\n" in heard(at, "juror")


@pytest.mark.parametrize("shape", [None, CHOICE, NUMBER])
async def test_everybody_reads_how_answers_of_this_kind_are_judged_and_the_rater_does_not(shape: Any) -> None:
    at, asked = scripted_context(juror=ScriptedParticipant(), rater=ScriptedParticipant()), question(shape)
    await steps_of(at, None, asked)
    assert all(judging_text(asked) in one.prompt.messages[0].text for one in at.prompts if one.role == "juror")
    assert judging_text(asked) not in heard(at, "rater")
    assert judging_text(asked).splitlines()[1] in at.stored_texts[0]


@pytest.mark.parametrize(
    ("settings", "shown"), [({}, 0), ({"show_crowd": True}, 1), ({"show_crowd": True, "crowd": False}, 0)]
)
async def test_nobody_reads_the_price_of_the_crowd_unless_a_setting_asks_for_it(
    settings: dict[str, Any], shown: int
) -> None:
    at = scripted_context(rater=ScriptedParticipant())
    steps = await done(at, CourtSettings(**settings), asked=priced(0.31))
    texts = ["\n".join(message.text for message in one.prompt.messages) for one in at.prompts]
    # What an article is worth does not depend on the price.
    wanted_counts = [shown * (one.role != "rater") for one in at.prompts]
    assert [text.count("## Crowd") for text in texts] == wanted_counts
    assert [text.count("0.31") for text in texts] == wanted_counts
    assert probability(steps[0]) == (0.31 if settings.get("crowd", True) else 0.5)


async def test_the_judge_reads_every_word_of_a_large_jury() -> None:
    words = " ".join(f"reason{number}" for number in range(250))
    at = scripted_context(juror=ScriptedParticipant(says={"vote": {"statement": words}}), judge=ScriptedParticipant())
    await done(at, CourtSettings(jurors=25))
    assert heard(at, "judge").count("reason249") == 25


async def test_an_answer_that_the_case_file_does_not_hold_is_told_to_the_one_who_gave_it() -> None:
    at = scripted_context(
        head=ScriptedParticipant(says={"search_for": {"queries": ["tides of the harbour"]}}),
        judge=ScriptedParticipant(),
    )
    await done(at)
    assert "In this trial you said before:" in heard(at, "head")
    assert "tides of the harbour" in heard(at, "head")
    assert "tides of the harbour" not in heard(at, "judge")


@pytest.mark.parametrize(
    ("shape", "estimate", "high", "low"),
    [
        (CHOICE, {"red": 0.2, "green": 0.1, "blue": 0.7}, ["blue"], ["blue", "red"]),
        (CHOICE, {"red": 0.1, "green": 0.5, "blue": 0.4}, ["green"], ["green", "blue"]),
    ],
)
async def test_of_options_the_sides_argue_for_the_two_that_lead_by_the_estimate(
    shape: Any, estimate: Any, high: list[str], low: list[str]
) -> None:
    at = scripted_context(
        ScriptedParticipant(answers=(estimate, {"red": 0.9, "green": 0.05, "blue": 0.05})),
        prosecution=ScriptedParticipant(), defence=ScriptedParticipant(),
    )  # fmt: skip
    await done(at, CourtSettings(jurors=1, rounds=1), asked=question(shape))
    for role, options in (("prosecution", high), ("defence", low)):
        part = heard(at, role).partition("# Your part")[2]
        assert [text for label, text in fenced_parts(part) if "option" in label or "rival" in label] == options


@pytest.mark.parametrize(
    ("shape", "answer", "high", "low"),
    [
        (NUMBER, 40.0, "a high value, above 40.", "a low value, below 40."),
        (DATE, "2026-01-20", "a late date, later than 2026-01-", "an early date, earlier than 2026-01-"),
    ],
)
async def test_of_numbers_and_dates_the_sides_argue_above_and_below_the_median_of_the_estimate(
    shape: Any, answer: Any, high: str, low: str
) -> None:
    levels = (5, 10, 25, 50, 75, 90, 95)
    values = {f"p{level}": 10.0 * place if shape is NUMBER else answer for place, level in enumerate(levels, 1)}
    at = scripted_context(
        ScriptedParticipant(answers=(values,)), prosecution=ScriptedParticipant(), defence=ScriptedParticipant()
    )
    await done(at, asked=question(shape))
    assert f"you argue for {high}" in heard(at, "prosecution")
    assert f"you argue for {low}" in heard(at, "defence")
    assert "the median of the first estimate" in heard(at, "defence")
