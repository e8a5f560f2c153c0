"""The court, a society of agents that forecasts: scenarios in files, a jury, a debate, votes, and interventions.

It needs a model in the role main; head, clerk, judge, prosecution, defence, juror and juror_1 to juror_25 may have
models of their own. ``foxcast court`` shows scenarios, and what was said on record.
"""

from bot.api import CALL_SECONDS, Can, CommandSpec, ForecasterSpec, hookimpl
from plugins.society.commands import court
from plugins.society.forecaster import open_court
from plugins.society.settings import CourtSettings, moves_of, rounds_of


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[CourtSettings]]:
    """Offer the court."""
    return [
        ForecasterSpec(
            name="court",
            summary="A court of agents: two sides argue over articles, jurors deliberate and vote",
            abilities=frozenset({Can.ASK_MODELS}),
            settings=CourtSettings,
            open=open_court,
            steps=lambda settings: moves_of(settings.plot()),
            seconds=lambda settings: CALL_SECONDS * rounds_of(settings.plot()),
            roles=("main",),
            may_ask=("head", "clerk", "judge", "prosecution", "defence", "juror", "juror_*"),
        )
    ]


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    """Offer the command that shows scenarios and what is on record of trials."""
    return [CommandSpec(name="court", summary="Scenarios, transcripts and comparisons of the court", run=court)]
