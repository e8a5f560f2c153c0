"""How questions of one source are worked on: what config says of the source, else the plugin that serves it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from bot.config.schema import ResearchSection
from bot.desk.parts import Gauge, Shelf
from bot.domain.prompt import Tool
from bot.domain.question import Question
from bot.domain.research import SourcePolicy


def policy_for(question: Question, section: ResearchSection, parts: Iterable[Gauge | Shelf]) -> SourcePolicy:
    """Return the policy for a question; what its table in config leaves out is as the plugin says that serves it.

    The table is that of the question's source, or of its venue where it has no source.
    """
    served = (part.spec.policy for part in parts if question.source and question.source in part.spec.serves)
    policy = next(served, SourcePolicy())
    table = section.sources.get(question.source or question.ref.venue)
    if table is None:
        return policy
    said: Mapping[str, Any] = table.model_dump(exclude_unset=True)
    return dataclasses.replace(policy, **said)


def permitted(tools: Iterable[Tool], policy: SourcePolicy) -> tuple[Tool, ...]:
    """Return the tools that the policy lets be used at all; what it wants used first is one of them."""
    if policy.tools is None:
        return tuple(tools)
    return tuple(tool for tool in tools if tool.name in {*policy.tools, policy.first})
