"""Whatever a model answers, the stream ends within its limits, with valid beliefs and a reason for its end."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.core.beliefs import belief_mismatch
from bot.core.errors import AuthenticationError, MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.core.forecasts import TrialLimits
from bot.core.language_models import FinishReason, ModelCompletion, ModelDialect, Prompt, ToolCall
from bot.core.predictions import BinaryShape
from bot.core.research import SourcePolicy
from bot.testing.trial_context import ScriptedAnswer, ScriptedModel, offered_tool_names
from plugins.blf.settings import BlfSettings, EarlyStopMode, SearchMode, ZeroShotMode
from tests.plugins.blf.cases import CHOICE, CURVE, DATE_CURVE, DATES, announced, create_context, question, steps_of

NAMES = st.sampled_from(
    ["web_search", "lookup_url", "submit", "search_all", "read_mind", "", "a b", "\ud800", "keep_notes"]
)
FIELDS = st.sampled_from(
    ["probability", "probabilities", "percent", "percents", "quantiles", "query", "queries", "url", "reasoning"]
)
ODD = st.sampled_from([0.5, -1, 2, 50, 10**400, float("nan"), float("inf"), True, None, "0.3", "x", "\ud800\x00"])
KEYS = st.sampled_from(["outcome", *DATES, "red", "green", "blue", "p5", "p50", "p95", "text", "source"])
VALUES = st.recursive(
    ODD | st.floats(0, 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OPTIONS = st.fixed_dictionaries({option: st.floats(0, 1) for option in CHOICE.options})
QUANTILES = st.lists(st.floats(-1e300, 1e300), min_size=7, max_size=7).map(
    lambda found: {f"p{level}": value for level, value in zip((5, 10, 25, 50, 75, 90, 95), sorted(found), strict=True)}
)
ANSWERS = VALUES | OPTIONS | QUANTILES
BELIEFS = ODD | st.dictionaries(
    st.sampled_from(["confidence", "evidence_for", "evidence_against", "contradicted", "key_uncertainties"]) | FIELDS,
    ANSWERS | st.lists(st.fixed_dictionaries({"text": st.text(min_size=300), "source": st.text()}), max_size=7),
    max_size=5,
)
ARGUMENTS = st.dictionaries(FIELDS, ANSWERS, max_size=4)


@st.composite
def calls(draw: st.DrawFn) -> ModelCompletion:
    arguments: dict[str, Any] = {**draw(ARGUMENTS), "updated_belief": draw(BELIEFS)}
    text = draw(st.just(json.dumps(arguments)) | st.text() | st.just(json.dumps(arguments)[:-3]))
    made = [
        ToolCall(id=draw(st.text(max_size=3)), name=draw(NAMES), arguments=text) for _ in range(draw(st.integers(0, 2)))
    ]
    return ModelCompletion(
        text=draw(st.text(max_size=20)), calls=tuple(made), finish=draw(st.sampled_from(FinishReason))
    )


@st.composite
def objects(draw: st.DrawFn) -> ModelCompletion:
    answer = {"action": draw(NAMES), "arguments": draw(ARGUMENTS | ODD), "updated_belief": draw(BELIEFS)}
    text = draw(st.text(max_size=10)) + json.dumps(answer) * draw(st.integers(0, 2)) + draw(st.text(max_size=10))
    return ModelCompletion(text=text, finish=draw(st.sampled_from(FinishReason)))


ERRORS = st.sampled_from(
    [
        ServiceUnavailableError("down"),
        RequestRejectedError("no money"),
        AuthenticationError("no key"),
        MalformedDataError("odd"),
    ]
)
SAID: st.SearchStrategy[ScriptedAnswer] = st.one_of(calls(), objects(), objects(), calls(), ERRORS)
QUESTIONS = st.sampled_from(
    [
        question(shape, targets=targets)
        for shape in (BinaryShape(), CHOICE, CURVE, DATE_CURVE)
        for targets in (("outcome",), DATES)
    ]
)
SETTINGS = st.builds(
    BlfSettings,
    belief=st.booleans(),
    mode=st.sampled_from(SearchMode),
    zero_shot=st.sampled_from([ZeroShotMode.OFF, ZeroShotMode.OFF, *ZeroShotMode]),
    steps=st.integers(1, 5),
    early_stop=st.sampled_from(EarlyStopMode),
    compaction_chars=st.sampled_from([0, 100, 2000]),
    submit_margin=st.sampled_from([0.0, 0.05]),
)


@settings(max_examples=150)
@given(QUESTIONS, SETTINGS, st.lists(SAID, min_size=1, max_size=12), st.integers(1, 6), st.sampled_from(ModelDialect))
async def test_whatever_a_model_answers_the_trial_ends_in_order(
    asked: Any, how: BlfSettings, answer: list[ScriptedAnswer], limit: int, dialect: ModelDialect
) -> None:
    turn = iter(answer * 20)

    def script(_prompt: Prompt) -> ScriptedAnswer:
        return next(turn)

    models = {role: ScriptedModel(script, dialect) for role in ("main", "summariser")}
    policy = SourcePolicy(first="lookup_url") if limit % 2 else SourcePolicy()
    at = create_context(models=models, limits=TrialLimits(steps=limit), policy=policy)
    steps, error = await steps_of(asked, at, how)

    assert 1 <= len(steps) <= min(how.steps, limit)
    assert [belief_mismatch(step.belief, asked) for step in steps] == [None] * len(steps)
    assert steps[-1].action.name == ("submit" if error is None else "stop")
    assert steps[-1].observation.text.startswith("submitted " if error is None else "ended without submitting: ")
    for step in steps:
        # What the ledger keeps must be JSON that any file can hold.
        json.dumps(dict(step.action.arguments), allow_nan=False, ensure_ascii=False).encode()
        f"{step.action.name}{step.observation.text}{step.belief.evidence_for}{step.belief.reason}".encode()
    prompts = [one.prompt for one in at.prompts if one.role == "main"]
    assert all(after.messages[: len(before.messages)] == before.messages for before, after in pairwise(prompts))
    assert all(announced(prompt) == offered_tool_names(prompt) for prompt in prompts)
    assert {name for name, _ in at.tool_calls} <= {"web_search", "lookup_url"}
    assert sum(one.submitted is not None for one in at.reported_performances) <= (
        1 if prompts and at.reported_performances else 0
    )
