"""Solo, the lone agent: one model that thinks, looks things up, reckons, asks a critic, and says what it believes.

It needs a model in the role main; the role critic, where one plays it, lets it hear another model's opinion.
"""

from bot.api import CALL_SECONDS, Can, ForecasterSpec, hookimpl
from plugins.solo.forecaster import open_solo
from plugins.solo.settings import SoloSettings


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[SoloSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="solo",
            summary="A language model alone with its tools: thinking, searching, reckoning, hearing a critic",
            abilities=frozenset({Can.ASK_MODELS}),
            settings=SoloSettings,
            open=open_solo,
            steps=lambda settings: settings.steps,
            seconds=lambda settings: CALL_SECONDS * settings.steps,
            roles=("main",),
        )
    ]
