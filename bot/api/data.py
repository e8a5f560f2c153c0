"""What the author of a data source uses.

Called in this order: ``open``, ``series_names``, ``series``.

``DataSpec.open`` (series) and ``DataSpec.pages`` are entered once. For a question of one of its ``question_sources``
the engine reads ``policy`` and ``model``, and asks for its ``series_names``; then a trial asks ``DataSource`` or
``PageSource`` as of a moment.
"""

from bot.core.interfaces import DataSource, PageSource
from bot.core.plugin_specs import DataSpec
from bot.core.research import SeriesModel, SourcePolicy, TimeSeries

__all__ = [
    "DataSource",
    "DataSpec",
    "PageSource",
    "SeriesModel",
    "SourcePolicy",
    "TimeSeries",
]
