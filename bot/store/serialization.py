"""Domain values as canonical JSON text and back: the ledger stores this text and computes digests of it.

Type hints decide how dataclasses become plain JSON values.
"""

import dataclasses
import json
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, overload

from bot.core.beliefs import Belief, Step
from bot.core.errors import MalformedDataError
from bot.core.forecasts import Forecast, ForecasterSetup, Trial
from bot.core.ids import sha256_hex
from bot.core.learning import FittedParameters
from bot.core.outcomes import Outcome, Resolution
from bot.core.predictions import BinaryPrediction, Prediction
from bot.core.questions import Question, QuestionRef
from bot.core.redaction import redact_known_secrets

ValueConverter = Callable[[Any], Any]


@overload
def format_timestamp(moment: datetime) -> str: ...


@overload
def format_timestamp(moment: None) -> None: ...


def format_timestamp(moment: datetime | None) -> str | None:
    """Return the time as 27 characters of text that sort by time: ``2026-01-31T09:00:00.000000Z``."""
    if moment is None:
        return None
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="microseconds")[:26] + "Z"


@overload
def parse_timestamp(text: str) -> datetime: ...


@overload
def parse_timestamp(text: None) -> None: ...


def parse_timestamp(text: str | None) -> datetime | None:
    """Read what ``format_timestamp`` wrote."""
    return None if text is None else datetime.fromisoformat(text)


@cache
def plain_encoder(hint: Any) -> ValueConverter:  # noqa: ANN401 - a type, in any of the shapes that typing gives it
    """Return the function from values of the type to plain JSON values."""
    return _converter_for(hint, _ENCODING)


@cache
def plain_decoder(hint: Any) -> ValueConverter:  # noqa: ANN401 - a type, in any of the shapes that typing gives it
    """Return the function from plain JSON values to the type; it raises KeyError, TypeError or ValueError."""
    return _converter_for(hint, _DECODING)


@dataclasses.dataclass(frozen=True)
class _ConversionDirection:
    """The converters that differ between encoding and decoding."""

    atoms: Mapping[object, ValueConverter]
    part: Callable[[Any], ValueConverter]
    record: Callable[[Any], ValueConverter]
    union: Callable[[tuple[Any, ...]], ValueConverter]
    sequence: Callable[[Any], Any]


def _converter_for(hint: Any, direction: _ConversionDirection) -> ValueConverter:  # noqa: ANN401
    if hint in direction.atoms:
        return direction.atoms[hint]
    if dataclasses.is_dataclass(hint):
        return direction.record(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return direction.atoms.get(Enum, hint)
    return _composite_converter(typing.get_origin(hint), typing.get_args(hint), direction)


def _composite_converter(origin: Any, arguments: tuple[Any, ...], direction: _ConversionDirection) -> ValueConverter:  # noqa: ANN401
    if origin is tuple:
        return _sequence_converter(direction.part(arguments[0]), direction.sequence)
    if origin is Mapping:
        return _mapping_converter(direction.part(arguments[1]))
    members = tuple(argument for argument in arguments if argument is not NoneType)
    if origin in {UnionType, typing.Union} and _are_distinguishable(members):
        code = direction.part(members[0]) if len(members) == 1 else direction.union(members)
        return _identity if code is _identity else lambda value: None if value is None else code(value)
    return _identity


def _are_distinguishable(members: tuple[Any, ...]) -> bool:
    return len(members) == 1 or all(dataclasses.is_dataclass(member) for member in members)


def _sequence_converter(code: ValueConverter, sequence: Callable[[Any], Any]) -> ValueConverter:
    if code is _identity:
        return sequence
    return lambda values: sequence(map(code, values))


def _mapping_converter(code: ValueConverter) -> ValueConverter:
    if code is _identity:
        return lambda values: dict(values.items())
    return lambda values: {key: code(value) for key, value in values.items()}


def _identity(value: Any) -> Any:  # noqa: ANN401 - JSON already
    return value


def _plain_number(value: float) -> float | str:
    # Adding zero turns -0.0 into 0.0. JSON has no infinity; the encoder refuses NaN.
    return str(float(value)) if math.isinf(value) else float(value) + 0.0


def _record_encoder(kind: Any) -> ValueConverter:  # noqa: ANN401 - a dataclass
    parts = [(field.name, plain_encoder(hint), _field_default(field)) for field, hint in _typed_fields(kind)]
    # A class may be stored in another form than that of its fields.
    to_stored = getattr(kind, "to_stored", None)

    def write(value: Any) -> dict[str, Any]:  # noqa: ANN401
        plain = {}
        for name, code, default in parts:
            # One by one: operator.attrgetter takes longer.
            part = getattr(value, name)
            if part is not default and part != default:
                plain[name] = part if code is _identity else code(part)
        stored: dict[str, Any] = plain if to_stored is None else to_stored(value, plain)
        return stored

    return write


def _record_decoder(kind: Any) -> ValueConverter:  # noqa: ANN401 - a dataclass
    readers = {field.name: plain_decoder(hint) for field, hint in _typed_fields(kind)}
    # A class whose stored form has changed reads the old one.
    upgrade = getattr(kind, "upgrade_stored", _identity)
    return lambda plain: kind(**{name: readers[name](part) for name, part in upgrade(plain).items() if name != "kind"})


def _union_encoder(members: tuple[Any, ...]) -> ValueConverter:
    writers = {member: plain_encoder(member) for member in members}
    return lambda value: {"kind": value.kind, **writers[type(value)](value)}


def _union_decoder(members: tuple[Any, ...]) -> ValueConverter:
    readers = {_kind_value(member): plain_decoder(member) for member in members}
    return lambda plain: readers[plain["kind"]](plain)


def _typed_fields(kind: Any) -> list[tuple["Field[Any]", Any]]:  # noqa: ANN401 - a dataclass
    hints = typing.get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind) if field.name != "kind"]


def _field_default(field: "Field[Any]") -> Any:  # noqa: ANN401
    return field.default if field.default_factory is MISSING else field.default_factory()


def _kind_value(member: Any) -> str:  # noqa: ANN401 - a dataclass
    (field,) = (field for field in dataclasses.fields(member) if field.name == "kind")
    return str(field.default)


_ENCODING = _ConversionDirection(
    atoms={
        str: _identity,
        int: _identity,
        bool: _identity,
        float: _plain_number,
        datetime: format_timestamp,
        date: date.isoformat,
        QuestionRef: str,
        Enum: str,
    },
    part=plain_encoder,
    record=_record_encoder,
    union=_union_encoder,
    sequence=list,
)
_DECODING = _ConversionDirection(
    atoms={
        str: _identity,
        int: _identity,
        bool: _identity,
        float: float,
        datetime: parse_timestamp,
        date: date.fromisoformat,
        QuestionRef: QuestionRef.parse,
    },
    part=plain_decoder,
    record=_record_decoder,
    union=_union_decoder,
    sequence=tuple,
)
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
    "JsonSerializer",
    "format_timestamp",
    "pack_prediction",
    "parse_timestamp",
    "plain_content",
    "question_version",
    "sanitize_text",
    "to_json_list",
    "unpack_prediction",
]
T = TypeVar("T")
# What contains itself is nested too deeply, so it need not be looked for.
_CANONICAL_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def sanitize_text(text: str) -> str:
    """Return the text without known secrets, and with each lone surrogate replaced by U+FFFD.

    Surrogate pairs become the character that they encode.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return redact_known_secrets(text)


class JsonSerializer(Generic[T]):
    """Encodes and decodes values of one type (a dataclass, or a union or mapping of dataclasses)."""

    def __init__(self, name: str, hint: object) -> None:
        """Set the type; its converters are built at the first use."""
        self._name = name
        self._hint = hint
        self._to_plain: ValueConverter = self._make_encoder

    def encode(self, value: T) -> str:
        """Return the canonical JSON of the value; raises MalformedDataError for what JSON cannot hold, such as NaN."""
        return sanitize_text(self._written(self._to_plain(value)))

    def encode_as_read(self, value: T) -> tuple[str, T]:
        """Return the text as ``encode`` does, and the value that it has: another one if a secret was left out.

        What the value consists of must have the declared types.
        """
        written = self._written(self._to_plain(value))
        text = sanitize_text(written)
        return text, value if text is written else self.decode(text)

    def decode(self, text: str) -> T:
        """Return the value of the text; raises MalformedDataError for text of another form."""
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = f"not a stored {self._name}: {text[:80]!r} ({error})"
            raise MalformedDataError(message) from error
        return self.value(plain)

    def plain(self, value: T) -> Any:  # noqa: ANN401 - the JSON edge
        """Return the value as dicts, lists, text and numbers."""
        return self._to_plain(value)

    def _make_encoder(self, value: T) -> Any:  # noqa: ANN401 - the JSON edge
        self._to_plain = plain_encoder(self._hint)
        return self._to_plain(value)

    def text(self, plain: Any) -> str:  # noqa: ANN401 - the JSON edge
        """Return plain values as canonical text; raises MalformedDataError."""
        return sanitize_text(self._written(plain))

    def _written(self, plain: Any) -> str:  # noqa: ANN401 - the JSON edge
        try:
            return _CANONICAL_ENCODER.encode(plain)
        except (TypeError, ValueError, RecursionError) as error:
            message = f"a {self._name} that JSON cannot hold: {error}"
            raise MalformedDataError(message) from error

    def value(self, plain: Any) -> T:  # noqa: ANN401 - the JSON edge
        """Return the value of plain values; raises MalformedDataError."""
        try:
            value: T = plain_decoder(self._hint)(plain)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"not a stored {self._name}: {repr(plain)[:80]} ({repr(error)[:200]})"
            raise MalformedDataError(message) from error
        return value


QUESTION: JsonSerializer[Question] = JsonSerializer("question", Question)
PREDICTION: JsonSerializer[Prediction] = JsonSerializer("prediction", Prediction)
PREDICTIONS: JsonSerializer[Mapping[str, Prediction]] = JsonSerializer("set of predictions", Mapping[str, Prediction])
BELIEF: JsonSerializer[Belief] = JsonSerializer("belief", Belief)
STEP: JsonSerializer[Step] = JsonSerializer("step", Step)
TRIAL: JsonSerializer[Trial] = JsonSerializer("trial", Trial)
FORECAST: JsonSerializer[Forecast] = JsonSerializer("forecast", Forecast)
OUTCOME: JsonSerializer[Outcome] = JsonSerializer("outcome", Outcome)
RESOLUTION: JsonSerializer[Resolution] = JsonSerializer("resolution", Resolution)
FITTED: JsonSerializer[FittedParameters] = JsonSerializer("set of parameters", FittedParameters)
SETUP: JsonSerializer[ForecasterSetup] = JsonSerializer("setup of a forecaster", ForecasterSetup)


# ``Question.without_metadata`` makes and checks a second question.
_METADATA = ("crowd", "tags", "tournaments")


def plain_content(question: Question) -> dict[str, Any]:
    """Return the question as plain values, without its crowd and labels, which change often."""
    plain: dict[str, Any] = QUESTION.plain(question)
    for name in _METADATA:
        plain.pop(name, None)
    return plain


def question_version(question: Question) -> str:
    """Return the digest of the question without its crowd and labels."""
    return sha256_hex(QUESTION.text(plain_content(question)).encode())


def to_json_list(values: Iterable[object]) -> str:
    """Return the values as a JSON list of text, to be bound to ``json_each``."""
    return json.dumps([str(value) for value in values])


def pack_prediction(prediction: Prediction) -> tuple[float | None, str | None]:
    """Return the two columns of a prediction: the probability of yes, or the whole as JSON."""
    if isinstance(prediction, BinaryPrediction):
        return float(prediction.probability), None
    return None, PREDICTION.encode(prediction)


def unpack_prediction(probability: float | None, body: str | None) -> Prediction:
    """Return the prediction of the two columns."""
    return BinaryPrediction(probability) if probability is not None else PREDICTION.decode(body or "null")
