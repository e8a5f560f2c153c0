"""The baseline forecaster: no model, no network, no key. Every other forecaster has to beat it.

It knows a question by its source, its id there, its text and what its venue publishes with it (the fact
``freeze_value``, the crowd's price). Every number of its beliefs comes with its reason.
"""

from bot.api import ForecasterSpec, hookimpl
from plugins.baseline.forecaster import (
    BASELINE_NAME,
    BaselineLearner,
    BaselineSettings,
    load_shipped_parameters,
    open_baseline,
)


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[BaselineSettings]]:
    """Offer the one forecaster of this plugin."""
    return [
        ForecasterSpec(
            name=BASELINE_NAME,
            summary="Crowd price, seasons and the history of each series, without any model",
            settings=BaselineSettings,
            first_config=True,
            open=open_baseline,
            learner=lambda _: BaselineLearner(),
            shipped_parameters=load_shipped_parameters,
        )
    ]
