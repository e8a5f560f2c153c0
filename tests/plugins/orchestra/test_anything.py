"""Whoever is quick, and whatever anybody does: the order of things is the same, and the limits hold."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.beliefs import Step, belief_mismatch
from bot.core.errors import FoxcastError, RequestRejectedError, ServiceUnavailableError
from bot.core.forecasts import TrialEnd, TrialLimits
from bot.core.language_models import ModelAnswer, ModelCompletion, Prompt
from bot.forecasting.trial import TrialSettings, run_trial
from bot.testing.event_loop import VirtualClock, run_in_virtual_time
from bot.testing.forecaster import HangingStep
from bot.testing.trial_context import ScriptedAnswer, ScriptedTool, ScriptedTrialContext, fixed_text_tool
from plugins.orchestra.forecaster import OrchestraForecaster
from plugins.orchestra.settings import OrchestraSettings
from plugins.orchestra.subagent_kinds import KIND_NAMES
from tests.plugins.orchestra.cases import (
    LEADER,
    QUERY,
    Line,
    ask,
    batch,
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
    speaker,
    steps_of,
    store,
    submit,
)


@dataclass(slots=True, kw_only=True)
class SlowTrialContext(ScriptedTrialContext):
    """A trial context whose models answer after the given times; ``most`` counts concurrent requests."""

    clock: VirtualClock
    delays: Sequence[float] = (1.0,)
    running: int = 0
    most: int = 0
    count: int = field(default=0)

    async def ask_model(self, role: str, prompt: Prompt, *, seed: int | None = None) -> ModelAnswer:
        self.running += 1
        self.most = max(self.most, self.running)
        self.count += 1
        await self.clock.sleep(self.delays[self.count % len(self.delays)])
        self.running -= 1
        return await ScriptedTrialContext.ask_model(self, role, prompt, seed=seed)


def _slow(clock: VirtualClock, delays: Sequence[float], *leader: Line, **others: Any) -> SlowTrialContext:
    plain = scripted_context(*leader, others=others)
    return SlowTrialContext(
        cutoff=plain.cutoff,
        models=plain.models,
        scripted_tools=[_numbered()],
        limits=plain.limits,
        clock=clock,
        delays=delays,
    )


def _numbered() -> ScriptedTool:
    """Return a search that names its results in the order of its use, as the real tool does."""
    count = iter(range(1, 1000))
    plain = fixed_text_tool("web_search", "", query=QUERY)
    return ScriptedTool(plain.tool, lambda _: fixed_text_tool("x", f"search_{next(count)}_result_1").run({}))


@pytest.mark.parametrize("concurrency", [1, 2, 4])
def test_no_more_subagents_work_at_once_than_allowed_and_as_many_as_that(concurrency: int) -> None:
    names = ("ann", "bob", "cid", "dan", "eve")
    found: list[int] = []

    async def story(clock: VirtualClock) -> None:
        others = {name: [search(name), report(name)] for name in names}
        if concurrency > 1:
            leader = [*map(make, names), parallel(*names), submit()]
        else:
            leader = [*map(make, names), *map(run, names), submit()]
        at = _slow(clock, (1.0, 3.0, 2.0), *leader, **others)
        _, error = await steps_of(question(), at, OrchestraSettings(concurrency=concurrency))
        assert error is None
        found.append(at.most)

    run_in_virtual_time(story)
    assert found == [concurrency]


def test_whoever_answers_first_the_steps_and_all_prompts_are_the_same() -> None:
    found: list[tuple[list[Step], list[str]]] = []

    async def story(delays: Sequence[float], clock: VirtualClock) -> None:
        others = {name: [search(name), search(f"{name} again"), report(name)] for name in ("ann", "bob", "cid")}
        # One stores, which notes the time, while others behind it come to their end in the same round.
        others["ann"] = [search("ann"), store("ann was here"), report("ann")]
        others["bob"] = [search("bob"), report("bob")]
        others["cid"] = [*others["cid"][:2], move("shared_memory", {"operation": "recent"}), report("cid")]
        at = _slow(
            clock, delays, make("ann"), make("bob"), make("cid"), parallel("ann", "bob", "cid"), submit(), **others
        )
        steps, error = await steps_of(question(), at)
        assert error is None
        found.append((_without_documents(steps), sorted(repr(asked) for asked in at.prompts)))

    for delays in ((1.0,), (5.0, 1.0, 3.0), (3.0, 1.0)):
        run_in_virtual_time(partial(story, delays))
    assert found[0] == found[1] == found[2]


def test_who_begins_in_the_middle_is_offered_the_same_whether_models_answer_at_once_or_not() -> None:
    # A replay answers at once. In the second round ann uses the only search there is, while cid begins.
    names, found = ("ann", "bob", "cid"), []
    others = {"ann": [store("x"), search(), report()], "bob": [report()], "cid": [store("y"), report()]}
    leader = [*map(make, names), parallel(*names), submit()]
    once = ScriptedTool(fixed_text_tool("web_search", "found", query=QUERY).tool, _numbered().run, use_limit=1)

    async def story(clock: VirtualClock) -> None:
        for at in (_slow(clock, (1.0,), *leader, **others), scripted_context(*leader, others=others)):
            at.scripted_tools = [once]
            _, error = await steps_of(question(), at, OrchestraSettings(concurrency=2))
            assert error is None
            found.append(offered(at, "cid"))

    run_in_virtual_time(story)
    assert found[0] == found[1]
    assert ["web_search" in names for names in found[0]] == [True, False]


def _without_documents(steps: Sequence[Step]) -> list[Any]:
    # The scripted context numbers its answers in the order of arrival, which is what differs here.
    return [(step.action, step.observation.text, step.belief, step.usage, step.remarks) for step in steps]


def test_a_subagent_that_never_answers_costs_the_time_of_the_trial_and_no_more() -> None:
    logged: list[Step] = []

    async def log(_number: int, step: Step) -> None:
        logged.append(step)

    async def story(_clock: VirtualClock) -> None:
        others = {"ann": [search(), HangingStep()], "bob": [search("b"), HangingStep()]}
        at = scripted_context(make("ann"), make("bob"), parallel("ann", "bob"), others=others)
        at.limits = TrialLimits(steps=1000, seconds=60)
        trial = await run_trial(
            OrchestraForecaster(OrchestraSettings()), question(), at, TrialSettings(limits=at.limits, log=log)
        )
        assert trial.end is TrialEnd.TIME_LIMIT
        assert trial.belief is not None
        assert belief_mismatch(trial.belief, question()) is None
        # What both did before is on record.
        assert moves(logged)[2:] == [("ann", "web_search"), ("bob", "web_search")]

    run_in_virtual_time(story)


LEADER_MOVES = st.one_of(
    st.builds(make, st.sampled_from(["ann", "bob", "cid", "Bad Name"]), st.sampled_from([*KIND_NAMES, "oracle"])),
    st.builds(
        lambda name, tools: make(name, tools=tools),
        st.sampled_from(["dan", "eve"]),
        st.lists(st.sampled_from(["web_search", "lookup_url", "submit"]), max_size=2),
    ),
    st.builds(run, st.sampled_from(["ann", "bob", "eve"]), st.text(max_size=3)),
    st.builds(parallel, st.sampled_from(["ann", "cid"]), st.sampled_from(["bob", "dan", "ann"])),
    st.builds(
        lambda name, tasks: batch(name, *tasks),
        st.sampled_from(["ann", "bob"]),
        st.lists(st.sampled_from(["one", "two"]), max_size=3),
    ),
    st.sampled_from(
        [
            move("answer_guidance", {"name": "ann", "answer": "the red one"}),
            move("subagents", {"operation": "delete", "name": "ann"}),
            move("subagents", {"operation": "list"}),
            store("a note"),
            search("by hand"),
            ModelCompletion(text="Be creative!"),
            move("read_mind", {}),
        ]
    ),
)
MEMBER_MOVES = st.one_of(
    st.sampled_from(
        [
            search("x"),
            search("y"),
            store("fact"),
            report(),
            report(probability=0.2),
            ask(),
            move("submit", {}),
            run("ann"),
        ]
    ),
    st.sampled_from(
        [
            ModelCompletion(text="hm"),
            move("report_results", {}),
            ServiceUnavailableError("down"),
            RequestRejectedError("no money"),
        ]
    ),
)


@settings(max_examples=40)
@given(
    st.lists(LEADER_MOVES, max_size=8),
    st.lists(MEMBER_MOVES, min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(1, 12),
    st.sampled_from([3, 12, 1000]),
)
def test_whatever_everybody_does_the_limits_hold(
    leader: list[ModelCompletion], member: list[ScriptedAnswer], concurrency: int, turns: int, most: int
) -> None:
    given_settings = OrchestraSettings(
        subagents=3, concurrency=concurrency, total_agent_steps=turns, agent_steps=4, steps=10
    )
    at = _at_random(leader, member)
    at.limits = TrialLimits(steps=most)
    steps, error = asyncio.run(steps_of(question(), at, given_settings))
    assert error is None or isinstance(error, FoxcastError)
    assert len(steps) <= min(most, given_settings.most_steps)
    assert all(belief_mismatch(step.belief, question()) is None for step in steps)
    granted = {"ann", "bob", "cid", "dan", "eve"}
    assert {speaker(asked.prompt) for asked in at.prompts} <= granted | {LEADER}
    member_turns = [step for step in steps if step.action.arguments.get("made_by") in granted]
    assert len(member_turns) <= turns
    made = [step for step in steps if step.action.name == "create_subagent" and " is ready: " in step.observation.text]
    deleted = [step for step in steps if step.observation.text.startswith("ann is deleted.")]
    assert len(made) <= 3 + len(deleted)
    tools: dict[str, list[str]] = {str(step.action.arguments["name"]): _granted(step) for step in made}
    for name in granted:
        for names in offered(at, name):
            assert {"web_search", "lookup_url"} & set(names) <= set(tools[name])
            assert "submit" not in names


def _granted(step: Step) -> list[str]:
    return step.observation.text.partition(": ")[2].split(", ")


def _at_random(leader: list[ModelCompletion], member: list[ScriptedAnswer]) -> ScriptedTrialContext:
    lines, said = iter(leader), dict[str, int]()

    def member_says(prompt: Prompt) -> ScriptedAnswer:
        name = speaker(prompt)
        said[name] = said.get(name, -1) + 1
        return member[(said[name] + len(name)) % len(member)]

    def leader_says(prompt: Prompt) -> ScriptedAnswer:
        return next(lines, submit(0.6))

    return scripted_context(
        others={LEADER: leader_says, **dict.fromkeys(("ann", "bob", "cid", "dan", "eve"), member_says)}
    )
