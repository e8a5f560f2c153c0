"""Whole trials with a real small model: what it says is of no account, that every trial ends in order is.

Three questions with ``make test-slow``, fifty in the campaign (``make test-model``), which prints how they ended.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter

import pytest

from bot.core.beliefs import belief_mismatch
from bot.core.forecasts import LIMIT_ENDS, TrialEnd, TrialLimits
from bot.core.predictions import BinaryShape, ChoiceShape, CurveShape, QuestionShape
from bot.core.questions import QuestionRef
from plugins.blf.settings import BlfSettings
from tests.integration.engine_fixture import (
    COMPATIBLE,
    LITELLM,
    EngineFixture,
    EngineSetup,
    RecordedRun,
    open_engine,
    question,
)
from tests.model.conftest import SmallModel

pytestmark = [
    pytest.mark.xdist_group("small model"),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict class:UserWarning"),
]

STEPS = 2
LIMITS = TrialLimits(steps=STEPS, seconds=240.0)
SETTINGS = BlfSettings(steps=STEPS)
ROLE = {"max_tokens": 200, "timeout_s": 100.0, "temperature": 0.7}
SHAPES: Sequence[QuestionShape] = (
    BinaryShape(),
    ChoiceShape(options=("red", "green", "blue")),
    CurveShape(grid=tuple(float(point) for point in range(0, 101, 5)), unit="points", open_upper=True),
)
# Seldom tools: this model hardly ever manages a call.
WAYS = ((COMPATIBLE, "json"), (LITELLM, "json"), (COMPATIBLE, "json"), (LITELLM, "tools"), (COMPATIBLE, "tools"))
CAMPAIGN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTrial:
    """How one trial ended, in which dialect and by which provider, and how long it took."""

    way: tuple[str, str]
    played: RecordedRun
    seconds: float

    @property
    def unparsed(self) -> int:
        """How many answers were no valid action."""
        return sum(step.observation.text.count("was no valid action") for step in self.played.steps)

    @property
    def ending(self) -> str:
        """How it ended: by submitting, or the reason."""
        if self.played.actions[-1] == "submit":
            return "submitted"
        why = self.played.steps[-1].observation.text.partition("\n")[0]
        return why.partition("after a repair: ")[2].partition(":")[0] or why[:80]


async def trials(
    model: SmallModel, folder: Path, plan: Sequence[tuple[QuestionShape, tuple[str, str]]]
) -> list[EndedTrial]:
    """Forecast a question of each shape in the way that is planned for it."""
    ended: list[EndedTrial] = []
    async with AsyncExitStack() as stack:
        stages: dict[tuple[str, str], EngineFixture] = {}
        for number, (shape, way) in enumerate(plan, 1):
            if way not in stages:
                kind, dialect = way
                place = folder / f"{kind} {dialect}"
                place.mkdir()
                setup = EngineSetup(kind=kind, dialect=dialect, role=ROLE)
                stages[way] = await stack.enter_async_context(open_engine(place, model.base_url, setup))
            asked = question(ref=QuestionRef("lantern", f"lamp {number}"), title=TITLES[number % 5], shape=shape)
            begun = perf_counter()
            played = await stages[way].play(asked, LIMITS, settings=SETTINGS)
            ended.append(EndedTrial(way=way, played=played, seconds=perf_counter() - begun))
            require_order(played)
    return ended


TITLES = (
    "Will it rain in Paris tomorrow?",
    "Will the old bridge be open in May?",
    "Will more than half of the members vote?",
    "Will the river stand higher next week?",
    "Will the ship arrive before the end of the month?",
)


def require_order(played: RecordedRun) -> None:
    """Check that a trial ended within its limits, with a valid belief and a reason on record."""
    asked, trial = played.trace.question, played.trial
    assert 1 <= trial.steps == len(played.steps) <= STEPS
    assert [belief_mismatch(step.belief, asked) for step in played.steps] == [None] * trial.steps
    assert trial.belief == played.steps[-1].belief
    assert trial.end in {TrialEnd.FINISHED, TrialEnd.FAILED, *LIMIT_ENDS}
    last = played.steps[-1].observation.text
    assert last.startswith("submitted ") == (trial.end is TrialEnd.FINISHED)
    assert last.startswith("ended without submitting: ") == (trial.end is not TrialEnd.FINISHED)
    # One repair a step, and one more request for each answer that was empty.
    assert 1 <= trial.usage.calls <= 4 * STEPS
    assert trial.usage.tokens_out <= 200 * trial.usage.calls
    # What failed, or was cut short before a belief on evidence, is on record, but gives no forecast.
    assert (played.trace.forecast is not None) == trial.is_answer


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_three_questions_end_in_order(small_model: SmallModel, tmp_path: Path) -> None:
    ways = ((COMPATIBLE, "json"), (LITELLM, "json"), (COMPATIBLE, "tools"))
    ended = await trials(small_model, tmp_path, list(zip(SHAPES, ways, strict=True)))
    assert len(ended) == 3


@pytest.mark.model_campaign
@pytest.mark.timeout(5400)
async def test_fifty_questions_end_in_order(
    small_model: SmallModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = list(islice(zip(cycle(SHAPES), cycle(WAYS), strict=False), CAMPAIGN))
    ended = await trials(small_model, tmp_path, plan)
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *table(ended), ""]))
    assert len(ended) == CAMPAIGN


def table(ended: Sequence[EndedTrial]) -> list[str]:
    """Return the endings as lines: those of each way, and of all together."""
    counts = Counter((*one.way, one.ending) for one in ended)
    lines = [f"{kind:18} {dialect:6} {count:3}  {ending}" for (kind, dialect, ending), count in sorted(counts.items())]
    calls, unparsed = sum(one.played.trial.usage.calls for one in ended), sum(one.unparsed for one in ended)
    seconds = sum(one.seconds for one in ended)
    lines.append(f"{len(ended)} trials, {calls} calls, {unparsed} no valid action, {seconds:.0f} s")
    return lines
