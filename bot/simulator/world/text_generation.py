"""Generated texts: patterns with alternatives, and invented names of people, places, firms, teams and laws."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
from collections.abc import Callable

T = TypeVar("T")


_INNERMOST = re.compile(r"\[([^\[\]]*)\]")


def pick_one(stream: "np.random.Generator", things: Sequence[T]) -> T:
    """Return one of the things."""
    return things[int(stream.integers(len(things)))]


def write_pattern(pattern: str, stream: "np.random.Generator", words: Mapping[str, str]) -> str:
    """Return the pattern with one of each ``[alternatives|...]``, which may be nested, and each ``{word}`` filled in.

    Raises KeyError for a word that is not given.
    """
    text = pattern
    while (found := _INNERMOST.search(text)) is not None:
        text = text[: found.start()] + pick_one(stream, found[1].split("|")) + text[found.end() :]
    return " ".join(text.format_map(words).split())


def capitalize_first(text: str) -> str:
    """Return the text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "t",
    "tr",
    "v",
    "z",
)


_NUCLEI = ("a", "e", "i", "o", "u", "ae", "ei", "ou", "y")


_CODAS = ("", "", "l", "n", "r", "s", "m", "rn", "lt", "nd", "x")


_LANDS = ("ovia", "aria", "mere", "holm", "stan Vale", "wick", "fjord", "mark", "una", "esse")


_TOWNS = ("haven", "brook", "stad", "ford", "minster", "gate", "quay", "moor", "ness", "field")


_FIRMS = ("Works", "Systems", "Dynamics", "Instruments", "Foods", "Robotics", "Optics", "Motors", "Labs", "Mills")


_CREATURES = ("Herons", "Foxes", "Otters", "Rooks", "Badgers", "Kestrels", "Pikes", "Hares", "Stoats", "Cranes")


_THINGS = ("tablet", "ferry", "reactor", "telescope", "tram", "headset", "drone", "kettle", "tractor", "glider")


_GOODS = ("tin", "barley", "wool", "amber", "cobalt", "timber", "salt", "rye", "copper", "hops")


_MATTERS = ("Harbour Dues", "Night Trains", "Clean Rivers", "Data Trusts", "Shop Hours", "Seed Banks", "Wind Parks")


_OFFICES = ("presidency", "mayoralty", "governorship", "chair of the assembly")


_BODIES = ("the Assembly", "the Upper House", "the City Council", "the Senate", "the Regional Diet")


def invent_name(stream: "np.random.Generator", syllables: int = 2) -> str:
    """Return a word that sounds like a name."""
    parts = [pick_one(stream, _ONSETS) + pick_one(stream, _NUCLEI) for _ in range(syllables)]
    return capitalize_first("".join(parts) + pick_one(stream, _CODAS))


def invent_names(stream: "np.random.Generator") -> Mapping[str, str]:
    """Return the names that one question may need; those of one kind differ."""
    people = _make_distinct(4, lambda: f"{invent_name(stream)} {invent_name(stream, 3)}")
    towns = _make_distinct(4, lambda: invent_name(stream) + pick_one(stream, _TOWNS))
    firms = _make_distinct(4, lambda: f"{invent_name(stream)} {pick_one(stream, _FIRMS)}")
    teams = [f"{town} {pick_one(stream, _CREATURES)}" for town in towns]
    numbered = {
        f"{kind}{place}": one
        for kind, ones in (("person", people), ("town", towns), ("firm", firms), ("team", teams))
        for place, one in enumerate(ones, 1)
    }
    return {
        **numbered,
        "land": invent_name(stream) + pick_one(stream, _LANDS),
        "thing": pick_one(stream, _THINGS),
        "product": f"{invent_name(stream)} {int(stream.integers(2, 10))}",
        "good": pick_one(stream, _GOODS),
        "law": f"{pick_one(stream, _MATTERS)} Act",
        "office": pick_one(stream, _OFFICES),
        "body": pick_one(stream, _BODIES),
        "league": f"{invent_name(stream)} League",
    }


def _make_distinct(count: int, make: Callable[[], str]) -> list[str]:
    made: dict[str, None] = {}
    while len(made) < count:
        made[make()] = None
    return list(made)
