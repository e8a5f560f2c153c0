"""Whatever a model answers, the stream ends within its limits, with valid beliefs and a reason for its end."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.domain.belief import unfit
from bot.domain.forecast import Limits
from bot.domain.prediction import BinaryShape
from bot.domain.prompt import Completion, Dialect, Finish, Prompt, ToolCall
from bot.domain.research import SourcePolicy
from bot.errors import ContractError, Rejected, Unauthorized, Unavailable
from bot.testing.desk import Said, ScriptedModel, offered
from plugins.blf.settings import BlfSettings, EarlyStop, Mode, ZeroShot
from tests.plugins.blf.cases import CHOICE, CURVE, DATE_CURVE, DATES, announced, desk, question, steps_of

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
def calls(draw: st.DrawFn) -> Completion:
    arguments: dict[str, Any] = {**draw(ARGUMENTS), "updated_belief": draw(BELIEFS)}
    text = draw(st.just(json.dumps(arguments)) | st.text() | st.just(json.dumps(arguments)[:-3]))
    made = [
        ToolCall(id=draw(st.text(max_size=3)), name=draw(NAMES), arguments=text) for _ in range(draw(st.integers(0, 2)))
    ]
    return Completion(text=draw(st.text(max_size=20)), calls=tuple(made), finish=draw(st.sampled_from(Finish)))


@st.composite
def objects(draw: st.DrawFn) -> Completion:
    said = {"action": draw(NAMES), "arguments": draw(ARGUMENTS | ODD), "updated_belief": draw(BELIEFS)}
    text = draw(st.text(max_size=10)) + json.dumps(said) * draw(st.integers(0, 2)) + draw(st.text(max_size=10))
    return Completion(text=text, finish=draw(st.sampled_from(Finish)))


ERRORS = st.sampled_from([Unavailable("down"), Rejected("no money"), Unauthorized("no key"), ContractError("odd")])
SAID: st.SearchStrategy[Said] = st.one_of(calls(), objects(), objects(), calls(), ERRORS)
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
    mode=st.sampled_from(Mode),
    zero_shot=st.sampled_from([ZeroShot.OFF, ZeroShot.OFF, *ZeroShot]),
    steps=st.integers(1, 5),
    early_stop=st.sampled_from(EarlyStop),
    compaction_chars=st.sampled_from([0, 100, 2000]),
    submit_margin=st.sampled_from([0.0, 0.05]),
)


@settings(max_examples=150)
@given(QUESTIONS, SETTINGS, st.lists(SAID, min_size=1, max_size=12), st.integers(1, 6), st.sampled_from(Dialect))
async def test_whatever_a_model_answers_the_trial_ends_in_order(
    asked: Any, how: BlfSettings, said: list[Said], limit: int, dialect: Dialect
) -> None:
    turn = iter(said * 20)

    def script(_prompt: Prompt) -> Said:
        return next(turn)

    models = {role: ScriptedModel(script, dialect) for role in ("main", "summariser")}
    policy = SourcePolicy(first="lookup_url") if limit % 2 else SourcePolicy()
    at = desk(models=models, limits=Limits(steps=limit), policy=policy)
    steps, error = await steps_of(asked, at, how)

    assert 1 <= len(steps) <= min(how.steps, limit)
    assert [unfit(step.belief, asked) for step in steps] == [None] * len(steps)
    assert steps[-1].action.name == ("submit" if error is None else "stop")
    assert steps[-1].observation.text.startswith("submitted " if error is None else "ended without submitting: ")
    for step in steps:
        # What the ledger keeps must be JSON that any file can hold.
        json.dumps(dict(step.action.arguments), allow_nan=False, ensure_ascii=False).encode()
        f"{step.action.name}{step.observation.text}{step.belief.evidence_for}{step.belief.reason}".encode()
    prompts = [one.prompt for one in at.asked if one.role == "main"]
    assert all(after.messages[: len(before.messages)] == before.messages for before, after in pairwise(prompts))
    assert all(announced(prompt) == offered(prompt) for prompt in prompts)
    assert {name for name, _ in at.used} <= {"web_search", "lookup_url"}
    assert sum(one.submitted is not None for one in at.graded) <= (1 if prompts and at.graded else 0)
