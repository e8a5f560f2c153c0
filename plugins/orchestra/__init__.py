"""The orchestra: one model leads, makes subagents with limits that code holds them to, and answers from their reports.

It needs a model in the role main. Any of these roles takes its place where a model plays it: orchestrator; scout,
researcher, analyst, critic, forecaster and custom, else subagent; subagent_NAME for the setting ``models``; candidate
and aggregator.
"""

from bot.api import CALL_SECONDS, Can, CommandSpec, ForecasterSpec, hookimpl
from plugins.orchestra.aggregation import CANDIDATE, MERGE
from plugins.orchestra.catalogue import CUSTOM, NAMES
from plugins.orchestra.commands import orchestra
from plugins.orchestra.crew import ORCHESTRATOR
from plugins.orchestra.forecaster import open_orchestra
from plugins.orchestra.lessons import LessonLearner
from plugins.orchestra.run import MAIN, ROLE
from plugins.orchestra.settings import OrchestraSettings


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[OrchestraSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="orchestra",
            summary="A language model that makes subagents, sets them to work, and answers from what they report",
            abilities=frozenset({Can.ASK_MODELS, Can.LEARN}),
            settings=OrchestraSettings,
            open=open_orchestra,
            learner=lambda _: LessonLearner(),
            steps=lambda settings: settings.most_steps,
            seconds=lambda settings: CALL_SECONDS * settings.most_steps,
            roles=(MAIN,),
            may_ask=(ORCHESTRATOR, ROLE, f"{ROLE}_*", *NAMES, CUSTOM, CANDIDATE, MERGE),
        )
    ]


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    """Offer the command that shows what an orchestra did."""
    return [CommandSpec(name="orchestra", summary="Show what an orchestra and its subagents did", run=orchestra)]
