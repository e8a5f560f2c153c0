"""Scenario files of AgentSocieties, the code of the paper, as scenarios of this court; each change has a note.

Source: https://github.com/festusev/AgentSocieties (Li et al., 2024), read at 499dcab: agents are an object, names are
in CamelCase, numbers may be texts, the clerk is the initiator of the choice of the jury, and jurors may be agents. A
list of agents is read too, where steps are numbered by texts, as there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plugins.society.scenario import JURY, CourtSide, MessageKind, MoveAction

# Agents have the names of this court, so that roles of models and interventions find them.
_NAMES = {"head_agent": "head", "user_agent": "user", "prosecutor": "prosecution", "defense": "defence"}
_SIDES = {"prosecution": CourtSide.FOR, "defence": CourtSide.AGAINST}
_JURORS = re.compile(r"jurors?_?\d*")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBERS = ("num_results", "num_top_articles", "num_jurors", "max_turns")
_DEFAULT_JURORS = 3
_JURY_MESSAGE = "Choose the jurors for this question. They should differ as the requirements say:"
_TEXTS = ("message", "query", "criteria", "system_message")
_MAX_NAME_CHARS = 40

Table = dict[str, Any]


@dataclass(slots=True)
class TranslatedScenario:
    """A scenario in the form of this court, and a note for each change; ``inserted`` steps are not in the file."""

    table: Table
    notes: list[str] = field(default_factory=list)
    inserted: int = 0

    def note(self, text: str) -> None:
        """Add a note, once."""
        self.notes += [] if text in self.notes else [text]


def translate_scenario(table: Mapping[str, Any]) -> TranslatedScenario:
    """Return a published scenario in the form of this court; any other table comes back unchanged."""
    found = TranslatedScenario(dict(table))
    steps = table.get("scenario")
    agents = table.get("agents")
    if not isinstance(steps, list) or not all(isinstance(one, dict) for one in steps):
        return found
    if isinstance(agents, list) and any(isinstance(step.get("step"), str) for step in steps):
        agents = {str(one.get("name", number)): one for number, one in enumerate(agents) if isinstance(one, dict)}
    elif isinstance(agents, dict):
        found.note("agents: an object, read as a list")
    else:
        return found
    jurors: list[Table] = []
    named = _listed_agents(agents, jurors)
    del found.table["scenario"]
    found.table["agents"] = [_translate_agent(name, one, found) for name, one in named]
    found.table["steps"] = [_translate_step(step, found) for step in steps]
    _add_jury(found, jurors)
    _add_kinds(found.table["steps"], found)
    return found


def _listed_agents(agents: Mapping[str, Any], jurors: list[Table]) -> list[tuple[str, Table]]:
    """Return the agents with their names; those that are jurors are added to ``jurors``."""
    named: list[tuple[str, Table]] = []
    for key, value in agents.items():
        for one in value if isinstance(value, list) else [value]:
            agent = dict(one) if isinstance(one, dict) else {}
            if _JURORS.fullmatch(_snake_case(key)):
                jurors.append(agent)
            else:
                named.append((key, agent))
    return named


def _translate_agent(key: str, agent: Table, found: TranslatedScenario) -> Table:
    translated = {name: value for name, value in agent.items() if value is not None}
    translated["name"] = _agent_name(key, found)
    if side := _SIDES.get(translated["name"]):
        translated["side"] = side.value
        found.note(f"agents.{key}: its points count as {side.value}")
    if isinstance(selection := translated.get("jury_selection"), dict):
        translated["jury_selection"] = _translate_selection(key, selection, found)
    return _with_placeholders(translated)


def _translate_selection(key: str, selection: Table, found: TranslatedScenario) -> Table:
    translated = dict(selection)
    if isinstance(requirements := selection.get("requirements"), list):
        translated["requirements"] = {"further": requirements}
    if isinstance(fields := selection.get("profile_fields"), list):
        translated["profile_fields"] = [_snake_case(str(one)) for one in fields]
        found.note(f"agents.{key}.jury_selection.profile_fields: {', '.join(translated['profile_fields'])}")
    if "{profile}" not in str(selection.get("prompt_template", "{profile}")):
        del translated["prompt_template"]
        found.note(f"agents.{key}.jury_selection.prompt_template: left out, the clerk names jurors by a call")
    return translated


def _translate_step(step: Mapping[str, Any], found: TranslatedScenario) -> Table:
    translated = {name: value for name, value in step.items() if value is not None and value != ""}
    if isinstance(translated.get("step"), str):
        del translated["step"]
        found.note("scenario: steps are numbered by their order")
    if translated.pop("articles", None) is not None:
        found.note("scenario: articles is left out, all results of the searches so far are read")
    for name in _NUMBERS:
        if isinstance(value := translated.get(name), str) and value.isdecimal():
            translated[name] = int(value)
    action = translated.pop("action_type", translated.get("action"))
    translated["action"] = action
    if action == MoveAction.GENERATE_JURY:
        translated.setdefault("agent", translated.get("initiator", ""))
        translated.setdefault("message", _JURY_MESSAGE)
        found.note("scenario: the initiator of generate_jury is its agent")
    if action != MoveAction.MESSAGE:
        translated = {name: value for name, value in translated.items() if name not in {"initiator", "receiver"}}
    return _with_placeholders({name: _translate_value(name, value, found) for name, value in translated.items()})


def _translate_value(name: str, value: Any, found: TranslatedScenario) -> Any:  # noqa: ANN401 - a JSON value
    if name == "receiver" and any(_JURORS.fullmatch(_snake_case(str(one))) for one in _as_list(value)):
        found.note(f"scenario: the receiver {' and '.join(map(str, _as_list(value)))} is the jury, and votes")
        return JURY
    if name in {"agent", "initiator", "receiver"} and isinstance(value, str):
        return _agent_name(value, found)
    return _snake_case(value) if name == "store" and isinstance(value, str) else value


def _add_jury(found: TranslatedScenario, jurors: Sequence[Table]) -> None:
    """Add the choice of a jury to a scenario that has jurors and does not choose them, and a clerk, if it has none."""
    wanted, count = found.table.pop("generate_jury", False), found.table.pop("num_jurors", None)
    steps: list[Table] = found.table["steps"]
    asks_jury = any(step.get("receiver") == JURY for step in steps)
    if any(step["action"] == MoveAction.GENERATE_JURY for step in steps) or not (wanted or jurors or asks_jury):
        return
    clerks = [agent["name"] for agent in found.table["agents"] if agent.get("jury_selection")]
    if not clerks:
        words = {str(one.get("system_message", "")).strip() for one in jurors} - {""}
        selection = {"prompt_template": f"{words.pop()}\n\n{{profile}}"} if len(words) == 1 else {}
        found.table["agents"].append({"name": "clerk", "jury_selection": selection})
        found.note("agents: a clerk is added who chooses the jurors")
    number = int(count) if str(count).isdecimal() else len(jurors) or _DEFAULT_JURORS
    clerk = clerks[0] if clerks else "clerk"
    choice = {"action": MoveAction.GENERATE_JURY, "agent": clerk, "num_jurors": number, "message": _JURY_MESSAGE}
    steps.insert(0, choice)
    found.inserted = 1
    found.note(f"scenario: a first step is added in which {clerk} chooses {number} jurors")


def _add_kinds(steps: Sequence[Table], found: TranslatedScenario) -> None:
    """Say what each message asks for, as far as its receiver and the use of its answer show."""
    searched = {name for step in steps for name in re.findall(r"\{(\w+)\}", str(step.get("query", "")))}
    messages = [(number, step) for number, step in enumerate(steps) if step["action"] == MoveAction.MESSAGE]
    for number, step in messages:
        kind = None
        if step.get("receiver") == JURY:
            kind = MessageKind.VOTE
        elif step.get("receiver") in _SIDES:
            kind = MessageKind.ARGUMENT
        elif step.get("store") in searched:
            kind = MessageKind.QUERIES
        elif step is messages[-1][1]:
            kind = MessageKind.SYNTHESIS
        if kind is not None and "kind" not in step:
            step["kind"] = kind
            found.note(f"scenario[{number - found.inserted}]: asks for {kind}")


def _with_placeholders(table: Table) -> Table:
    """Return a table whose texts name the question, and the results of steps, as this court does."""
    return {name: _rename_placeholders(value) if name in _TEXTS and isinstance(value, str) else value
            for name, value in table.items()}  # fmt: skip


def _rename_placeholders(text: str) -> str:
    def rename(match: re.Match[str]) -> str:
        name = _snake_case(match.group(1))
        return "{title}" if name == "root_question" else f"{{{name}}}"

    return re.sub(r"\{(\w+)\}", rename, text)


def _agent_name(name: str, found: TranslatedScenario) -> str:
    plain = _snake_case(name)
    plain = _NAMES.get(plain, plain)
    if plain != name:
        found.note(f"agents.{name}: is called {plain} here")
    return plain


def _snake_case(name: str) -> str:
    """Return a name in lower case with underscores, in at most as many characters as a name may have."""
    words = re.findall(r"[a-z0-9]+", _WORD_START.sub(" ", name).lower())
    while len(words) > 1 and len("_".join(words)) > _MAX_NAME_CHARS:
        words.pop()
    return "_".join(words)


def _as_list(value: Any) -> list[Any]:  # noqa: ANN401 - a JSON value
    return value if isinstance(value, list) else [value]
