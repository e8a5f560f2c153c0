"""A team of agents that share out what there is to find out, talk, and act together step by step.

Each of up to five members is played by the model in the role team_1 to team_5, else team, else main; the models may
differ, and a person may be one of them (a model of the provider terminal).
"""

from bot.api import CALL_SECONDS, Can, CommandSpec, ForecasterSpec, hookimpl
from plugins.team.commands import team
from plugins.team.forecaster import open_team
from plugins.team.settings import JOINT_CALLS, MOST_MEMBERS, TeamSettings


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[TeamSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="team",
            summary="Agents who divide up the evidence, report finds to each other, and pool what they believe",
            abilities=frozenset({Can.ASK_MODELS}),
            settings=TeamSettings,
            open=open_team,
            steps=lambda settings: settings.members * settings.steps,
            seconds=lambda settings: CALL_SECONDS * JOINT_CALLS * settings.steps,
            roles=("main",),
            may_ask=("team", *(f"team_{number}" for number in range(1, MOST_MEMBERS + 1))),
        )
    ]


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    """Offer a look at what teams did."""
    return [CommandSpec(name="team", summary="Show what a team did, and how efficient teams were", run=team)]
