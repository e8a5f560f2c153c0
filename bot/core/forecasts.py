"""Trials with their limits and transcripts, the forecast that combines them, and the setup of its forecaster."""

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from bot.core.beliefs import Belief, ModelUsage, TrialPrior
from bot.core.light_dataclass import dataclass
from bot.core.predictions import Prediction
from bot.core.questions import QuestionRef
from bot.core.values import Json, require_timezone

# The final answer of a model with long reasoning takes about as long as one call may take by default.
MAX_FINAL_ANSWER_S = 120.0
# A call that hangs is given up this long before the trial ends, so that the trial can still report that itself.
MAX_CALL_RESERVE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialLimits:
    """The limits of a trial: steps, seconds, tokens (in and out) and US dollars."""

    steps: int = 10
    seconds: float = 600.0
    tokens: int | None = None
    cost_usd: float | None = None

    @property
    def call_seconds(self) -> float:
        """After how many seconds of the trial no model call may be in progress."""
        return self.seconds - min(MAX_CALL_RESERVE_S, self.seconds / 20)

    @property
    def final_seconds(self) -> float:
        """How many seconds at its end a trial keeps for its final answer: a fifth, at most ``MAX_FINAL_ANSWER_S``."""
        return min(MAX_FINAL_ANSWER_S, self.seconds / 5)


class TrialEnd(StrEnum):
    """Why a trial ended; all but ``FAILED`` and ``EMPTY`` leave a valid belief."""

    FINISHED = "finished"
    STEP_LIMIT = "step limit"
    TIME_LIMIT = "time limit"
    TOKEN_LIMIT = "token limit"  # noqa: S105 - a count of tokens, no secret
    COST_LIMIT = "cost limit"
    REPEAT_LIMIT = "repeat limit"
    CONTEXT_LIMIT = "context limit"
    FAILED = "failed"
    EMPTY = "no step"


# A trial that ended at one of these counts if it stated a belief on evidence before.
LIMIT_ENDS = frozenset(
    {
        TrialEnd.STEP_LIMIT,
        TrialEnd.TIME_LIMIT,
        TrialEnd.TOKEN_LIMIT,
        TrialEnd.COST_LIMIT,
        TrialEnd.REPEAT_LIMIT,
        TrialEnd.CONTEXT_LIMIT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One independent run of a forecaster on one question.

    ``belief`` is the last recorded one, also of a trial that failed; ``detail`` says why it ended early. ``prior`` is
    its prior, if it stated one.
    """

    number: int
    end: TrialEnd
    belief: Belief | None
    steps: int
    usage: ModelUsage = field(default_factory=ModelUsage)
    detail: str = ""
    prior: TrialPrior | None = None

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer: it finished, or it reached a limit after it had stated a belief on evidence.

        A trial that does not count has failed: its prior is no answer.
        """
        if self.belief is None:
            return False
        return self.end is TrialEnd.FINISHED or (self.end in LIMIT_ENDS and self.belief.stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One revision of one forecaster's answer to one question, as recorded.

    ``cutoff`` is the moment after which nothing informed it; ``raw`` is the aggregate of the trials, ``predictions``
    the same after calibration; ``why`` says what triggered this revision; ``fitted`` and ``calibration`` are the
    digests of the parameters in use, where there were any.
    """

    id: str
    ref: QuestionRef
    version: str
    forecaster: str
    revision: int
    cutoff: datetime
    made_at: datetime
    why: str
    raw: Mapping[str, Prediction]
    predictions: Mapping[str, Prediction]
    fitted: str | None = None
    calibration: str | None = None

    def __post_init__(self) -> None:
        """Check the moments and freeze the predictions."""
        require_timezone("cutoff", self.cutoff)
        require_timezone("made_at", self.made_at)
        object.__setattr__(self, "raw", MappingProxyType(dict(self.raw)))
        object.__setattr__(self, "predictions", MappingProxyType(dict(self.predictions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecasterSetup:
    """The configuration of one forecaster, without secrets.

    ``settings`` are those of the plugin as JSON, defaults included; ``aggregate`` is how trials become one answer;
    ``uses`` names the forecaster that this one is a variant of.
    """

    settings: Mapping[str, Json]
    trials: int
    aggregate: str
    limits: TrialLimits
    uses: str | None = None
    clairvoyant: bool = False

    def __post_init__(self) -> None:
        """Freeze the top level of the settings."""
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    def labelled_values(self) -> Mapping[str, Json]:
        """Return every value by a unique name, such as ``setting: crowd`` or ``limit: steps``."""
        limits = {f"limit: {field.name}": getattr(self.limits, field.name) for field in fields(self.limits)}
        return {
            "variant of": self.uses,
            "trials configured": self.trials,
            "aggregate": self.aggregate,
            "clairvoyant": self.clairvoyant,
            **limits,
            **{f"setting: {name}": value for name, value in _flatten_settings(self.settings)},
        }


def _flatten_settings(table: Mapping[str, Json], under: str = "") -> Iterator[tuple[str, Json]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten_settings(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", value


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptEntry:
    """One move: ``title`` names the actor and the action, ``text`` is the content.

    ``detail`` is shown only if everything is requested; ``remarks`` are important. ``belief`` is the belief after the
    move, and ``probability`` the same if it is one number from 0 to 1. Entries of one ``speaker`` look alike on a page.
    """

    title: str
    text: str = ""
    detail: str = ""
    speaker: str = ""
    remarks: tuple[str, ...] = ()
    belief: str = ""
    probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptFigure:
    """One figure at the end of a trial; one that ``is_probability`` lies between 0 and 1."""

    name: str
    value: float | str
    is_probability: bool = False

    @property
    def text(self) -> str:
        """The value in readable form."""
        return f"{self.value:.4g}" if isinstance(self.value, int | float) else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTranscript:
    """One trial; ``report`` is its own summary at its end."""

    entries: tuple[TranscriptEntry, ...]
    figures: tuple[TranscriptFigure, ...] = ()
    report: str = ""
