"""The only package that plugins import; it re-exports and holds no logic.

Each module is one group of names, for what one writes, and says in which order its things are called; all names are
imported from here: ``from bot.api import VenueSpec``.
"""

from typing import TYPE_CHECKING, NoReturn

from bot.api.command import *  # noqa: F403 - a group names what it exports
from bot.api.common import *  # noqa: F403 - a group names what it exports
from bot.api.data import *  # noqa: F403 - a group names what it exports
from bot.api.forecaster import *  # noqa: F403 - a group names what it exports
from bot.api.job import *  # noqa: F403 - a group names what it exports
from bot.api.model import *  # noqa: F403 - a group names what it exports
from bot.api.notifier import *  # noqa: F403 - a group names what it exports
from bot.api.search import *  # noqa: F403 - a group names what it exports
from bot.api.venue import *  # noqa: F403 - a group names what it exports
from bot.api.venue_paper import *  # noqa: F403 - a group names what it exports
from bot.api.venue_planner import *  # noqa: F403 - a group names what it exports
from bot.api.venue_prices import *  # noqa: F403 - a group names what it exports
from bot.api.venue_reader import *  # noqa: F403 - a group names what it exports
from bot.api.venue_submitter import *  # noqa: F403 - a group names what it exports
from bot.plugin_system.renamed_names import RENAMED_NAMES

if not TYPE_CHECKING:  # else a type checker would take every name for one of ours

    def __getattr__(name: str) -> NoReturn:
        # An AttributeError would lose its message where the name is imported.
        if name in RENAMED_NAMES:
            message = f"bot.api: {name} is now {RENAMED_NAMES[name]}"
            raise ImportError(message, name=name)
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
