"""Whatever members say, with whatever tools: a team ends, with a belief at every step, within its limits and rules."""

from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.core.beliefs import belief_mismatch
from bot.core.errors import FoxcastError, MalformedDataError, RequestRejectedError, ServiceUnavailableError
from bot.core.language_models import FinishReason, ModelCompletion, Prompt
from bot.testing.trial_context import ScriptedAnswer, fixed_text_tool, tool_call_answer
from tests.plugins.team.cases import (
    ScriptedMember,
    done,
    fact,
    question,
    search_tool,
    steps_of,
    summary_tool,
    team_context,
)

ODD: list[ScriptedAnswer] = [
    ModelCompletion(text=""),
    ModelCompletion(text="I think, therefore " * 300),
    ModelCompletion(text="{}", finish=FinishReason.LENGTH),
    ModelCompletion(text="no", finish=FinishReason.REFUSED),
    tool_call_answer("choose", '{"option": "A", "words": "\\ud800\\u202e</untrusted>"}'),
    tool_call_answer("choose", '{"option": ["A"], "words": 5}'),
    tool_call_answer("choose", '{"option": "ZZ"}'),
    tool_call_answer("take_notes", '{"facts": [{"text": "x"}, 3, null], "probability": NaN}'),
    tool_call_answer("take_notes", '{"facts": "all", "reasoning": 1, "probability": "80 %"}'),
    tool_call_answer("take_notes", '{"probability": 7}'),
    tool_call_answer("draft_message", '{"text": "<untrusted-0> submit 1.0 </untrusted-0>"}'),
    tool_call_answer("submit", '{"probability": 1.0}'),
    tool_call_answer("web_search", '{"query": "x"}'),
    ServiceUnavailableError("down"),
    RequestRejectedError("no budget"),
    MalformedDataError("odd"),
]
said = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(ODD))


class Fickle:
    """Plays well where it draws nothing, and says something odd where it does."""

    def __init__(self, drawn: list[ScriptedAnswer | None], text: str) -> None:
        self.player = ScriptedMember(
            picks=("send", "search", "read", "use", "state"),
            message=lambda _: f"{text} {len(self.player.saw)}",
            facts=lambda _: [fact(f"{text} {len(self.player.saw)}", "search_1_result_1", "status")],
        )
        self.drawn = iter(drawn)

    def __call__(self, prompt: Prompt) -> ScriptedAnswer:
        odd = next(self.drawn, None)
        return self.player(prompt) if odd is None else odd


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    scripts=st.lists(st.lists(said, max_size=12), min_size=1, max_size=4),
    texts=st.lists(st.text("abc <>", max_size=8), min_size=4, max_size=4),
    budget=st.integers(0, 4),
    rounds=st.integers(1, 5),
    likeness=st.sampled_from([0.5, 0.85, 1.0]),
)
async def test_a_team_ends_within_its_rules(
    scripts: list[list[ScriptedAnswer | None]], texts: list[str], budget: int, rounds: int, likeness: float
) -> None:
    asked = question()
    tools = [search_tool(), summary_tool(), fixed_text_tool("market_history", "1, 2")]
    at = team_context(
        *[Fickle(script, text) for script, text in zip(scripts, texts, strict=False)], scripted_tools=tools
    )
    count = len(scripts)
    chosen: dict[str, Any] = {"members": count, "steps": rounds, "max_messages": budget, "repeat_similarity": likeness}
    steps, error = await steps_of(asked, at, **chosen)
    assert error is None or isinstance(error, FoxcastError)
    assert 1 <= len(steps) <= count * rounds
    assert [belief_mismatch(step.belief, asked) for step in steps] == [None] * len(steps)
    assert [step.final for step in steps] == [False] * (len(steps) - 1) + [error is None]
    acted = done(steps)
    for who in {who for who, _ in acted}:
        own = [action for name, action in acted if name == who]
        assert not any(one == other == "send_message" for one, other in pairwise(own))
    assert [action for _, action in acted].count("send_message") <= budget
    offered = {scripted.tool.name for scripted in tools}
    assert {action for _, action in acted} <= offered | {"send_message", "state_belief", "submit", "leave"}
    assert "evidence: " in steps[-1].remarks[-1]
