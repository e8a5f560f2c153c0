"""The blend: an answer made of those of other forecasters and of the crowd's price, in log odds.

The members are named in its settings and forecast before it. It uses no model itself. Weights begin equal with the sum
1.15 and are fitted, forward in time, to the outcomes of questions that the members answered.
"""

from bot.api import ForecasterSpec, hookimpl
from plugins.blend.forecaster import open_blend
from plugins.blend.settings import BlendSettings
from plugins.blend.weights import BlendLearner


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[BlendSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name="blend",
            summary="The answers of other forecasters and the crowd's price as one, weighted by what resolved",
            settings=BlendSettings,
            first_config=True,
            open=open_blend,
            learner=BlendLearner,
            steps=lambda _: 1,
            members=lambda settings: settings.forecasters,
        )
    ]
