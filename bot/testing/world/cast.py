"""Names of people, places, firms, teams and laws that are nobody's: made of syllables, anew in each world."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bot.testing.world.grammar import headed, pick

if TYPE_CHECKING:
    import numpy as np

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


def name(stream: "np.random.Generator", syllables: int = 2) -> str:
    """Return a word that sounds like a name."""
    parts = [pick(stream, _ONSETS) + pick(stream, _NUCLEI) for _ in range(syllables)]
    return headed("".join(parts) + pick(stream, _CODAS))


def cast(stream: "np.random.Generator") -> Mapping[str, str]:
    """Return the names that one question may need; those of one kind differ."""
    people = _several(4, lambda: f"{name(stream)} {name(stream, 3)}")
    towns = _several(4, lambda: name(stream) + pick(stream, _TOWNS))
    firms = _several(4, lambda: f"{name(stream)} {pick(stream, _FIRMS)}")
    teams = [f"{town} {pick(stream, _CREATURES)}" for town in towns]
    numbered = {
        f"{kind}{place}": one
        for kind, ones in (("person", people), ("town", towns), ("firm", firms), ("team", teams))
        for place, one in enumerate(ones, 1)
    }
    return {
        **numbered,
        "land": name(stream) + pick(stream, _LANDS),
        "thing": pick(stream, _THINGS),
        "product": f"{name(stream)} {int(stream.integers(2, 10))}",
        "good": pick(stream, _GOODS),
        "law": f"{pick(stream, _MATTERS)} Act",
        "office": pick(stream, _OFFICES),
        "body": pick(stream, _BODIES),
        "league": f"{name(stream)} League",
    }


def _several(count: int, make: Callable[[], str]) -> list[str]:
    made: dict[str, None] = {}
    while len(made) < count:
        made[make()] = None
    return list(made)
