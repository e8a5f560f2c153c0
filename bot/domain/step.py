"""One move of a forecaster: what it did, what it saw, what it believes now, what that cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from bot.domain.belief import Belief, TrialPrior

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What was consumed: model calls, tokens, and money in US dollars."""

    calls: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0

    def __post_init__(self) -> None:
        """Refuse negative and NaN amounts: a budget that can be refunded by accident is none."""
        counts = self.calls >= 0 and self.tokens_in >= 0 and self.tokens_cached >= 0 and self.tokens_out >= 0
        if not (counts and self.cost_usd >= 0):  # also refuses NaN
            message = f"usage must not be negative: {self}"
            raise ValueError(message)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_cached=self.tokens_cached + other.tokens_cached,
            tokens_out=self.tokens_out + other.tokens_out,
            cost_usd=self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What the forecaster did: the name of a tool or of a step of a model, with its arguments."""

    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the arguments."""
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What came back, as text, with the digests of the stored documents it rests on."""

    text: str = ""
    documents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool of the desk gave back: for the model to read, for code in ``data``, and what it cost.

    ``failed`` says that the tool could not do it; the text then says why in words for the model.
    """

    observation: Observation
    usage: Usage = field(default_factory=Usage)
    data: Json = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One logged move; ``belief`` is complete and valid at every step, so the last one is always an answer.

    ``final`` says that the forecaster is done with it, so that a limit reached in this very step cuts nothing off.
    ``remarks`` are what a person who looks on should not miss of it, such as where a trial began, or an update of the
    belief that was refused. ``prior`` is what the trial started from, where its first step states it.
    """

    action: Action
    observation: Observation
    belief: Belief
    usage: Usage = field(default_factory=Usage)
    final: bool = False
    remarks: tuple[str, ...] = ()
    prior: TrialPrior | None = None
