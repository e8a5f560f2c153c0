"""The orchestra: one model leads, makes subagents within limits that code enforces, and answers from their reports.

It needs a model in the role main. If a model plays one of these roles, it is used instead: orchestrator; scout,
researcher, analyst, critic, forecaster and custom, else subagent; subagent_NAME for the setting ``models``; candidate
and aggregator.
"""

from bot.api import MODEL_CALL_SECONDS, ForecasterSpec, hookimpl
from plugins.orchestra.aggregation import AGGREGATOR_ROLE, CANDIDATE_ROLE
from plugins.orchestra.forecaster import open_orchestra
from plugins.orchestra.lessons import LessonLearner
from plugins.orchestra.settings import OrchestraSettings
from plugins.orchestra.subagent_kinds import CUSTOM_KIND, KIND_NAMES
from plugins.orchestra.subagent_pool import ORCHESTRATOR
from plugins.orchestra.subagent_run import MAIN_ROLE, SUBAGENT_ROLE
from plugins.orchestra.transcript import orchestra_transcript


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[OrchestraSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="orchestra",
            summary="A language model that makes subagents, sets them to work, and answers from what they report",
            settings=OrchestraSettings,
            open=open_orchestra,
            learner=lambda _: LessonLearner(),
            steps=lambda settings: settings.most_steps,
            seconds=lambda settings: MODEL_CALL_SECONDS * settings.most_steps,
            roles=(MAIN_ROLE,),
            transcript=orchestra_transcript,
            optional_roles=(
                ORCHESTRATOR,
                SUBAGENT_ROLE,
                f"{SUBAGENT_ROLE}_*",
                *KIND_NAMES,
                CUSTOM_KIND,
                CANDIDATE_ROLE,
                AGGREGATOR_ROLE,
            ),
        )
    ]
