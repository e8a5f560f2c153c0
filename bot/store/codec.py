"""Domain values as canonical JSON text, and back: the form in which the ledger keeps them and takes their digests.

Canonical means sorted keys, no spaces, no NaN, moments in UTC at a fixed width (so that the order of the text is the
order of time), and no field that has its default (so that a field added later changes no digest). Text from the web
may hold lone surrogates, which no UTF-8 can carry: they become U+FFFD here, once, before any digest is taken. So do
secrets that somebody repeated become a mark: what went through here may be kept, exported and shown.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from bot.domain.belief import Belief
from bot.domain.forecast import Forecast, Trial
from bot.domain.learning import Fitted
from bot.domain.prediction import Binary, Prediction
from bot.domain.question import Question
from bot.domain.resolution import Outcome, Resolution
from bot.domain.setup import Setup
from bot.domain.step import Step
from bot.errors import ContractError
from bot.ids import digest
from bot.redact import hide
from bot.store.plain import moment, reader, stamp, writer

__all__ = [
    "BELIEF",
    "FITTED",
    "FORECAST",
    "OUTCOME",
    "PREDICTION",
    "PREDICTIONS",
    "QUESTION",
    "RESOLUTION",
    "SETUP",
    "STEP",
    "TRIAL",
    "Form",
    "clean",
    "listed",
    "moment",
    "pack_prediction",
    "stamp",
    "unpack_prediction",
    "version_of",
]

T = TypeVar("T")

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def clean(text: str) -> str:
    """Return the text without the secrets that are known, and with each lone surrogate replaced by U+FFFD.

    Surrogate pairs become the character they mean.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return hide(text)


class Form(Generic[T]):
    """How values of one type (a dataclass, or a union or mapping of them) are written and read."""

    def __init__(self, name: str, hint: object) -> None:
        """Keep the type; its fields are looked at when it is first used."""
        self._name = name
        self._hint = hint

    def encode(self, value: T) -> str:
        """Return the canonical JSON of the value; raises ContractError for what JSON cannot say, such as NaN."""
        return self.text(self.plain(value))

    def decode(self, text: str) -> T:
        """Read a value back; raises ContractError for text that is not of this form."""
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = f"not a stored {self._name}: {text[:80]!r} ({error})"
            raise ContractError(message) from error
        return self.value(plain)

    def plain(self, value: T) -> Any:  # noqa: ANN401 - the JSON edge
        """Return the value as dicts, lists, text and numbers."""
        return writer(self._hint)(value)

    def text(self, plain: Any) -> str:  # noqa: ANN401 - the JSON edge
        """Return plain values as canonical text; raises ContractError."""
        try:
            text = _CANONICAL.encode(plain)
        except (TypeError, ValueError) as error:
            message = f"a {self._name} that JSON cannot say: {error}"
            raise ContractError(message) from error
        return clean(text)

    def value(self, plain: Any) -> T:  # noqa: ANN401 - the JSON edge
        """Return the value that the plain values say; raises ContractError."""
        try:
            value: T = reader(self._hint)(plain)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"not a stored {self._name}: {str(plain)[:80]} ({error!r})"
            raise ContractError(message) from error
        return value


QUESTION: Form[Question] = Form("question", Question)
PREDICTION: Form[Prediction] = Form("prediction", Prediction)
PREDICTIONS: Form[Mapping[str, Prediction]] = Form("set of predictions", Mapping[str, Prediction])
BELIEF: Form[Belief] = Form("belief", Belief)
STEP: Form[Step] = Form("step", Step)
TRIAL: Form[Trial] = Form("trial", Trial)
FORECAST: Form[Forecast] = Form("forecast", Forecast)
OUTCOME: Form[Outcome] = Form("outcome", Outcome)
RESOLUTION: Form[Resolution] = Form("resolution", Resolution)
FITTED: Form[Fitted] = Form("set of parameters", Fitted)
SETUP: Form[Setup] = Form("setup of a forecaster", Setup)


def version_of(question: Question) -> str:
    """Return the digest of all that the question says, but for what moves: the crowd, and what it is filed under."""
    return digest(QUESTION.encode(question.as_stated).encode())


def listed(values: Iterable[object]) -> str:
    """Return the values as a JSON list of text, to be bound to ``json_each``."""
    return json.dumps([str(value) for value in values])


def pack_prediction(prediction: Prediction) -> tuple[float | None, str | None]:
    """Return the two columns of a prediction: the probability of yes, or else the whole as JSON."""
    if isinstance(prediction, Binary):
        return float(prediction.probability), None
    return None, PREDICTION.encode(prediction)


def unpack_prediction(probability: float | None, body: str | None) -> Prediction:
    """Read the two columns back."""
    return Binary(probability) if probability is not None else PREDICTION.decode(body or "null")
