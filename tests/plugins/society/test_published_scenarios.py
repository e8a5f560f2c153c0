"""Scenario files in the form of AgentSocieties: translated with a note for each change, checked, and played."""

import json
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import ConfigError
from plugins.society.scenario import CourtSide, MessageKind, MoveAction
from plugins.society.scenario_files import find_warnings, parse_scenario
from plugins.society.settings import CourtSettings
from tests.plugins.society.cases import ScriptedParticipant, done, heard, named, probability, scripted_context, told

LLM = {"web_retrieval": False, "llm": True}
AGENTS: dict[str, Any] = {
    "HeadAgent": {"name": "HeadAgent", "system_message": "Lead.", "capabilities": {"web_retrieval": True, "llm": True}},
    "UserAgent": {
        "name": "UserAgent",
        "system_message": "Ask.",
        "capabilities": {"web_retrieval": False, "llm": False},
    },
    "Judge": {"name": "Judge", "system_message": "Judge fairly.", "capabilities": LLM, "jury_selection": None},
    "Prosecutor": {"name": "Prosecutor", "system_message": "Say why it is likely.", "capabilities": LLM},
    "Defense": {"name": "Defense", "system_message": "Say why it is unlikely.", "capabilities": LLM},
}
CLERK: dict[str, Any] = {
    "name": "Clerk",
    "system_message": "Choose jurors. Reply in JSON.",
    "capabilities": LLM,
    "jury_selection": {
        "requirements": ["Mix ages", "Mix trades", "Mix means", "Mix town and country", "Mix schooling"],
        "profile_fields": [
            "Age and home",
            "Trade/calling",
            "Knowledge of the topic",
            "Schooling",
            "Key view of things",
        ],
        "prompt_template": "Write {num_jurors} profiles: {requirements} {profile_fields} as JSON on {root_question}",
    },
}
JURORS = [{"name": f"Juror{n}", "system_message": "Weigh it well.", "capabilities": LLM} for n in (1, 2, 3, 4)]


def message(step: str, receiver: Any, text: str, store: str) -> dict[str, Any]:
    return {"step": step, "action_type": "message", "initiator": "UserAgent", "receiver": receiver, "message": text,
            "store": store}  # fmt: skip


def steps(receiver: Any = "Jurors") -> list[dict[str, Any]]:
    return [
        message("1", "HeadAgent", "One search on '{root_question}', please.", "searchQuery"),
        {"step": "2", "action_type": "web_search", "agent": "HeadAgent", "query": "{searchQuery}", "num_results": "20",
         "store": "articles"},
        {"step": "3", "action_type": "process_articles", "agent": "HeadAgent", "articles": "{articles}",
         "criteria": "relevance and objectivity", "num_top_articles": 6, "store": "top_articles"},
        message("4", "HeadAgent", "Sum up: {top_articles}", "evidence"),
        message("5", "Judge", "Set rules for {root_question}: {evidence}", "trial_rules"),
        message("6", "Prosecutor", "Open on {evidence}", "opening"),
        message("7", "Defense", "Open on {evidence}", "answer"),
        message("8", receiver, "How likely is {root_question}? {opening} {answer}", "jury_forecasts"),
        message("9", "Judge", "Sum up {jury_forecasts} and give the median.", "final_verdict"),
    ]  # fmt: skip


JURY_STEP = {
    "step": "0",
    "action_type": "generate_jury",
    "initiator": "Clerk",
    "receiver": "UserAgent",
    "num_jurors": 5,
}
PUBLISHED: dict[str, Any] = {
    "root_question": "Will the ship come in?",
    "agents": {**AGENTS, "Clerk": CLERK},
    "scenario": [JURY_STEP, *steps()],
}
# The four forms of the published files: a clerk with a step, a clerk without one, jurors as agents, and as a list. And
# agents as a list.
FORMS: dict[str, tuple[dict[str, Any], int]] = {
    "with a step": (PUBLISHED, 5),
    "with settings": ({**PUBLISHED, "num_jurors": 10, "generate_jury": True, "scenario": steps()}, 10),
    "jurors as agents": (
        {"generate_jury": False, "agents": {**AGENTS, **{one["name"]: one for one in JURORS}},
         "scenario": steps([one["name"] for one in JURORS])}, 4),
    "jurors as a list": ({"agents": {**AGENTS, "Jurors": JURORS}, "scenario": steps()}, 4),
    "all agents as a list": ({"agents": [*AGENTS.values(), CLERK], "scenario": [JURY_STEP, *steps()]}, 5),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
async def test_every_published_form_is_played(form: str, tmp_path: Path) -> None:
    table, count = FORMS[form]
    file = tmp_path / "ship.json"
    file.write_text(json.dumps(table, indent=2))
    at = scripted_context(
        ScriptedParticipant(answers=(0.9,)), juror=ScriptedParticipant(answers=(0.3,)),
        prosecution=ScriptedParticipant(), defence=ScriptedParticipant(),
    )  # fmt: skip
    played = await done(at, CourtSettings(scenario=str(file)))
    assert len(told(played[-1], "tally")["votes"]) == count
    assert probability(played[-1]) == pytest.approx(0.3)
    assert told(played[-1], "tally")["judge"] == {"outcome": 0.9}
    assert ("web_search", {"query": "ship harbour"}) in at.tool_calls
    assert "Say why it is likely." in heard(at, "prosecution")
    assert [point.text for point in played[-1].belief.evidence_against] == ["it sailed"]
    # The question of the venue, as the venue words it.
    assert "Will the ship come in?" in heard(at, "juror")
    assert ("Weigh it well." in heard(at, "juror")) == form.startswith("jurors as")
    assert named(played, "jury") == []


def test_a_published_file_becomes_a_scenario_of_this_court() -> None:
    scenario = parse_scenario(json.dumps(PUBLISHED), "ship.json")
    assert [agent.name for agent in scenario.agents] == ["head", "user", "judge", "prosecution", "defence", "clerk"]
    assert [agent.side for agent in scenario.agents[3:5]] == [CourtSide.FOR, CourtSide.AGAINST]
    selection = scenario.agent("clerk").jury_selection
    assert selection is not None
    assert selection.requirements.further[3] == "Mix town and country"
    assert selection.profile_fields[1] == "trade_calling"
    assert selection.prompt_template == ""
    assert [step.kind for step in scenario.steps if step.action is MoveAction.MESSAGE] == [
        MessageKind.QUERIES, MessageKind.TEXT, MessageKind.TEXT, MessageKind.ARGUMENT, MessageKind.ARGUMENT,
        MessageKind.VOTE, MessageKind.SYNTHESIS,
    ]  # fmt: skip
    assert (scenario.steps[0].agent, scenario.steps[0].num_jurors, scenario.steps[2].num_results) == ("clerk", 5, 20)
    assert scenario.steps[1].message == "One search on '{title}', please."
    assert (scenario.steps[1].store, scenario.steps[2].query) == ("search_query", "{search_query}")


def test_what_was_translated_is_said_line_by_line() -> None:
    notes = find_warnings(json.dumps(PUBLISHED), "ship.json")
    assert all(note.startswith("ship.json: translated: ") for note in notes)
    told = [note.removeprefix("ship.json: translated: ") for note in notes]
    assert "agents.Prosecutor: is called prosecution here" in told
    assert "agents.Defense: its points count as against" in told
    assert "agents.Clerk.jury_selection.prompt_template: left out, the clerk names jurors by a call" in told
    assert "scenario: articles is left out, all results of the searches so far are read" in told
    assert "scenario: the receiver Jurors is the jury, and votes" in told
    assert "scenario[8]: asks for vote" in told
    added = find_warnings(json.dumps(FORMS["jurors as a list"][0]), "ship.json")
    assert "ship.json: translated: scenario: a first step is added in which clerk chooses 4 jurors" in added
    assert "ship.json: translated: scenario[7]: asks for vote" in added


@pytest.mark.parametrize("form", ["with a step", "with settings"])
def test_a_fault_is_told_by_its_place_in_the_published_file(form: str) -> None:
    table = json.loads(json.dumps(FORMS[form][0]))
    table["scenario"][-1]["message"] = "Sum up {nothing}."
    text = json.dumps(table, indent=1)
    line = 1 + text[: text.index("{nothing}")].count("\n")
    with pytest.raises(
        ConfigError, match=rf"^ship\.json:{line}: scenario\[{len(table['scenario']) - 1}\]\.message: nothing"
    ):
        parse_scenario(text, "ship.json")


def test_all_fields_of_the_original_program_may_be_there_without_a_value() -> None:
    blank: dict[str, Any] = {
        "agent": None,
        "query": None,
        "criteria": "relevance and objectivity",
        "max_turns": 1,
        "silent": False,
    }
    filled = {**PUBLISHED, "scenario": [{**blank, "store": "", **step} for step in PUBLISHED["scenario"]]}
    assert parse_scenario(json.dumps(filled), "ship.json").steps[1].agent is None
