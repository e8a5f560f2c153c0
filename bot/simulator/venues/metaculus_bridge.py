"""The simulated world on the fake Metaculus: questions of every type, groups, and a community that forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.metaculus_forecast_rules import MetaculusRefusal
from bot.simulator.venues.metaculus_state import FULL_GRID, QuestionScaling
from bot.simulator.venues.world_bridge import bound_price
from bot.simulator.world.questions import AnswerKind, LifecycleAction

if TYPE_CHECKING:
    import numpy as np

    from bot.simulator.venues.metaculus import FakeMetaculus
    from bot.simulator.venues.metaculus_state import FakeMetaculusQuestion, FakeMetaculusUser
    from bot.simulator.world.questions import LifecycleEvent, SimulatedOutcome, SimulatedQuestion
    from bot.simulator.world.simulated_world import SimulatedWorld

# How many people of the community forecast, and by how many days each lags behind.
COMMUNITY_SIZE, COMMUNITY_LAG_DAYS = 3, 1.0
_MOST_A_STEP = 0.19
_TYPES = {
    AnswerKind.BINARY: "binary",
    AnswerKind.CHOICE: "multiple_choice",
    AnswerKind.NUMBER: "numeric",
    AnswerKind.DATE: "date",
}
_NOTE = "This question is part of a simulation."


@dataclass(frozen=True, kw_only=True)
class MetaculusBridge:
    """Implements VenueBridge; ``questions`` are by the keys of the simulated questions."""

    world: SimulatedWorld
    venue: FakeMetaculus
    questions: dict[str, FakeMetaculusQuestion] = field(default_factory=dict, init=False)

    @cached_property
    def people(self) -> Sequence[FakeMetaculusUser]:
        """The community."""
        return [
            self.venue.world.add_user(f"neighbour{number}", is_bot=False) for number in range(1, COMMUNITY_SIZE + 1)
        ]

    def apply_event(self, one: LifecycleEvent) -> None:
        if one.action is LifecycleAction.OPEN:
            self._open_post(one.question)
            return
        question = self.questions.get(one.question.key)
        if question is None:
            return
        match one.action:
            case LifecycleAction.EDIT:
                self.venue.world.edit(question, fine_print=one.text)
            case LifecycleAction.CLOSE if question.close > self.venue.now():
                self.venue.world.close(question)
            case LifecycleAction.RESOLVE if question.resolution is None and one.outcome is not None:
                self.venue.world.resolve(question, self._outcome_text(one.question, one.outcome))
            case LifecycleAction.ANNUL if question.resolution is None:
                self.venue.world.resolve(question, "annulled")
            case LifecycleAction.UNDO if question.resolution is not None:
                self.venue.world.unresolve(question)
            case _:
                return

    def move_price(self, simulated: SimulatedQuestion, day: float) -> None:
        question = self.questions.get(simulated.key)
        if question is None or question.resolution is not None or question.close <= self.venue.now():
            return
        for behind, user in enumerate(self.people):
            when = max(simulated.opens, day - behind * COMMUNITY_LAG_DAYS)
            try:
                self.venue.world.forecast(user, question, self._crowd_forecast(simulated, question, when))
            except MetaculusRefusal:
                # The options have changed since, or all is known to the hour: the last forecast stays in force.
                return

    def _open_post(self, simulated: SimulatedQuestion) -> None:
        if simulated.key in self.questions:
            return
        if not simulated.group:
            self.questions[simulated.key] = self.venue.world.add_question(
                simulated.title, **self._question_terms(simulated)
            )
            return
        members = [one for one in self.world.questions if one.group == simulated.group]
        terms = self._question_terms(simulated) | {"type": "binary"}
        post = self.venue.world.add_group(simulated.group_title, [one.label for one in members], **terms)
        for member, question in zip(members, post.questions, strict=True):
            question.scheduled_close = self.world.calendar.moment_of(member.closes)
            question.scheduled_resolve = self.world.calendar.moment_of(member.resolves)
            self.questions[member.key] = question

    def _question_terms(self, simulated: SimulatedQuestion) -> dict[str, Any]:
        calendar = self.world.calendar
        terms: dict[str, Any] = {
            "type": _TYPES[simulated.answer_kind],
            "description": f"{simulated.background}\n\n{_NOTE}",
            "criteria": simulated.criteria,
            "scheduled_close": calendar.moment_of(simulated.closes),
            "scheduled_resolve": calendar.moment_of(simulated.resolves),
        }
        if simulated.answer_kind is AnswerKind.CHOICE:
            terms["options"] = [*simulated.event_phrases]
        if (scale := simulated.scale) is not None:
            ends = (scale.low, scale.high)
            low, high = (
                ends
                if simulated.answer_kind is AnswerKind.NUMBER
                else (calendar.moment_of(end).timestamp() for end in ends)
            )
            terms["scaling"] = QuestionScaling(
                low=low, high=high, open_lower=scale.open_low, open_upper=scale.open_high
            )
            terms["unit"] = scale.unit
        return terms

    def _crowd_forecast(self, simulated: SimulatedQuestion, question: FakeMetaculusQuestion, day: float) -> object:
        if question.scaling is not None:
            return self._crowd_curve(simulated, question.scaling, day)
        price = self.world.crowd_price(simulated, day)
        if not isinstance(price, Mapping):
            return bound_price(price)
        raised = {name: max(share, 0.01) for name, share in price.items()}
        return {name: share / sum(raised.values()) for name, share in raised.items()}

    def _crowd_curve(self, simulated: SimulatedQuestion, scaling: QuestionScaling, day: float) -> list[float]:
        """Return the crowd's distribution on the grid, as smooth as the venue requires."""
        import numpy as np  # noqa: PLC0415 - a double that has no world does without

        places = np.linspace(0.0, 1.0, FULL_GRID + 1)
        points = [scaling.at(float(place)) for place in places]
        if simulated.answer_kind is AnswerKind.DATE:
            points = [self.world.calendar.day_of(datetime.fromtimestamp(point, UTC)) for point in points]
        below = self.world.crowd_cdf(simulated, day, np.array(points))
        if not scaling.open_lower:
            below = (below - below[0]) / (1.0 - below[0])
        return _smooth_cdf(below, places)

    def _outcome_text(self, simulated: SimulatedQuestion, outcome: SimulatedOutcome) -> str:
        if isinstance(outcome, bool):
            return "yes" if outcome else "no"
        if isinstance(outcome, str):
            return outcome
        assert simulated.scale is not None  # noqa: S101 - numbers and dates have a scale
        if outcome > simulated.scale.high:
            return "above_upper_bound"
        if outcome < simulated.scale.low:
            return "below_lower_bound"
        return (
            self.world.calendar.moment_of(outcome).isoformat()
            if simulated.answer_kind is AnswerKind.DATE
            else str(round(outcome, 6))
        )


def _smooth_cdf(below: np.ndarray, places: np.ndarray) -> list[float]:
    import numpy as np  # noqa: PLC0415 - a double that has no world does without

    # Every step of the grid has some of the mass, and none has too much.
    for share in (0.011, 0.1, 0.3, 0.6):
        mixed = (1.0 - share) * below + share * places
        if float(np.diff(mixed).max()) <= _MOST_A_STEP:
            break
    return [float(value) for value in mixed]
