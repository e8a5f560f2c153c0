"""Encyclopedia tables: chess ranks and ratings, swimming records, vaccines.

Chess lists appear on the first of a month, so a rank can only change where a first lies between the two days.
"""

from __future__ import annotations

import math
from datetime import date

from plugins.baseline.facts import Event
from plugins.baseline.form import Form, Terms, same_question, steady
from plugins.baseline.ridge import Term

_DAYS_PER_MONTH = 30.4


def new_lists(due: date, target: date) -> int:
    """Return how many monthly lists appear after ``due`` up to ``target``.

    The page follows the list by some days, so a window of a month always holds one.
    """
    firsts = (target.year - due.year) * 12 + target.month - due.month
    return max(firsts, round((target - due).days / _DAYS_PER_MONTH))


def _rank_terms(event: Event) -> Terms:
    place = event.facts.value
    lists = new_lists(event.facts.due, event.day)
    if not lists:
        return (Term("no list", 1.0, 4.0, 1.0, f"no new chess list within {event.days} days, so the rank stays"),)
    terms = (
        Term("one list", 1.0, 1.0, 1.0, "players who hold or improve their rank in one new chess list"),
        Term("more lists", math.log(lists), -0.5, 0.5, f"{lists} new chess lists within {event.days} days"),
    )
    if place is None or place < 1.0:
        return terms
    why = f"rank {place:g}: a better place is held longer"
    return (*terms, Term("place", math.log(place / 10.0), -0.4, 0.5, why))


RANK = Form(name="wiki_rank", terms=_rank_terms, block=same_question)
RATING = steady("wiki_elo", log_odds=-4.6, why="a chess rating hardly ever gains 1 % in so short a time")
RECORD = steady("wiki_swim", log_odds=4.6, why="a swimming record is hardly ever broken in so short a time")
VACCINE = steady("wiki_vaccine", log_odds=-6.0, why="a new vaccine is hardly ever approved in so short a time")
