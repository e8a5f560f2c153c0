"""Dataclasses as plain JSON values and back, made from their type hints: one function per type, built once.

Knows dataclasses (a field that has its default is left out), unions of dataclasses (told apart by ``kind``), optional
values, tuples, mappings with text keys, enumerations, moments, dates and question references; whatever else a type
says is taken to be JSON already. Values are not checked on the way out; on the way in the dataclasses check themselves.
"""

import dataclasses
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, overload

from bot.domain.question import QuestionRef

Coder = Callable[[Any], Any]


@overload
def stamp(moment: datetime) -> str: ...
@overload
def stamp(moment: None) -> None: ...
def stamp(moment: datetime | None) -> str | None:
    """Return the moment as 27 characters, ``2026-01-31T09:00:00.000000Z``: the order of text is that of time."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


@overload
def moment(text: str) -> datetime: ...
@overload
def moment(text: None) -> None: ...
def moment(text: str | None) -> datetime | None:
    """Read what ``stamp`` wrote."""
    return None if text is None else datetime.fromisoformat(text)


@cache
def writer(hint: Any) -> Coder:  # noqa: ANN401 - a type, in any of the shapes that typing gives it
    """Return the function from values of the type to plain JSON values."""
    return _coder(hint, _WRITING)


@cache
def reader(hint: Any) -> Coder:  # noqa: ANN401 - a type, in any of the shapes that typing gives it
    """Return the function from plain JSON values to the type; it raises KeyError, TypeError or ValueError."""
    return _coder(hint, _READING)


@dataclasses.dataclass(frozen=True)
class _Direction:
    """The half of the work that differs between writing and reading."""

    atoms: Mapping[object, Coder]
    part: Callable[[Any], Coder]
    record: Callable[[Any], Coder]
    union: Callable[[tuple[Any, ...]], Coder]
    sequence: Callable[[Any], Any]


def _coder(hint: Any, direction: _Direction) -> Coder:  # noqa: ANN401
    if hint in direction.atoms:
        return direction.atoms[hint]
    if dataclasses.is_dataclass(hint):
        return direction.record(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return direction.atoms.get(Enum, hint)
    return _composed(typing.get_origin(hint), typing.get_args(hint), direction)


def _composed(origin: Any, arguments: tuple[Any, ...], direction: _Direction) -> Coder:  # noqa: ANN401
    if origin is tuple:
        return _each(direction.part(arguments[0]), direction.sequence)
    if origin is Mapping:
        return _each_value(direction.part(arguments[1]))
    members = tuple(argument for argument in arguments if argument is not NoneType)
    if origin in {UnionType, typing.Union} and _told_apart(members):
        code = direction.part(members[0]) if len(members) == 1 else direction.union(members)
        return lambda value: None if value is None else code(value)
    return _same


def _told_apart(members: tuple[Any, ...]) -> bool:
    return len(members) == 1 or all(dataclasses.is_dataclass(member) for member in members)


def _each(code: Coder, sequence: Callable[[Any], Any]) -> Coder:
    return lambda values: sequence(map(code, values))


def _each_value(code: Coder) -> Coder:
    return lambda values: {key: code(value) for key, value in values.items()}


def _same(value: Any) -> Any:  # noqa: ANN401 - JSON already
    return value


def _number(value: float) -> float | str:
    # Adding zero makes one text of -0.0 and 0.0. JSON has no infinity; NaN is left for the writer of text to refuse.
    return str(float(value)) if math.isinf(value) else float(value) + 0.0


def _write_record(kind: Any) -> Coder:  # noqa: ANN401 - a dataclass
    parts = [(field.name, writer(hint), _default(field)) for field, hint in _fields(kind)]

    def write(value: Any) -> dict[str, Any]:  # noqa: ANN401
        plain = {}
        for name, code, default in parts:
            part = getattr(value, name)
            if part is not default and part != default:
                plain[name] = code(part)
        return plain

    return write


def _read_record(kind: Any) -> Coder:  # noqa: ANN401 - a dataclass
    readers = {field.name: reader(hint) for field, hint in _fields(kind)}
    return lambda plain: kind(**{name: readers[name](part) for name, part in plain.items() if name != "kind"})


def _write_union(members: tuple[Any, ...]) -> Coder:
    writers = {member: writer(member) for member in members}
    return lambda value: {"kind": value.kind, **writers[type(value)](value)}


def _read_union(members: tuple[Any, ...]) -> Coder:
    readers = {_kind(member): reader(member) for member in members}
    return lambda plain: readers[plain["kind"]](plain)


def _fields(kind: Any) -> list[tuple["Field[Any]", Any]]:  # noqa: ANN401 - a dataclass
    hints = typing.get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind) if field.name != "kind"]


def _default(field: "Field[Any]") -> Any:  # noqa: ANN401
    return field.default if field.default_factory is MISSING else field.default_factory()


def _kind(member: Any) -> str:  # noqa: ANN401 - a dataclass
    (field,) = (field for field in dataclasses.fields(member) if field.name == "kind")
    return str(field.default)


_WRITING = _Direction(
    atoms={
        str: _same,
        int: _same,
        bool: _same,
        float: _number,
        datetime: stamp,
        date: date.isoformat,
        QuestionRef: str,
        Enum: str,
    },
    part=writer,
    record=_write_record,
    union=_write_union,
    sequence=list,
)
_READING = _Direction(
    atoms={
        str: _same,
        int: _same,
        bool: _same,
        float: float,
        datetime: moment,
        date: date.fromisoformat,
        QuestionRef: QuestionRef.parse,
    },
    part=reader,
    record=_read_record,
    union=_read_union,
    sequence=tuple,
)
