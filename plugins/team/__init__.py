"""A team of agents that divide the research, talk, and act together step by step.

Each of up to five members is played by the model in the role team_1 to team_5, else team, else main; the models may
differ, and a person may be one of them (a model of the provider terminal).
"""

from bot.api import MODEL_CALL_SECONDS, CommandSpec, ForecasterSpec, hookimpl
from plugins.team.commands import show_teams, team_transcript
from plugins.team.forecaster import open_team
from plugins.team.settings import CALLS_PER_JOINT_STEP, MOST_MEMBERS, TeamSettings


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[TeamSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="team",
            summary="Agents who divide up the evidence, report finds to each other, and pool what they believe",
            settings=TeamSettings,
            open=open_team,
            steps=lambda settings: settings.members * settings.steps,
            seconds=lambda settings: MODEL_CALL_SECONDS * CALLS_PER_JOINT_STEP * settings.steps,
            roles=("main",),
            transcript=team_transcript,
            optional_roles=("team", *(f"team_{number}" for number in range(1, MOST_MEMBERS + 1))),
        )
    ]


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    """Offer a comparison of teams."""
    return [CommandSpec(name="team", summary="Compare how efficient teams were, and how right", run=show_teams)]
