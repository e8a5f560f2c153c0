"""Relations between runs: the same world in another form, whose results must map onto those of the first.

Nobody has to know what the right result is: that YES and NO were exchanged, answers permuted, the time zone or the hour
of the start moved, all money counted in another unit, the daemon killed at every n-th forecast, or venues listed in
another order or left out, changes nothing but the form.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.simulation.full_system.scripted_world import (
    Prices,
    ScriptedQuestion,
    WorldResult,
    WorldScript,
    draw_script,
    play_script,
)

Act = Mapping[str, Any]
_OTHER = {"yes": "no", "no": "yes", "YES": "NO", "NO": "YES"}
# What rounding to the steps of another unit, and another order of purchases, may change.
EXACT, ROUNDED = 1e-6, 0.05
UNIT = 8.0
# The hour at which the world begins otherwise, and a time zone far from UTC.
LATER, ZONE = timedelta(days=2, hours=13), "Pacific/Auckland"
NO_DAYS: Mapping[str, float] = {"per_order": 25.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetamorphicRelation:
    """How the script is changed, and how a result of the first form reads in the second.

    ``zone`` is the time zone of the second, ``of`` the venues that are compared; amounts may differ by ``share``. Where
    questions move to another venue (``moves``), their scores are compared, and what the first order was.
    """

    name: str
    change: Callable[[WorldScript], WorldScript]
    first: Callable[[WorldScript], WorldScript] = lambda script: script
    act: Callable[[Act], Act] = lambda act: act
    worth: float = 1.0
    share: float = EXACT
    zone: str | None = None
    of: Collection[str] = ("manifold", "metaculus", "polymarket")
    moves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetamorphicRuns:
    """The runs of one seed in an empty folder; the first form is played once for all relations that share it."""

    seed: int
    root: Path
    _played: dict[str, WorldResult] = field(default_factory=dict)

    def differences(self, relation: MetamorphicRelation) -> tuple[int, list[str]]:
        """Return how many acts were compared, and where those of the two forms do not map."""
        script = relation.first(draw_script(self.seed))
        name = f"first {len(script.caps)}"
        if name not in self._played:
            self._played[name] = play_script(script, self.root / name)
        before = self._played[name]
        with _time_zone(relation.zone):
            after = play_script(relation.change(script), self.root / relation.name)
        return sum(map(len, before.acts.values())), [*_differences(relation, before, after)]


def _differences(relation: MetamorphicRelation, before: WorldResult, after: WorldResult) -> Iterator[str]:
    for title, acts in before.acts.items():
        if title.rstrip("?").endswith(tuple(relation.of)):
            expected = [relation.act(act) for act in acts]
            found = after.acts.get(title, [])
            if relation.moves:
                expected, found = _first_orders(expected), _first_orders(found)
            yield from _unlike(title, expected, found, relation.share)
            first, second = before.scores[title], after.scores.get(title, [])
            if relation.moves:
                first, second = _distinct_scores(first), _distinct_scores(second)
            if not _alike([*first], [*second], EXACT):
                yield f"{title} has the scores {second}, and {first} in the first form"
    for venue in relation.of:
        if (
            venue in before.worth
            and not relation.moves
            and not _alike(before.worth[venue] * relation.worth, after.worth[venue], relation.share)
        ):
            yield f"{venue} is worth {after.worth[venue]:.4f}, and {before.worth[venue]:.4f} in the first form"


def _first_orders(acts: Sequence[Act]) -> list[Act]:
    return [{name: act[name] for name in ("side", "leg", "option")} for act in acts[:1]]


def _distinct_scores(scores: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the scores without the revisions: how often a question is forecast again depends on its venue's price."""
    return sorted({(rule, round(value, 9)) for _, rule, value in scores})


def _unlike(title: str, expected: Sequence[Act], found: Sequence[Act], share: float) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(expected, found, strict=False), 1):
        if not _alike(one, other, share):
            yield f"{title}, act {number}: {dict(other)}, and had to be {dict(one)}"
            return
    if len(expected) != len(found):
        yield f"{title} has {len(found)} acts, and had to have {len(expected)}"


def _alike(one: Any, other: Any, share: float) -> bool:
    match one, other:
        case ((float() | int()), (float() | int())):
            return math.isclose(one, other, rel_tol=share, abs_tol=share)
        case (dict(), dict()):
            return one.keys() == other.keys() and all(_alike(one[key], other[key], share) for key in one)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(_alike(*pair, share) for pair in zip(one, other, strict=True))
        case _:
            return bool(one == other)


@contextmanager
def _time_zone(name: str | None) -> Iterator[None]:
    before = os.environ.get("TZ")
    if name is not None:
        os.environ["TZ"] = name
        time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ", None)
        os.environ.update({} if before is None else {"TZ": before})
        time.tzset()


def _exchange_sides(script: WorldScript) -> WorldScript:
    def turned(one: ScriptedQuestion) -> ScriptedQuestion:
        prices, beliefs = ([(hour, _complement(price)) for hour, price in row] for row in (one.prices, one.beliefs))
        return one if one.options else replace(one, prices=prices, beliefs=beliefs, outcome=_OTHER[one.outcome])

    return replace(script, questions=[turned(one) for one in script.questions])


def _complement(price: Prices) -> Prices:
    return round(1.0 - price, 6) if isinstance(price, float) else price


def _with_other_side(act: Act) -> Act:
    said = act["said"]
    if isinstance(said, dict):
        return act
    return {**act, "said": 1.0 - said, "leg": _OTHER.get(act["leg"], "")}


def _permute_answers(script: WorldScript) -> WorldScript:
    def permuted(row: Sequence[tuple[float, Prices]]) -> list[tuple[float, Prices]]:
        return [(hour, price if isinstance(price, float) else dict([*price.items()][::-1])) for hour, price in row]

    questions = [replace(one, prices=permuted(one.prices), beliefs=permuted(one.beliefs)) for one in script.questions]
    return replace(script, questions=questions)


def _in_units(act: Act) -> Act:
    return {**act, "shares": act["shares"] * UNIT, "cash": act["cash"] * UNIT}


def _kill_at_each_third(script: WorldScript) -> WorldScript:
    return replace(script, kills=range(3, 30, 3))


def _exchange_venues(script: WorldScript) -> WorldScript:
    """Ask the questions of one market at the other one, and the other way round."""
    other = {"manifold": "polymarket", "polymarket": "manifold"}
    return replace(script, questions=[replace(one, venue=other.get(one.venue, one.venue)) for one in script.questions])


def _without(venue: str) -> Callable[[WorldScript], WorldScript]:
    def reduced(script: WorldScript) -> WorldScript:
        venues = [one for one in reversed(script.venues) if one != venue]
        questions = [one for one in reversed(script.questions) if one.venue != venue]
        return replace(script, venues=venues, questions=questions)

    return reduced


RELATIONS: Mapping[str, MetamorphicRelation] = {
    one.name: one
    for one in (
        MetamorphicRelation(name="sides", change=_exchange_sides, act=_with_other_side),
        MetamorphicRelation(name="answers", change=_permute_answers),
        MetamorphicRelation(name="zone", change=lambda script: script, zone=ZONE),
        MetamorphicRelation(
            name="start",
            first=lambda script: replace(script, caps=NO_DAYS),
            change=lambda script: replace(script, start=script.start + LATER),
        ),
        MetamorphicRelation(
            name="units",
            change=lambda script: replace(script, unit=UNIT),
            act=_in_units,
            worth=UNIT,
            share=ROUNDED,
        ),
        MetamorphicRelation(name="kills", change=_kill_at_each_third, share=ROUNDED),
        MetamorphicRelation(name="exchange", change=_exchange_venues, of=("manifold", "polymarket"), moves=True),
        MetamorphicRelation(name="venues", change=_without("metaculus"), of=("manifold", "polymarket")),
    )
}
