"""Whatever a server answers, in whatever order: the trial ends within its limits, believes something, and says why."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.beliefs import belief_mismatch
from bot.core.forecasts import TrialEnd, TrialLimits
from bot.core.predictions import BinaryShape, ChoiceShape, CurveShape
from bot.core.questions import Question, QuestionRef, Target
from bot.testing.model_server import (
    CompletionRequest,
    ScriptedModelServer,
    ScriptedReply,
    cut_connection,
    drop_connection,
    never_reply,
    reply_error,
    reply_of_size,
    reply_refusal,
    reply_text,
    reply_web_page,
)
from tests.integration.engine_fixture import FIRST, EngineFixture, EngineSetup, answers_to_calls, open_engine, question

NAMES = st.sampled_from(["web_search", "lookup_url", "summarize_results", "submit", "run_shell", "", "a b", "x" * 99])
KEYS = st.sampled_from(
    ["query", "url", "updated_belief", "probability", "percent", "percents", "quantiles", "reasoning", "confidence"]
)
LEAVES = st.one_of(
    st.sampled_from([0.5, 40, -1, 2, 10**30, True, None, "0.3", "lamp", FIRST, "http://10.0.0.1/", "\ud800\x00", ""]),
    st.floats(),
    st.text(max_size=8),
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5)


def sent(value: Any) -> str:
    """Return a value as a server would write it, also where JSON has no word for it."""
    return json.dumps(value)


def cut(text: str, share: float) -> str:
    return text[: int(len(text) * share)]


CALLS = st.lists(st.tuples(NAMES, OBJECTS.map(sent) | st.text(max_size=8)), min_size=1, max_size=3)
ACTIONS = st.builds(lambda name, arguments: sent({"action": name, "arguments": arguments}), NAMES, OBJECTS)
SAID = st.one_of(
    CALLS.map(lambda calls: ScriptedReply(calls=tuple(calls))),
    ACTIONS.map(reply_text),
    st.builds(cut, ACTIONS, st.floats(0, 1)).map(lambda text: ScriptedReply(text=text, finish="length")),
    st.text(max_size=20).map(reply_text),
)
RAW = st.binary(max_size=40) | VALUES.map(lambda value: sent(value).encode())
DONE = st.one_of(
    SAID,
    SAID,
    SAID,
    SAID.map(cut_connection),
    st.sampled_from([reply_error(status) for status in (400, 401, 404, 409, 413, 422, 429, 500, 502, 503, 529)]),
    st.sampled_from(
        [
            never_reply(),
            drop_connection(),
            reply_web_page(),
            reply_of_size(3 * 2**20),
            reply_refusal("no"),
            reply_error(429, retry_after_s=86_400),
        ]
    ),
    RAW.map(lambda raw: ScriptedReply(raw=raw)),
)
SHAPES = st.sampled_from(
    [
        BinaryShape(),
        ChoiceShape(options=("red", "green", "blue")),
        CurveShape(grid=tuple(float(point) for point in range(21)), unit="lamps", open_upper=True),
    ]
)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["tools", "json"])
async def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[ScriptedModelServer, EngineFixture]]:
    """One server and one ledger for all examples: each is a question of its own, and all of them leave their traces."""
    setup = EngineSetup(
        dialect=request.param,
        role={"timeout_s": 0.3},
        # Never left alone: every example is to reach the server.
        provider={"attempts": 2, "break_after": 10**9},
    )
    folder: Path = tmp_path_factory.mktemp("anything")
    async with ScriptedModelServer(reply_text("")) as server, open_engine(folder, server.base_url, setup) as engine:
        yield server, engine


@pytest.mark.asyncio(loop_scope="module")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(shape=SHAPES, reply=st.lists(DONE, min_size=1, max_size=6), steps=st.integers(1, 5))
async def test_whatever_a_server_does_the_trial_ends_in_order(
    served: tuple[ScriptedModelServer, EngineFixture], shape: Any, reply: list[ScriptedReply], steps: int
) -> None:
    server, engine = served
    asked = numbered(shape, server.count)
    begun = len(server.requests)

    def script(request: CompletionRequest) -> ScriptedReply:
        return reply[(request.number - begun - 1) % len(reply)]

    server.script = script
    limits = TrialLimits(steps=steps, seconds=20.0)
    played = await engine.play(asked, limits)

    trial = played.trial
    assert trial.end in {TrialEnd.FINISHED, TrialEnd.FAILED, TrialEnd.STEP_LIMIT}
    assert not (trial.end is TrialEnd.FAILED and trial.detail == "")
    assert not (trial.end is TrialEnd.FINISHED and trial.detail != "")
    assert 1 <= trial.steps == len(played.steps) <= steps
    assert [belief_mismatch(step.belief, asked) for step in played.steps] == [None] * trial.steps
    assert trial.belief == played.steps[-1].belief
    assert played.steps[-1].observation.text.startswith(("submitted ", "ended without submitting: ")) or (
        trial.end is TrialEnd.STEP_LIMIT
    )
    # One repair a step, one more request for an answer that is empty, and one more attempt a request.
    assert server.count - begun <= 8 * steps
    assert await engine.open_calls() == 0
    assert all(ids == fields for one in server.requests[begun:] for ids, fields in answers_to_calls(one.body))
    again = await engine.again(played, limits)
    assert again is None or again.is_identical, [one.discrepancy for one in again.trials]


def numbered(shape: Any, number: int) -> Question:
    targets = (Target(resolves_at=question().targets[0].resolves_at),)
    return question(ref=QuestionRef("lantern", f"lamp {number}"), shape=shape, targets=targets)
