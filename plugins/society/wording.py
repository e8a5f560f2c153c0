"""The prompts that do not stand in the scenario: text files beside this module."""

from __future__ import annotations

from bot.api import Question, filled, task_of, template, unfilled
from plugins.society.scenario import JurySelection, Scenario

PACKAGE = "plugins.society"


def system_text(own: str, question: Question) -> str:
    """Return what an agent is told of itself and of the rules that hold for all."""
    rules = filled(PACKAGE, "rules", task=task_of(question))
    return f"{own.strip()}\n\n{rules}" if own.strip() else rules


def juror_system(selection: JurySelection) -> str:
    """Return what a juror is told of itself, with the placeholder {profile} for who that is."""
    return selection.prompt_template or template(PACKAGE, "juror").template


def rating_system() -> str:
    """Return what the reader of articles is told."""
    return filled(PACKAGE, "rate")


def prompts(scenario: Scenario) -> str:
    """Return all texts that prompts are made from: their digest is the version of the prompts."""
    texts = unfilled(PACKAGE, "rules", "juror", "rate")
    return f"{texts}\n\n==== scenario\n{scenario.model_dump_json(exclude_defaults=True)}"
