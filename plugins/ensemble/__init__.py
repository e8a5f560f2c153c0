"""The ensemble: an answer combined from those of other forecasters, weighted by their past scores.

The members are named in its settings and forecast before it. It uses no model itself. Weights are equal until enough
questions that all members answered have resolved; after that they follow the inverse of the members' mean losses,
shrunk towards equal ones.
"""

from bot.api import ForecasterSpec, hookimpl
from plugins.ensemble.forecaster import open_ensemble
from plugins.ensemble.settings import EnsembleSettings
from plugins.ensemble.weights import WeightLearner


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[EnsembleSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="ensemble",
            summary="The answers of other forecasters as one, weighted by their past scores",
            settings=EnsembleSettings,
            open=open_ensemble,
            learner=WeightLearner,
            steps=lambda _: 1,
            members=lambda settings: settings.members,
        )
    ]
