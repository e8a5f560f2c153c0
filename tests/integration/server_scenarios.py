"""What a model server can do to a trial, and the required result, played over real HTTP by each provider plugin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.core.beliefs import belief_mismatch
from bot.core.forecasts import TrialEnd, TrialLimits
from bot.core.values import Json
from bot.testing.model_server import (
    CompletionRequest,
    JsonFlaw,
    ReplyFunction,
    ScriptedModelServer,
    ScriptedReply,
    cut_connection,
    drop_connection,
    never_reply,
    reply_cut_short,
    reply_error,
    reply_refusal,
    reply_text,
    reply_web_page,
    with_flaw,
)
from tests.integration.engine_fixture import (
    FIRST,
    KEY,
    SPARE,
    EngineFixture,
    EngineSetup,
    RecordedRun,
    act,
    answers_to_calls,
    believed,
    look_up,
    open_engine,
    question,
    search,
    submit,
)

# The first call by litellm waits for its import.
PATIENT = TrialLimits(steps=10, seconds=90.0)
BOTH = ("tools", "json")
SEARCHES_THEN = ("web_search", "submit")


def by_number(*plays: ReplyFunction) -> ReplyFunction:
    """Play one after the other, request by request, the last one for ever."""
    return lambda asked: plays[min(asked.number, len(plays)) - 1](asked)


def always(reply: ScriptedReply) -> ReplyFunction:
    """Play the same reply for ever."""
    return lambda _: reply


def good(asked: CompletionRequest) -> ScriptedReply:
    """Search, read, submit: by the turn, whatever else happened."""
    plan = (search, lambda one: look_up(one, FIRST), lambda one: submit(one, 30))
    return plan[min(asked.assistant_turns, 2)](asked)


def quick(asked: CompletionRequest) -> ScriptedReply:
    """Submit at once."""
    return submit(asked, 30)


def believing(belief: Json) -> ReplyFunction:
    """Search with this update of the belief."""
    return lambda asked: act(asked, "web_search", {"query": "lamp"}, belief)


def out_of_range(asked: CompletionRequest) -> ScriptedReply:
    """Search with a belief beyond certainty."""
    return act(asked, "web_search", {"query": "lamp"}, believed(25_000, asked))


def spoilt(flaw: JsonFlaw) -> ReplyFunction:
    """Search with a flaw in the text of the move."""
    return lambda asked: with_flaw(search(asked), flaw)


def in_parallel(asked: CompletionRequest) -> ScriptedReply:
    """Call three tools at once."""
    one, two = search(asked), look_up(asked, FIRST)
    return replace(one, calls=(*one.calls, *two.calls, *submit(asked, 99).calls))


def invented(asked: CompletionRequest) -> ScriptedReply:
    """Use a tool that nobody offers."""
    return act(asked, "run_shell", {"command": "env"}, believed(40, asked))


def relieved(asked: CompletionRequest) -> ScriptedReply:
    """Search once and fail from then on; the other model searches once more and submits."""
    reply = json.dumps([message for message in asked.messages if message.get("role") == "assistant"])
    if not asked.model.endswith(SPARE):
        return reply_error(400) if asked.assistant_turns else search(asked)
    return submit(asked, 30) if "storm" in reply else search(asked, "storm")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerScenario:
    """A script, the setup, and the required result: ``asked`` counts requests, ``says`` is in the last step or detail.

    ``noted`` is in the first step.
    """

    name: str
    play: ReplyFunction
    end: TrialEnd
    actions: Sequence[str]
    says: str = ""
    noted: str = ""
    asked: int | None = None
    waited_s: float = 0.0
    probability: float | None = 0.3
    limits: TrialLimits = PATIENT
    dialects: Sequence[str] = BOTH
    setup: Mapping[str, Any] = field(default_factory=dict)


FINISHED, FAILED = TrialEnd.FINISHED, TrialEnd.FAILED
THREE = {"provider": {"attempts": 3}}
KEPT = "belief kept"
SCENARIOS = [
    ServerScenario(
        name="all goes well", play=good, end=FINISHED, actions=("web_search", "lookup_url", "submit"), asked=3
    ),
    ServerScenario(
        name="a belief is missing",
        play=by_number(believing(None), quick),
        end=FINISHED,
        actions=SEARCHES_THEN,
        noted="updated_belief was missing",
    ),
    ServerScenario(
        name="a belief is a text",
        play=by_number(believing("quite sure"), quick),
        end=FINISHED,
        actions=SEARCHES_THEN,
        noted=KEPT,
    ),
    ServerScenario(
        name="a belief is beyond certainty",
        play=by_number(out_of_range, quick),
        end=FINISHED,
        actions=SEARCHES_THEN,
        noted=KEPT,
    ),
    ServerScenario(
        name="a belief is NaN",
        play=by_number(spoilt(JsonFlaw.NAN), quick),
        end=FINISHED,
        actions=("submit",),
        noted="answer 1 was no valid action",
        asked=2,
    ),
    ServerScenario(
        name="an answer breaks off and is repaired",
        play=by_number(always(reply_cut_short('{"action": "web_sea')), good),
        end=FINISHED,
        # The repaired turn is the first of the three, of which the script sees the second.
        actions=("lookup_url", "submit"),
        noted="answer 1 was no valid action",
    ),
    ServerScenario(
        name="nothing that it says is a move",
        play=always(reply_text("I would rather not answer.")),
        end=FAILED,
        actions=("stop",),
        says="no valid action after a repair",
        asked=2,
        probability=None,
    ),
    ServerScenario(
        name="it refuses",
        play=always(reply_refusal("I cannot help with that.")),
        end=FAILED,
        actions=("stop",),
        says="RequestRejectedError",
        # The same prompt would be refused again.
        asked=1,
        probability=None,
    ),
    ServerScenario(
        name="another model takes over",
        play=relieved,
        end=FINISHED,
        actions=("web_search", "web_search", "submit"),
        setup={"spare": True},
    ),
    ServerScenario(
        name="an answer out of range is asked for again",
        play=by_number(lambda asked: submit(asked, 25_000), quick),
        end=FINISHED,
        actions=("submit",),
        asked=2,
    ),
    ServerScenario(
        name="a tool is invented",
        play=by_number(invented, quick),
        end=FINISHED,
        actions=("run_shell", "submit"),
        noted="There is no tool",
    ),
    ServerScenario(
        name="three calls come at once",
        play=by_number(in_parallel, quick),
        end=FINISHED,
        actions=SEARCHES_THEN,
        noted="only the first counts",
        dialects=("tools",),
    ),
    ServerScenario(
        # What broke off may have been billed, so it is sent again only once.
        name="a body is torn once",
        play=by_number(lambda asked: cut_connection(quick(asked)), quick),
        end=FINISHED,
        actions=("submit",),
        asked=2,
        setup=THREE,
    ),
    ServerScenario(
        name="the connection ends without a byte, always",
        play=always(drop_connection()),
        end=FAILED,
        actions=("stop",),
        says="ServiceUnavailableError",
        asked=2,
        probability=None,
        setup=THREE,
    ),
    ServerScenario(
        name="it asks to wait",
        play=by_number(always(reply_error(429, retry_after_s=7)), quick),
        end=FINISHED,
        actions=("submit",),
        asked=2,
        waited_s=7.0,
        setup=THREE,
    ),
    ServerScenario(
        name="it asks to wait for an hour",
        play=always(reply_error(429, retry_after_s=3600)),
        end=FAILED,
        actions=("stop",),
        says="ServiceUnavailableError",
        asked=1,
        probability=None,
        setup=THREE,
    ),
    ServerScenario(
        name="it fails three times",
        play=always(reply_error(500)),
        end=FAILED,
        actions=("stop",),
        says="ServiceUnavailableError",
        asked=3,
        probability=None,
        setup=THREE,
    ),
    ServerScenario(
        name="it fails after a step",
        play=by_number(good, always(reply_error(503))),
        end=FAILED,
        actions=("web_search", "stop"),
        says="ServiceUnavailableError",
        probability=0.4,
    ),
    ServerScenario(
        name="it hangs",
        play=always(never_reply()),
        end=FAILED,
        actions=("stop",),
        says="no answer within",
        asked=1,
        probability=None,
        setup={"role": {"timeout_s": 0.3}},
    ),
    ServerScenario(
        name="the key is refused",
        play=always(reply_error(401)),
        end=FAILED,
        actions=("stop",),
        says="AuthenticationError",
        asked=1,
        probability=None,
        setup=THREE,
    ),
    ServerScenario(
        name="it is no server of models",
        play=always(reply_web_page()),
        end=FAILED,
        actions=("stop",),
        says="MalformedDataError",
        probability=None,
    ),
    ServerScenario(
        name="the request is refused",
        play=always(reply_error(400, why="too long")),
        end=FAILED,
        actions=("stop",),
        says="RequestRejectedError",
        asked=1,
        probability=None,
        setup=THREE,
    ),
    ServerScenario(
        name="it never submits",
        play=search,
        # The engine's limit is reached with the step in which BLF gives up.
        end=TrialEnd.STEP_LIMIT,
        actions=("web_search", "web_search", "stop"),
        says="only submit can be called now",
        probability=0.4,
        limits=TrialLimits(steps=3, seconds=90.0),
    ),
    ServerScenario(
        name="tokens run out",
        play=search,
        end=TrialEnd.TOKEN_LIMIT,
        actions=("web_search", "web_search"),
        probability=0.4,
        limits=TrialLimits(seconds=90.0, tokens=200),
    ),
    ServerScenario(
        name="the money of a trial runs out",
        play=search,
        end=TrialEnd.COST_LIMIT,
        actions=("web_search", "web_search"),
        probability=0.4,
        # 100 tokens at 1 dollar and 20 at 4 dollars a million.
        limits=TrialLimits(seconds=90.0, cost_usd=0.00035),
        setup={"free": False},
    ),
    ServerScenario(
        name="the budget of the question allows no call",
        play=search,
        end=TrialEnd.COST_LIMIT,
        actions=("stop",),
        says="BudgetExhaustedError",
        asked=0,
        probability=None,
        setup={"free": False, "budget": {"question_usd": 0.0001, "day_usd": None}},
    ),
]
SCENARIOS_BY_DIALECT = [(scene, dialect) for scene in SCENARIOS for dialect in scene.dialects]
NAMES = [f"{scene.name}, {dialect}" for scene, dialect in SCENARIOS_BY_DIALECT]
# Each scene in one dialect, in turn.
HALF = [(scene, scene.dialects[place % len(scene.dialects)]) for place, scene in enumerate(SCENARIOS)]
NAMES_OF_HALF = [f"{scene.name}, {dialect}" for scene, dialect in HALF]


async def check_scenario(scene: ServerScenario, kind: str, dialect: str, folder: Path) -> None:
    """Play a scenario and check the result."""
    setup = EngineSetup(kind=kind, dialect=dialect, **scene.setup)
    asked = question()
    async with ScriptedModelServer(scene.play) as server, open_engine(folder, server.base_url, setup) as engine:
        played = await engine.play(asked, scene.limits)
        again = await engine.again(played, scene.limits)
        left = await engine.open_calls()
        waited_s = max(engine.clock.waits, default=0.0)
    assert (played.trial.end, played.actions) == (scene.end, [*scene.actions]), played.trial.detail
    last, first = played.steps[-1].observation.text, played.steps[0].observation.text
    assert scene.says in f"{played.trial.detail}\n{last}"
    assert scene.noted in first
    assert waited_s >= scene.waited_s
    assert scene.asked in {None, server.count}
    assert scene.probability is None or abs(played.probability - scene.probability) < 1e-9
    assert again is None or again.is_identical, [trial.discrepancy for trial in again.trials]
    assert left == 0
    require_order(played, engine, server, scene.limits)


def require_order(played: RecordedRun, engine: EngineFixture, server: ScriptedModelServer, limits: TrialLimits) -> None:
    """Check what holds of every trial, whatever its server did."""
    asked = played.trace.question
    assert 1 <= len(played.steps) <= limits.steps
    assert [belief_mismatch(step.belief, asked) for step in played.steps] == [None] * len(played.steps)
    assert played.trial.belief == played.steps[-1].belief
    assert not (played.trial.end is FINISHED and played.trial.detail)
    assert not (played.trial.end is FAILED and not played.trial.detail)
    for request in server.requests:
        assert all(ids == answered for ids, answered in answers_to_calls(request.body))
        assert KEY not in str(request.body)
        assert request.headers["authorization"] == f"Bearer {KEY}"
