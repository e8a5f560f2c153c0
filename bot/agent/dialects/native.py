"""Moves as native tool calls; the belief travels inside the arguments of each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from bot.agent.belief import FIELD
from bot.agent.dialects.move import Garble, Move, parsed, why_empty
from bot.agent.reading import writable
from bot.domain.prompt import Completion, Finish, Message, Prompt, Speaker, Tool, ToolCall
from bot.domain.step import Json

# What answers each further call of one message: a step is one action.
NOT_RUN = "Not run: one call a step."
# What stands for an answer that nobody could send back.
UNREADABLE = "(a call that could not be read)"
CALL_ID = "call"

# Providers refuse a history that holds a call of any other name.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class NativeSpeech:
    """``belief`` is the schema of the update that each tool asks for; None for a loop without beliefs."""

    belief: Mapping[str, Json] | None = None
    # A tool and what it became, by its identity: a trial offers the same ones at every step.
    _dressed: dict[int, tuple[Tool, Tool]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], allowed: Sequence[Tool] = ()) -> Prompt:
        offered = tuple(self._offered(tool) for tool in tools)
        names = tuple(tool.name for tool in allowed)
        named = names if len(names) < len(offered) else ()
        return Prompt(messages=tuple(messages), tools=offered, allowed=named, stable=len(messages))

    def listing(self, tools: Sequence[Tool]) -> str:
        """Return nothing: the provider shows the model its tools."""
        return ""

    def read(self, completion: Completion) -> Move | Garble:
        if not completion.calls:
            return Garble(why_empty(completion))
        call = completion.calls[0]
        if not _NAME.fullmatch(call.name):
            return Garble("the call named no tool")
        found = parsed(call.arguments or "{}", complete=completion.finish is not Finish.LENGTH)
        if isinstance(found, Garble):
            return found
        arguments = dict(found.value)
        belief = arguments.pop(FIELD, None)
        more = ("more than one call came; only the first counts",) if len(completion.calls) > 1 else ()
        return Move(
            name=call.name,
            arguments=arguments,
            belief=belief if self.belief is not None else None,
            call=call.id or CALL_ID,
            notes=(*more, *found.notes),
        )

    def message(self, completion: Completion, move: Move | None) -> Message:
        if all(map(_can_go_back, completion.calls)) and len({call.id for call in completion.calls}) == len(
            completion.calls
        ):
            # Some servers write nothing for no arguments, and take only an object back.
            calls = tuple(call if call.arguments else replace(call, arguments="{}") for call in completion.calls)
            return Message(speaker=Speaker.ASSISTANT, text=completion.text, calls=calls, native=completion.native)
        # Many servers refuse a history with arguments that are no JSON, and those that sign a call refuse a mended one,
        # so it goes back in words, as it was understood.
        said = UNREADABLE
        if move is not None:
            arguments = {**move.arguments, **({} if move.belief is None else {FIELD: move.belief})}
            said = f"{move.name}({json.dumps(arguments, ensure_ascii=False)})"
        text = "\n".join(filter(None, (writable(completion.text), said)))
        return Message(speaker=Speaker.ASSISTANT, text=text)

    def replies(self, message: Message, text: str) -> list[Message]:
        if not message.calls:
            return [Message(speaker=Speaker.USER, text=text)]
        return [
            Message(speaker=Speaker.TOOL, text=NOT_RUN if number else text, answers=call.id)
            for number, call in enumerate(message.calls)
        ]

    def _offered(self, tool: Tool) -> Tool:
        if self.belief is None:
            return tool
        if id(tool) not in self._dressed:
            self._dressed[id(tool)] = (tool, _with_belief(tool, self.belief))
        return self._dressed[id(tool)][1]


def _can_go_back(call: ToolCall) -> bool:
    if not call.id or not _NAME.fullmatch(call.name):
        return False
    try:
        return isinstance(json.loads(call.arguments or "{}", parse_constant=_no_json), dict)
    except (ValueError, RecursionError):
        return False


def _no_json(constant: str) -> NoReturn:
    message = f"{constant} is not JSON"
    raise ValueError(message)


def _with_belief(tool: Tool, belief: Mapping[str, Json]) -> Tool:
    schema = dict(tool.parameters)
    properties, required = schema.get("properties"), schema.get("required")
    schema["type"] = "object"
    schema["properties"] = {**(properties if isinstance(properties, dict) else {}), FIELD: dict(belief)}
    schema["required"] = [*(required if isinstance(required, list) else []), FIELD]
    return Tool(name=tool.name, description=tool.description, parameters=schema)
