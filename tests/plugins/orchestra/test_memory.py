"""The shared memory: what is stored, by whom, when, and how it is found again."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.values import Json
from bot.forecasting.agent.parsing import significant_words
from plugins.orchestra.settings import OrchestraSettings
from plugins.orchestra.shared_memory import (
    MemoryCategory,
    MemoryOperation,
    SharedMemory,
    memory_tool,
)
from tests.plugins.orchestra.cases import (
    LEADER,
    critique,
    make,
    move,
    question,
    report,
    run,
    scripted_context,
    steps_of,
    store,
    submit,
    told,
)


def use(memory: SharedMemory, operation: str, author: str = "ann", *, step: int = 1, **arguments: Json) -> str:
    result = memory.use(author, {"operation": operation, **arguments}, step=step)
    return f"FAILED {result.observation.text}" if result.failed else result.observation.text


def filled(most: int = 100) -> SharedMemory:
    memory = SharedMemory(most=most)
    use(memory, "store", text="The port of Lima is closed", category="research", task="ports", step=3)
    use(memory, "store", "bob", text="Base rate 12 % of 40 cases", category="analysis", step=5)
    use(memory, "store", text="Lima opens again on Friday", category="research", task="ports", step=9)
    return memory


def test_an_entry_is_kept_with_author_category_task_and_step() -> None:
    assert use(filled(), "get", entry="M1").splitlines()[1:-1] == [
        "M1 [research] by ann, task ports, step 3:",
        "The port of Lima is closed",
    ]
    assert "M2 [analysis] by bob, step 5:" in use(filled(), "get", entry="m2")


def test_what_is_read_is_fenced() -> None:
    memory = filled()
    for found in (use(memory, "get", entry="M1"), use(memory, "recent"), use(memory, "search", text="lima")):
        assert found.startswith("<untrusted-")
        assert found.count("untrusted-") == 2


@pytest.mark.parametrize(
    ("operation", "arguments", "names"),
    [
        ("recent", {}, ["M3", "M2", "M1"]),
        ("search", {"text": "when does LIMA open?"}, ["M3", "M1"]),
        ("search", {"text": "lima friday"}, ["M3", "M1"]),
        ("search", {"text": "12 cases"}, ["M2"]),
        ("search", {"text": "lima", "category": "analysis"}, []),
        ("search", {"category": "analysis"}, ["M2"]),
        ("search", {"text": "whales"}, []),
        ("task_history", {"task": "ports"}, ["M1", "M3"]),
        ("task_history", {"task": "other"}, []),
        ("by_agent", {"agent": "bob"}, ["M2"]),
    ],
)
def test_entries_are_found_by_words_task_author_and_time(
    operation: str, arguments: dict[str, Any], names: list[str]
) -> None:
    lines = [line for line in use(filled(), operation, **arguments).splitlines() if line.startswith("M")]
    assert [line.split()[0] for line in lines] == names


def test_an_entry_is_changed_by_its_author_alone() -> None:
    memory = filled()
    assert "belongs to ann" in use(memory, "update", "bob", entry="M1", text="open")
    assert use(memory, "update", entry="M1", text="Lima is open", category="decisions", step=12) == "M1 changed"
    assert "M1 [decisions] by ann, task ports, step 3, changed at step 12:\nLima is open" in use(
        memory, "get", entry="M1"
    )


def test_figures_say_how_much_there_is_of_what_and_by_whom() -> None:
    memory = filled()
    assert use(memory, "categories").splitlines() == [
        "research: 2",
        "analysis: 1",
        "forecast_data: 0",
        "decisions: 0",
        "progress: 0",
        "errors: 0",
        "coordination: 0",
    ]
    stats = use(memory, "stats")
    assert stats.startswith("3 of at most 100 entries")
    assert "by: ann 2, bob 1" in stats
    assert "used: categories 1, stats 1, store 3" in stats


@pytest.mark.parametrize(
    ("operation", "arguments", "why"),
    [
        ("dance", {}, "operation should be one of store, search"),
        ("store", {"category": "research"}, "text is missing"),
        ("store", {"text": "x"}, "category should be one of research"),
        ("store", {"text": "x", "category": "gossip"}, "category should be one of research"),
        ("get", {}, "there is no entry null; the newest are: M1, M2, M3"),
        ("get", {"entry": "M9"}, 'there is no entry "M9"'),
        ("update", {"entry": "M9", "text": "x"}, 'there is no entry "M9"'),
        ("update", {"entry": "M1"}, "text is missing"),
    ],
)
def test_what_is_wrong_is_said(operation: str, arguments: dict[str, Any], why: str) -> None:
    found = use(filled(), operation, **arguments)
    assert found.startswith("FAILED")
    assert why in found


def test_the_oldest_entries_are_forgotten_and_long_lists_are_cut() -> None:
    memory = filled(most=2)
    assert list(memory.entries) == ["M2", "M3"]
    crowded = SharedMemory(most=100)
    for number in range(15):
        use(crowded, "store", text=f"fact {number} " + "x" * 1000, category="research")
    found = use(crowded, "recent")
    assert "(5 more; search with other words)" in found
    assert found.count("x" * 1000) == 7
    assert len(found) < 10_000


def test_words_leave_out_what_stands_in_every_text() -> None:
    assert significant_words("Is it 7 of the 40 SHIPS?") == {"7", "the", "40", "ships"}


VALUES = st.none() | st.text(max_size=20) | st.integers() | st.lists(st.text(max_size=3), max_size=2)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from([*memory_tool().parameters["properties"]]), VALUES), max_size=8))  # type: ignore[misc]
def test_whatever_is_sent_nothing_breaks_and_the_memory_stays_small(sent: list[dict[str, Any]]) -> None:
    memory = SharedMemory(most=3)
    for number, arguments in enumerate(sent):
        given_operation = {"operation": list(MemoryOperation)[number % len(MemoryOperation)]} | arguments
        assert memory.use("ann", given_operation, step=number).observation.text
    assert len(memory.entries) <= 3
    assert all(entry.category in MemoryCategory for entry in memory.entries.values())


async def test_subagents_and_orchestrator_read_what_the_others_stored_and_the_step_is_the_time() -> None:
    recall = move("shared_memory", {"operation": "search", "text": "tides"})
    at = scripted_context(
        make("ann"),
        make("bob"),
        run("ann"),
        run("bob"),
        recall,
        submit(),
        others={"ann": [store("tides are high"), report()], "bob": [recall, report()]},
    )
    steps, _ = await steps_of(question(), at, OrchestraSettings(memory_entries=5))
    line = "M1 [research] by ann, step 3:\ntides are high"
    assert line in told(at, "bob")[-1]
    assert line in told(at, LEADER)[-1]
    assert [step.action.arguments.get("text") for step in steps if step.action.name == "shared_memory"] == [
        "tides are high",
        "tides",
        "tides",
    ]


async def test_a_report_is_stored_at_once_with_author_and_task_and_later_runs_read_it() -> None:
    recall = move("shared_memory", {"operation": "recent"})
    figures = {"fay": [recall, report("one in ten", probability=0.1)]}
    at = scripted_context(
        make("ann"),
        make("bob"),
        make("fay", "forecaster"),
        move("run_subagents", {"runs": [{"name": name, "task": f"count {name}"} for name in ("ann", "bob")]}),
        run("fay"),
        submit(),
        others={
            "ann": [report("two ships", recommendations="look north")],
            "bob": [report("no storm", task_status="failed")],
            **figures,
        },
    )
    steps, error = await steps_of(question(), at)
    assert error is None
    seen = told(at, "fay")[-1]
    assert "M2 [errors] by bob, task count bob, step 5:\n(failed, confidence 70 of 100)\nno storm" in seen
    assert "M1 [research] by ann, task count ann, step 4:\n(complete, confidence 70 of 100)\ntwo ships" in seen
    assert "Recommendations: look north" in seen
    assert "shared memory: 3 entries, 1 uses" in steps[-1].observation.text


async def test_the_critic_sees_the_reports_and_not_the_draft_alone() -> None:
    others = {"ann": [report("two ships")], "critic": [critique()]}
    at = scripted_context(make("ann"), run("ann"), move("critic", {"draft": "0.9"}), submit(), others=others)
    await steps_of(question(), at)
    (case,) = told(at, "critic")
    assert "by ann, task find out" in case
    assert "two ships" in case


async def test_the_memory_ends_with_the_trial() -> None:
    for _ in range(2):
        at = scripted_context(move("shared_memory", {"operation": "recent"}), store("left behind"), submit())
        steps, _ = await steps_of(question(), at)
        assert "nothing of that kind" in steps[0].observation.text
