"""Solo, the single agent: one model that thinks, looks things up, calculates, asks a critic, and states a belief.

It needs a model in the role main; if a model plays the role critic, it gives a second opinion.
"""

from bot.api import MODEL_CALL_SECONDS, ForecasterSpec, hookimpl
from plugins.solo.forecaster import open_solo
from plugins.solo.settings import SoloSettings


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[SoloSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="solo",
            summary="A language model alone with its tools: thinking, searching, reckoning, hearing a critic",
            settings=SoloSettings,
            open=open_solo,
            steps=lambda settings: settings.steps,
            seconds=lambda settings: MODEL_CALL_SECONDS * settings.steps,
            roles=("main",),
        )
    ]
