"""A subagent that asks waits for its answer; one that gets none is told to conclude. And the critic."""

import pytest

from bot.core.errors import ServiceUnavailableError
from bot.core.language_models import ModelCompletion
from plugins.orchestra.settings import OrchestraSettings
from tests.plugins.orchestra.cases import (
    LEADER,
    Line,
    ask,
    batch,
    critique,
    make,
    move,
    moves,
    offered,
    parallel,
    question,
    report,
    run,
    scripted_context,
    search,
    steps_of,
    store,
    submit,
    told,
)


def answer(name: str = "ann", text: str = "the red one") -> ModelCompletion:
    return move("answer_guidance", {"name": name, "answer": text})


async def test_a_subagent_that_asks_goes_on_where_it_was_once_it_is_answered() -> None:
    at = scripted_context(
        make("ann"), run("ann"), answer(), submit(), others={"ann": [search(), ask(), report("the red ship")]}
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    assert moves(steps)[1:] == [
        ("ann", "web_search"),
        ("ann", "request_guidance"),
        (LEADER, "run_subagents"),
        ("ann", "report_results"),
        (LEADER, "answer_guidance"),
        (LEADER, "submit"),
    ]
    asked = told(at, LEADER)[2]
    assert "ann waits for guidance" in asked
    assert "which ship?" in asked.partition("<untrusted-")[2]
    # Its conversation goes on: the answer stands behind its question, and it may not ask again.
    assert "the red one" in told(at, "ann")[-1]
    assert "search_1_result_1" in str(at.prompts[-3].prompt.messages) + str(at.prompts[-2].prompt.messages)
    assert [("request_guidance" in names) for names in offered(at, "ann")] == [True, True, False]
    assert ["answer_guidance" in names for names in offered(at, LEADER)] == [False, False, True, False]


async def test_whoever_waits_can_neither_be_run_nor_deleted() -> None:
    at = scripted_context(
        make("ann"),
        make("bob"),
        run("ann"),
        run("ann", "something else"),
        answer("bob"),
        answer(),
        submit(),
        others={"ann": [ask(), report()]},
    )
    steps, _ = await steps_of(question(), at)
    assert "ann waits for guidance; answer it first" in steps[4].observation.text
    assert "bob did not ask" in steps[5].observation.text


async def test_a_request_that_is_ignored_twice_ends_in_a_report_without_an_answer() -> None:
    at = scripted_context(
        make("ann"),
        run("ann"),
        store("hm"),
        store("hm hm"),
        submit(),
        others={"ann": [ask(), report("so far nothing")]},
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    assert moves(steps)[3:] == [
        (LEADER, "shared_memory"),
        ("ann", "report_results"),
        (LEADER, "shared_memory"),
        (LEADER, "submit"),
    ]
    assert "No answer came" in told(at, "ann")[-1]
    assert offered(at, "ann")[-1] == ["report_results"]
    assert "so far nothing" in told(at, LEADER)[-1]


async def test_who_still_waits_at_the_end_is_dismissed_and_that_is_on_record() -> None:
    at = scripted_context(make("ann"), run("ann"), submit(), others={"ann": [ask()]})
    steps, error = await steps_of(question(), at)
    assert error is None
    assert "was still waiting for guidance when the work ended" in steps[-1].observation.text
    assert "guidance asked 1 times" in steps[-1].observation.text


async def test_guidance_can_be_switched_off() -> None:
    at = scripted_context(make("ann"), run("ann"), submit(), others={"ann": [report()]})
    await steps_of(question(), at, OrchestraSettings(guidance_requests=0))
    assert "request_guidance" not in offered(at, "ann")[0]


async def test_a_question_of_one_run_does_not_hold_up_the_others() -> None:
    others = {"ann": [report("one"), ask(), report("three"), report("two")]}
    at = scripted_context(make("ann"), batch("ann", "one", "two", "three"), answer(), submit(), others=others)
    steps, error = await steps_of(question(), at)
    assert error is None
    assert "ann reported" in told(at, LEADER)[2]
    assert "ann waits for guidance" in told(at, LEADER)[2]
    assert steps[-1].observation.text.count("- ann (researcher") == 3


async def test_two_may_wait_at_once_and_are_answered_by_name() -> None:
    at = scripted_context(
        make("ann"),
        make("bob"),
        parallel("ann", "bob"),
        answer("bob", "yes"),
        answer("ann", "no"),
        submit(),
        others={"ann": [ask(), report()], "bob": [ask(), report()]},
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    assert "no" in told(at, "ann")[-1]
    assert "yes" in told(at, "bob")[-1]
    assert steps[-1].observation.text.count("reported after 2 of 8 steps") == 2


async def test_the_critic_sees_the_draft_and_what_was_found_and_its_opinion_comes_back_fenced() -> None:
    at = scripted_context(
        store("the tide turned"),
        move("critic", {"draft": "It comes in, 0.9"}),
        submit(),
        others={"critic": [critique()]},
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    (case,) = told(at, "critic")
    assert "It comes in, 0.9" in case
    assert "the tide turned" in case
    assert "Will the ship come in?" in case
    heard = told(at, LEADER)[-1]
    assert "thin\nObjections: one source\nMissing: nothing\nThe probability should be: lower" in heard
    assert steps[1].usage.calls == 2
    assert "critic asked 1 times" in steps[-1].observation.text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (ServiceUnavailableError("down"), "There is no critique.\n<untrusted-"),
        (ModelCompletion(text="I love it"), "no action"),
        (critique(probability_change="up"), "probability_change should be one of higher, lower, as it is"),
    ],
)
async def test_a_critic_that_fails_is_left_out(line: Line, why: str) -> None:
    at = scripted_context(move("critic", {"draft": "x"}), move("critic", {}), submit(), others={"critic": [line] * 2})
    steps, error = await steps_of(question(), at)
    assert error is None
    assert why in steps[0].observation.text
    assert "draft is missing" in steps[1].observation.text


async def test_the_critic_is_asked_three_times_at_most() -> None:
    drafts = [move("critic", {"draft": str(number)}) for number in range(3)]
    at = scripted_context(*drafts, submit(), others={"critic": [critique()] * 3})
    await steps_of(question(), at)
    assert ["critic" in names for names in offered(at, LEADER)] == [True, True, True, False]
