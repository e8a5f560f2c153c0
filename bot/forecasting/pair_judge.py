"""A cheap model judges whether two questions ask the same: it reads the criteria of both, and its reasons are kept."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bot.core.ids import derive_id
from bot.core.language_models import CostAttribution, Message, MessageRole, ModelAnswer, ModelRequest, Prompt
from bot.core.predictions import ChoiceShape
from bot.core.questions import Question
from bot.core.values import Json
from bot.forecasting.prompt_files import fill_role_prompt
from bot.forecasting.services import ModelGateway
from bot.forecasting.untrusted_text import clean_unfenced_text, fence_text
from bot.store.question_pairs import PairState, PairVerdict, QuestionPair

JUDGE_ROLE = "matcher"
# Under this name the costs of judging are listed.
JUDGE_NAME = "pairs"
ANSWER_TIME_S = 120.0
TEXT_CHARS = 6_000
REASON_CHARS = 1_000
JUDGE_SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["same", "different"]},
        "differences": {"type": "array", "items": {"type": "string"}},
        "reason": {"type": "string"},
    },
    "required": ["verdict", "differences", "reason"],
    "additionalProperties": False,
}


async def judge_pair(models: ModelGateway, pair: QuestionPair, first: Question, second: Question) -> PairVerdict:
    """Return the verdict of the model in the role ``matcher``; errors as in ``TrialContext.ask_model``."""
    prompt = Prompt(
        messages=(
            Message(speaker=MessageRole.SYSTEM, text=fill_role_prompt("matcher")),
            Message(speaker=MessageRole.USER, text=f"{_describe(first, 'one')}\n\n{_describe(second, 'two')}"),
        ),
        schema=JUDGE_SCHEMA,
    )
    charge = CostAttribution(
        scope=derive_id("pair", pair.id, pair.texts),
        ref=str(pair.first),
        venue=pair.first.venue,
        forecaster=JUDGE_NAME,
        trial=0,
    )
    answer = await models.ask(ModelRequest(role=JUDGE_ROLE, prompt=prompt, charge=charge), deadline_s=ANSWER_TIME_S)
    return parse_pair_verdict(answer)


def parse_pair_verdict(answer: ModelAnswer) -> PairVerdict:
    """Return what an answer says; an unreadable one leaves the pair proposed, with that as the reason."""
    found = _read_object(answer.completion.text)
    word, reason, differences = (found.get(name) for name in ("verdict", "reason", "differences"))
    if word not in {"same", "different"} or not isinstance(reason, str) or not isinstance(differences, list):
        return PairVerdict(
            state=PairState.PROPOSED,
            by=answer.model,
            reason="the model's reply could not be read",
            answer=answer.document,
        )
    return PairVerdict(
        state=PairState(str(word)),
        by=answer.model,
        reason=_clean(reason),
        differences=_clean("; ".join(str(one) for one in differences)),
        answer=answer.document,
    )


def _clean(text: str) -> str:
    return " ".join(clean_unfenced_text(text, REASON_CHARS).split())


def _read_object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text[text.find("{") : text.rfind("}") + 1])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _describe(question: Question, which: str) -> str:
    """Return the question as fenced text: what it asks, its options, when it closes, and its texts."""
    lines = [
        question.title,
        f"Options: {', '.join(question.shape.options)}" if isinstance(question.shape, ChoiceShape) else "",
        f"Closes: {_format_day(question.closes_at)}",
        f"Criteria: {question.criteria[:TEXT_CHARS]}",
        f"Background: {question.background[:TEXT_CHARS]}",
    ]
    text = "\n".join(line for line in lines if line)
    return fence_text(text, f"question {which}, of {question.ref.venue}", 2 * TEXT_CHARS + 2_000)


def _format_day(at: datetime | None) -> str:
    return "not fixed" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
