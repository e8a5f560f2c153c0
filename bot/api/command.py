"""What the author of a command uses.

Called in this order: ``run``.

``CommandSpec.run`` is called when a person types ``foxcast NAME``; its annotated parameters are the options. No other
part of the plugin is opened for it.
"""

from bot.core.plugin_specs import CommandSpec
from bot.evaluation.explanation import ForecastExplanation, explain_forecast, require_forecaster_kind

__all__ = [
    "CommandSpec",
    "ForecastExplanation",
    "explain_forecast",
    "require_forecaster_kind",
]
