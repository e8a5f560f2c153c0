"""The ensemble in the laboratory: the real forecaster and its learner, on the answers that others gave before it.

Weights for a question come from what had resolved before its cutoff alone; the members are read through a bench that
offers their answers as the desk does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bot.app import open_bay
from bot.clock import SeededRandom
from bot.desk.bare import BareBench
from bot.desk.desk import TrialDesk
from bot.desk.said import PEERS
from bot.desk.trial import TrialRun, run_trial
from bot.domain.forecast import Trial
from bot.domain.learning import Fitted, Hindsight
from bot.domain.prediction import Binary
from bot.domain.prompt import Tool
from bot.domain.research import SourcePolicy
from bot.domain.resolution import Happened, Resolution
from bot.domain.step import Json, Observation, ToolResult
from bot.ids import derive_id
from bot.jobs.sitting import Seat
from bot.means import school_of
from bot.ports import Historian
from bot.registry import load_registry
from bot.store.codec import PREDICTIONS
from bot.testing.lab.bench import SUBJECT, Hall, Run, config_of, unlogged, whole
from bot.testing.lab.questions import Case
from bot.testing.lab.variants import Setup

TARGET = "outcome"
# When an outcome is told, in days after it is known.
TOLD_AFTER = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """What the members said, in the order of the cases."""

    cases: Sequence[Case]
    said: Mapping[str, Sequence[float]]

    def of(self, place: int) -> Json:
        """Return what they said of a question, as the desk tells it."""
        return [
            {"forecaster": name, "predictions": PREDICTIONS.plain({TARGET: Binary(answers[place])})}
            for name, answers in self.said.items()
        ]


@dataclass(frozen=True, slots=True)
class _Bench(BareBench):
    """Offers what the members said, and nothing else."""

    policy: SourcePolicy = field(default_factory=SourcePolicy)
    tools: Sequence[Tool] = ()
    answers: Json = None

    async def use(self, tool: str, arguments: Mapping[str, Json]) -> ToolResult:
        told = Observation(text="what the members said")
        return ToolResult(observation=told, data={"answers": self.answers}, failed=tool != PEERS)


async def run_ensemble(hall: Hall, members: Members) -> Run:
    """Let the ensemble answer all cases."""
    setup = Setup(name="ensemble", uses="ensemble", settings={"members": [*members.said]}, cast={}, filter=None)
    config = config_of(hall, setup)
    registry = whole(load_registry(config))
    learner = school_of(config, registry, SUBJECT).learner
    assert isinstance(learner, Historian)  # noqa: S101 - it learns from what its members said
    async with open_bay(config, registry, SUBJECT, clock=hall.clock) as bay:
        trials = [
            [await _trial(hall, bay.forecaster, members, place, _learned(hall, learner, members, place))]
            for place in range(len(members.cases))
        ]
    return Run(setup=setup, trials=trials, seconds=0.0)


async def _trial(hall: Hall, seat: Seat, members: Members, place: int, fitted: Fitted) -> Trial:
    case = members.cases[place]
    desk = TrialDesk(
        forecast=derive_id("lab", str(case.question.ref)),
        cutoff=hall.world.calendar.at(case.day),
        trial=1,
        fitted=fitted,
        random=SeededRandom(hall.world.seed),
        limits=seat.limits,
        bench=_Bench(answers=members.of(place)),
    )
    return await run_trial(seat.forecaster, case.question, desk, TrialRun(limits=seat.limits, log=unlogged))


def _learned(hall: Hall, learner: Historian, members: Members, place: int) -> Fitted:
    """Return the weights that were known at the cutoff of a case."""
    at, before = hall.world.calendar.at, hall.world.calendar.at(members.cases[place].day)
    pasts = [
        Hindsight(
            forecast=derive_id("lab", name, str(case.question.ref)),
            forecaster=name,
            question=case.question,
            prediction=Binary(answers[other]),
            resolution=Resolution(
                ref=case.question.ref,
                target=TARGET,
                outcome=Happened(float(case.outcome)),
                resolved_at=at(case.known_day + TOLD_AFTER),
            ),
            cutoff=at(case.day),
        )
        for other, case in enumerate(members.cases)
        if at(case.known_day + TOLD_AFTER) < before
        for name, answers in members.said.items()
    ]
    payload = learner.recall(pasts, before=before)
    return Fitted(forecaster=SUBJECT, before=before, examples=len(pasts), payload=payload)
