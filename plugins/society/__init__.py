"""The court, a society of agents that forecasts: scenarios in files, a jury, a debate, votes, and interventions.

It needs a model in the role main; head, clerk, judge, prosecution, defence, rater, juror and juror_1 to juror_25 may
have models of their own. ``foxcast court`` shows scenarios, and compares and scores trials on record.
"""

from bot.api import MODEL_CALL_SECONDS, CommandSpec, ForecasterSpec, hookimpl
from plugins.society.commands import run_court_command
from plugins.society.forecaster import open_court
from plugins.society.settings import CourtSettings, count_model_rounds, count_moves
from plugins.society.transcripts import tell_court


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[CourtSettings]]:
    """Offer the court."""
    return [
        ForecasterSpec(
            name="court",
            summary="A court of agents: two sides argue over articles, jurors deliberate and vote",
            settings=CourtSettings,
            open=open_court,
            steps=lambda settings: count_moves(settings.effective_scenario()),
            seconds=lambda settings: MODEL_CALL_SECONDS * count_model_rounds(settings.effective_scenario()),
            roles=("main",),
            transcript=tell_court,
            optional_roles=("head", "clerk", "judge", "prosecution", "defence", "rater", "juror", "juror_*"),
        )
    ]


@hookimpl
def foxcast_commands() -> list[CommandSpec]:
    """Offer the command that shows scenarios, and compares and scores trials."""
    return [CommandSpec(name="court", summary="Scenarios, comparisons and scores of the court", run=run_court_command)]
