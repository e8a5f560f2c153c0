"""BLF, the Bayesian linguistic forecaster: a model that searches, keeps a written belief, and submits it.

It needs a model in the role main; a model in the role summariser, where there is one, shortens its notes. Every
ablation of the paper is a setting, so that variants can run side by side on the same questions.
"""

from bot.api import MODEL_CALL_SECONDS, ForecasterSpec, hookimpl
from plugins.blf.base_rates import BaseRateLearner
from plugins.blf.forecaster import open_blf
from plugins.blf.settings import BlfSettings


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[BlfSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="blf",
            summary="A language model that searches step by step and writes down what it believes and why",
            settings=BlfSettings,
            first_config=True,
            open=open_blf,
            learner=lambda _: BaseRateLearner(),
            trials=5,
            steps=lambda settings: settings.most_steps,
            seconds=lambda settings: MODEL_CALL_SECONDS * settings.most_steps,
            roles=("main",),
        )
    ]
