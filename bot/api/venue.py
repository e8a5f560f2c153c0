"""What the author of a venue uses for the whole of it; each part of a venue has a group of its own.

``VenueSpec`` names the parts, and only ``reader`` is needed. In one pass they work in this order: ``reader``,
``planner``, ``paper`` or ``writer``, and again ``reader`` for the outcomes; ``prices`` for as long as the daemon runs.
"""

from bot.core.interfaces import RoundArchive
from bot.core.learning import ForecastFile, Round
from bot.core.permissions import ExposureGroups
from bot.core.plugin_specs import VenueSpec

__all__ = [
    "ExposureGroups",
    "ForecastFile",
    "Round",
    "RoundArchive",
    "VenueSpec",
]
