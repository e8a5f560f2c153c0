"""The baseline forecaster: no model, no network, no key, and the bar that every other forecaster has to beat.

It knows a question by its source, its text and what its venue publishes with it (``Question.facts``: ``id`` and
``freeze_value``; the crowd's price). Every number of its beliefs comes with its reason.
"""

from bot.api import Can, ForecasterSpec, hookimpl
from plugins.baseline.forecaster import BaselineSettings, open_baseline
from plugins.baseline.learning import NAME, BaselineLearner, shipped


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[BaselineSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name=NAME,
            summary="Crowd price, seasons and the history of each series, without any model",
            abilities=frozenset({Can.LEARN}),
            settings=BaselineSettings,
            open=open_baseline,
            learner=lambda _: BaselineLearner(),
            shipped=shipped,
        )
    ]
