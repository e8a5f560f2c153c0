"""What the author of a search engine uses.

Called in this order: ``open``, ``search``.

``SearchSpec.open`` is entered once; then ``SearchEngine.search`` is called for each query of a trial. With
``bounds_dates`` it is also asked for what was there before a moment. The engine drops results that leak the answer.
"""

from bot.core.interfaces import SearchEngine
from bot.core.plugin_specs import SearchSpec
from bot.core.research import Passage, SearchResult

__all__ = [
    "Passage",
    "SearchEngine",
    "SearchResult",
    "SearchSpec",
]
