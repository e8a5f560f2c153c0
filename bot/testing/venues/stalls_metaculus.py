"""The simulated world on the fake Metaculus: questions of every form, groups, and a community that forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bot.testing.venues.metaculus_rules import Refusal
from bot.testing.venues.metaculus_state import FULL_GRID, Scaling
from bot.testing.venues.stalls import held
from bot.testing.world.ask import Form
from bot.testing.world.life import Act

if TYPE_CHECKING:
    import numpy as np

    from bot.testing.venues.metaculus import FakeMetaculus
    from bot.testing.venues.metaculus_state import Question, User
    from bot.testing.world.ask import Ask
    from bot.testing.world.life import Happening, Outcome
    from bot.testing.world.world import World

# How many people of the community forecast, and how far (in days) each is behind the others.
PEOPLE, BEHIND_DAYS = 3, 1.0
_MOST_A_STEP = 0.19
_TYPES = {Form.BINARY: "binary", Form.CHOICE: "multiple_choice", Form.NUMBER: "numeric", Form.DATE: "date"}
_NOTE = "This question is part of a simulation."


@dataclass(frozen=True, kw_only=True)
class MetaculusStall:
    """Implements Stall; ``questions`` are by the keys of what they ask."""

    world: World
    venue: FakeMetaculus
    questions: dict[str, Question] = field(default_factory=dict, init=False)

    @cached_property
    def people(self) -> Sequence[User]:
        """The community."""
        return [self.venue.world.add_user(f"neighbour{number}", is_bot=False) for number in range(1, PEOPLE + 1)]

    def happen(self, one: Happening) -> None:
        if one.act is Act.OPEN:
            self._open(one.ask)
            return
        question = self.questions.get(one.ask.key)
        if question is None:
            return
        match one.act:
            case Act.EDIT:
                self.venue.world.edit(question, fine_print=one.text)
            case Act.CLOSE if question.close > self.venue.now():
                self.venue.world.close(question)
            case Act.RESOLVE if question.resolution is None and one.outcome is not None:
                self.venue.world.resolve(question, self._outcome(one.ask, one.outcome))
            case Act.ANNUL if question.resolution is None:
                self.venue.world.resolve(question, "annulled")
            case Act.UNDO if question.resolution is not None:
                self.venue.world.unresolve(question)
            case _:
                return

    def trade(self, ask: Ask, day: float) -> None:
        question = self.questions.get(ask.key)
        if question is None or question.resolution is not None or question.close <= self.venue.now():
            return
        for behind, user in enumerate(self.people):
            when = max(ask.opens, day - behind * BEHIND_DAYS)
            try:
                self.venue.world.forecast(user, question, self._forecast(ask, question, when))
            except Refusal:
                # The options have changed since, or all is known to the hour: the last forecast stands.
                return

    def _open(self, ask: Ask) -> None:
        if ask.key in self.questions:
            return
        if not ask.group:
            self.questions[ask.key] = self.venue.world.add_question(ask.title, **self._terms(ask))
            return
        members = [one for one in self.world.asks if one.group == ask.group]
        terms = self._terms(ask) | {"type": "binary"}
        post = self.venue.world.add_group(ask.heading, [one.label for one in members], **terms)
        for member, question in zip(members, post.questions, strict=True):
            question.scheduled_close = self.world.calendar.at(member.closes)
            question.scheduled_resolve = self.world.calendar.at(member.resolves)
            self.questions[member.key] = question

    def _terms(self, ask: Ask) -> dict[str, Any]:
        calendar = self.world.calendar
        terms: dict[str, Any] = {
            "type": _TYPES[ask.form],
            "description": f"{ask.background}\n\n{_NOTE}",
            "criteria": ask.criteria,
            "scheduled_close": calendar.at(ask.closes),
            "scheduled_resolve": calendar.at(ask.resolves),
        }
        if ask.form is Form.CHOICE:
            terms["options"] = [*ask.happening]
        if (scale := ask.scale) is not None:
            ends = (scale.low, scale.high)
            low, high = ends if ask.form is Form.NUMBER else (calendar.at(end).timestamp() for end in ends)
            terms["scaling"] = Scaling(low=low, high=high, open_lower=scale.open_low, open_upper=scale.open_high)
            terms["unit"] = scale.unit
        return terms

    def _forecast(self, ask: Ask, question: Question, day: float) -> object:
        if question.scaling is not None:
            return self._curve(ask, question.scaling, day)
        price = self.world.price(ask, day)
        if not isinstance(price, Mapping):
            return held(price)
        raised = {name: max(share, 0.01) for name, share in price.items()}
        return {name: share / sum(raised.values()) for name, share in raised.items()}

    def _curve(self, ask: Ask, scaling: Scaling, day: float) -> list[float]:
        """Return the crowd's distribution on the grid, made as smooth as the venue wants it."""
        import numpy as np  # noqa: PLC0415 - a double that has no world does without

        places = np.linspace(0.0, 1.0, FULL_GRID + 1)
        points = [scaling.at(float(place)) for place in places]
        if ask.form is Form.DATE:
            points = [self.world.calendar.day(datetime.fromtimestamp(point, UTC)) for point in points]
        below = self.world.guess(ask, day, np.array(points))
        if not scaling.open_lower:
            below = (below - below[0]) / (1.0 - below[0])
        return _smoothed(below, places)

    def _outcome(self, ask: Ask, outcome: Outcome) -> str:
        if isinstance(outcome, bool):
            return "yes" if outcome else "no"
        if isinstance(outcome, str):
            return outcome
        assert ask.scale is not None  # noqa: S101 - numbers and dates have a scale
        if outcome > ask.scale.high:
            return "above_upper_bound"
        if outcome < ask.scale.low:
            return "below_lower_bound"
        return self.world.calendar.at(outcome).isoformat() if ask.form is Form.DATE else str(round(outcome, 6))


def _smoothed(below: np.ndarray, places: np.ndarray) -> list[float]:
    import numpy as np  # noqa: PLC0415 - a double that has no world does without

    # Every step of the grid has some of the mass, and none has too much.
    for share in (0.011, 0.1, 0.3, 0.6):
        mixed = (1.0 - share) * below + share * places
        if float(np.diff(mixed).max()) <= _MOST_A_STEP:
            break
    return [float(value) for value in mixed]
