"""The forecaster of the simulation, a plugin: it moves away from the crowd price in steps, each a paid call.

And the pager of its people, which at times takes no message.
"""

import asyncio
import hashlib
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

from pydantic import Field

from bot.api import (
    AlertLevel,
    Belief,
    BinaryPrediction,
    ChoicePrediction,
    ChoiceShape,
    ConfidenceLevel,
    CurvePrediction,
    CurveShape,
    Forecaster,
    ForecasterSpec,
    NotificationMessage,
    NotifierSpec,
    PluginContext,
    PluginSettings,
    Prediction,
    Question,
    ServiceUnavailableError,
    Step,
    StepAction,
    StepObservation,
    TrialContext,
    hookimpl,
)
from bot.simulator.network import CURRENT_PROCESS
from tests.simulation.full_system.world_record import MESSAGES, PAID_CALLS

STEPS = 3
# So many times as long one trial thinks that lingers: it meets its time limit after its first or second belief.
LINGERS = 20.0


class DriftingForecasterSettings(PluginSettings):
    """How far and how fast it moves."""

    boldness: float = 0.9
    """In log-odds, at most."""

    caution: float = Field(default=1.0, ge=1, le=5)
    """How often it stays close to the crowd: at 3 one move in three is below a thirtieth of the largest one."""

    thinks_s: float = Field(default=20.0, gt=0)
    """Before each step."""

    fails_share: float = Field(default=0.0, ge=0, le=1)
    """How often it comes to no answer, by question and hour."""

    slips_share: float = Field(default=0.0, ge=0, le=1)
    """How often one trial comes to no answer, and the next one may, by question, hour and trial."""

    lingers_share: float = Field(default=0.0, ge=0, le=1)
    """How often one trial thinks far longer than the others, by question, hour and trial."""

    turns_every_h: float | None = Field(default=None, gt=0)
    """How often it changes its mind about each question; unset: never."""


class DriftingForecaster:
    """Moves away from the crowd in three steps."""

    def __init__(self, settings: DriftingForecasterSettings) -> None:
        self._settings = settings

    async def steps(self, question: Question, context: TrialContext) -> AsyncGenerator[Step, None]:
        """Yield a step for each third of the way."""
        lean = _lean(question, self._period(context))
        lean = math.copysign(abs(lean) ** self._settings.caution, lean)
        hour = int(context.cutoff.timestamp() // 3600.0)
        fails = (1.0 + _lean(question, f" fails {hour}")) / 2.0 < self._settings.fails_share
        slips = (1.0 + _lean(question, f" slips {hour} {context.trial}")) / 2.0 < self._settings.slips_share
        lingers = (1.0 + _lean(question, f" lingers {hour} {context.trial}")) / 2.0 < self._settings.lingers_share
        thinks_s = self._settings.thinks_s * (LINGERS if lingers else 1.0)
        call = {"forecaster": id(self), "trial": context.trial, "cutoff": context.cutoff.isoformat()}
        for number in range(1, STEPS + 1):
            with _paid_call({**call, "question": str(question.ref), "step": number, "slips": fails or slips}):
                await asyncio.sleep(thinks_s)
            if fails or slips:
                message = "nothing came to mind"
                raise RuntimeError(message)
            move = self._settings.boldness * lean * number / STEPS
            # The dates of a question are not equally likely.
            predictions = {
                target.key: _moved(question, move + place / 10.0) for place, target in enumerate(question.targets)
            }
            yield Step(
                action=StepAction(name="think", arguments={}),
                observation=StepObservation(text=f"thought {number} of {STEPS}"),
                belief=Belief(
                    predictions=predictions, confidence=ConfidenceLevel.MEDIUM, reason=f"moved by {move:+.2f}"
                ),
                final=number == STEPS,
            )

    def _period(self, context: TrialContext) -> str:
        every_h = self._settings.turns_every_h
        return "" if every_h is None else f" {int(context.cutoff.timestamp() // (3600.0 * every_h))}"


@contextmanager
def _paid_call(call: Mapping[str, object]) -> Iterator[None]:
    """Note a call that counts as paid, however it ends."""
    loop, life = asyncio.get_running_loop(), CURRENT_PROCESS.get()
    from_s = loop.time()
    try:
        yield
    finally:
        PAID_CALLS.append({**call, "life": life, "from_s": from_s, "to_s": loop.time()})


def _lean(question: Question, period: str) -> float:
    """Return which way this question is pushed in that period, between -1 and 1."""
    digest = hashlib.sha256(f"{question.ref}{period}".encode()).digest()
    return 2.0 * int.from_bytes(digest[:4], "big") / 2**32 - 1.0


def _moved(question: Question, move: float) -> Prediction:
    shape, crowd = question.shape, question.crowd.prediction if question.crowd is not None else None
    match shape:
        case ChoiceShape(options=options):
            prices = (
                crowd.probabilities
                if isinstance(crowd, ChoicePrediction)
                else dict.fromkeys(options, 1.0 / len(options))
            )
            tilts = [move * (1.0 - 2.0 * place / (len(options) - 1)) for place in range(len(options))]
            shares = _tilted([prices[option] for option in options], tilts)
            return ChoicePrediction(dict(zip(options, shares, strict=True)))
        case CurveShape(grid=grid):
            return crowd if isinstance(crowd, CurvePrediction) else CurvePrediction(_even(shape, len(grid)))
        case _:
            price = crowd.probability if isinstance(crowd, BinaryPrediction) else 0.5
            yes, _ = _tilted([price, 1.0 - price], [move / 2.0, -move / 2.0])
            return BinaryPrediction(yes)


def _tilted(prices: Sequence[float], tilts: Sequence[float]) -> list[float]:
    weights = [max(price, 0.01) * math.exp(tilt) for price, tilt in zip(prices, tilts, strict=True)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def _even(shape: CurveShape, points: int) -> tuple[float, ...]:
    first, last = 0.05 if shape.open_lower else 0.0, 0.95 if shape.open_upper else 1.0
    inner = (first + (last - first) * place / (points - 1) for place in range(points - 1))
    return (*inner, last)


@asynccontextmanager
async def _open(settings: DriftingForecasterSettings, _: PluginContext) -> AsyncIterator[Forecaster]:
    yield DriftingForecaster(settings)


@hookimpl
def foxcast_forecasters() -> list[ForecasterSpec[DriftingForecasterSettings]]:
    """Return the forecaster."""
    return [
        ForecasterSpec(
            name="drifter", summary="moves away from the crowd", settings=DriftingForecasterSettings, open=_open
        )
    ]


class PagerSettings(PluginSettings):
    """Nothing is to be set."""


class SimulatedPager:
    """Takes messages; one in four of them not in every second ten minutes, and three in four critical ones."""

    async def notify(self, message: NotificationMessage) -> None:
        """Take a message; raises ServiceUnavailableError where it takes none now."""
        await asyncio.sleep(1.0)
        is_critical = message.level is AlertLevel.CRITICAL
        is_slow = hashlib.sha256(message.id.encode()).digest()[0] < (192 if is_critical else 64)
        if is_slow and int(asyncio.get_running_loop().time() // 600.0) % 2:
            text = "nobody is there"
            raise ServiceUnavailableError(text)
        MESSAGES.add(message.id)


@asynccontextmanager
async def _open_pager(_: PagerSettings, __: PluginContext) -> AsyncIterator[SimulatedPager]:
    yield SimulatedPager()


@hookimpl
def foxcast_notifiers() -> list[NotifierSpec[PagerSettings]]:
    """Return the pager."""
    return [NotifierSpec(name="pager", summary="tells the people", settings=PagerSettings, open=_open_pager)]
