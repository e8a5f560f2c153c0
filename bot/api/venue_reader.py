"""What the author of a venue's reader uses.

Called in this order: ``reader``, ``questions``, ``resolutions``.

``VenueSpec.reader`` is entered once. ``VenueReader.questions`` is read to its end at each discovery, and
``resolutions`` is asked for outcomes until all are known. ``QuestionReader.find_question`` is asked for one question
that a person names, or that is no longer listed and whose forecast is due.
"""

from bot.core.interfaces import QuestionReader, VenueReader
from bot.core.outcomes import ContestStanding

__all__ = [
    "ContestStanding",
    "QuestionReader",
    "VenueReader",
]
