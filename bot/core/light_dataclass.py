"""``dataclass`` of the standard library for plain classes with slots, which are defined in a tenth of the time.

The standard library writes and compiles up to six methods of each class when its module is imported: a quarter of the
CPU of ``foxcast status``. Here ``__init__`` is compiled at the first instance, ``__repr__``, ``__eq__`` and
``__hash__`` are those of the standard library, made when they are first used, and all frozen classes share the methods
that refuse changes. The standard library still collects the fields, and makes every class that is not plain: without
slots, with an order, derived from a dataclass, or with one of these methods of its own.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

_MADE_METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")
_PLAIN_OPTIONS = frozenset({"frozen", "slots", "kw_only", "eq"})


class _NotGiven:
    """The default of a field with a factory, as ``inspect.signature`` shows it."""

    def __repr__(self) -> str:
        return "<factory>"


_NOT_GIVEN = _NotGiven()


def _light_dataclass(cls: type[object] | None = None, /, **options: bool) -> object:
    """Define a dataclass; ``options`` are those of ``dataclasses.dataclass``."""
    if cls is None:
        return partial(_light_dataclass, **options)
    if not _is_plain(cls, options):
        return dataclasses.dataclass(**options)(cls)
    # For a class without a text the standard library writes its signature, for which it would need ``__init__`` now.
    cls.__doc__ = cls.__doc__ or cls.__name__
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=options.get("kw_only", False))(
        cls
    )
    is_frozen = options.get("frozen", False)
    # The standard library asks for this when another class derives from this one.
    made.__dataclass_params__.frozen = is_frozen  # type: ignore[attr-defined]
    methods: dict[str, object] = {
        "__init__": _LazyMethod(made, "__init__", partial(_make_init, made, is_frozen=is_frozen)),
        "__repr__": _standard_method(made, "__repr__"),
    }
    if options.get("eq", True):
        methods["__eq__"] = _standard_method(made, "__eq__")
        methods["__hash__"] = _standard_method(made, "__hash__") if is_frozen else None
    if is_frozen:
        methods |= _FROZEN_METHODS
    for name, method in methods.items():
        setattr(made, name, method)
    return made


def _is_plain(cls: type[object], options: dict[str, bool]) -> bool:
    return (
        options.get("slots", False)
        and _PLAIN_OPTIONS.issuperset(options)
        and not any(map(dataclasses.is_dataclass, cls.__mro__))
        and not any(name in cls.__dict__ for name in _MADE_METHODS)
    )


class _LazyMethod:
    """A method that is made when it is first looked up, and then takes this place in its class."""

    def __init__(self, cls: type[object], name: str, make: Callable[[], Callable[..., object]]) -> None:
        self._cls = cls
        self._name = name
        self._make = make

    def __get__(self, instance: object, owner: type[object]) -> object:
        method = self._make()
        method.__qualname__, method.__module__ = f"{self._cls.__qualname__}.{self._name}", self._cls.__module__
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _standard_method(cls: type[object], name: str) -> _LazyMethod:
    """Return a method as the standard library makes it for another class with the same fields."""

    def make() -> Callable[..., object]:
        fields = [(field.name, field.type, field) for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        # For a class without a text it would write a signature: slow, and garbage of 14 kB.
        twin = dataclasses.make_dataclass(
            cls.__name__, fields, namespace={"__doc__": cls.__doc__}, init=False, frozen=name == "__hash__"
        )
        method: Callable[..., object] = twin.__dict__[name]
        return method

    return _LazyMethod(cls, name, make)


def _make_init(cls: type[object], *, is_frozen: bool) -> Callable[..., None]:
    """Return the method that takes the fields in the order of the standard library: those by keyword come last."""
    names: dict[str, object] = {"_not_given": _NOT_GIVEN}
    body: list[str] = []
    taken: list[dataclasses.Field[object]] = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        name, default = field.name, f"_default_{field.name}"
        has_factory = field.default_factory is not dataclasses.MISSING
        names[default] = field.default_factory if has_factory else field.default
        value = f"{default}()" if has_factory else default
        if field.init:
            taken.append(field)
            value = f"{value} if {name} is _not_given else {name}" if has_factory else name
        elif names[default] is dataclasses.MISSING:
            continue
        # Setting a slot by its descriptor is twice as fast as object.__setattr__.
        names[f"_set_{name}"] = getattr(cls, name).__set__
        body.append(f"_set_{name}(self, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "\n ".join(body or ["pass"])
    made: dict[str, Callable[..., None]] = {}
    exec(f"def __init__({', '.join(_parameters(taken))}):\n {lines}", names, made)  # noqa: S102 - as dataclasses does
    init = made["__init__"]
    init.__annotations__ = {**{field.name: field.type for field in taken}, "return": None}
    return init


def _parameters(fields: Sequence[dataclasses.Field[object]]) -> list[str]:
    positional, by_keyword = ["self"], ["*"]
    for field in fields:
        if field.default_factory is not dataclasses.MISSING:
            default = "=_not_given"
        else:
            default = "" if field.default is dataclasses.MISSING else f"=_default_{field.name}"
        (by_keyword if field.kw_only else positional).append(field.name + default)
    return positional + (by_keyword if len(by_keyword) > 1 else [])


def _refuse_assignment(self: object, name: str, value: object) -> None:
    _refuse_change(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: object, name: str) -> None:
    _refuse_change(self, name, "delete")
    object.__delattr__(self, name)


def _refuse_change(self: object, name: str, what: str) -> None:
    """Raise FrozenInstanceError; an ordinary class that derives from a frozen one may have attributes of its own."""
    if "__dataclass_fields__" in type(self).__dict__ or name in _field_names(self):
        message = f"cannot {what} field {name!r}"
        raise dataclasses.FrozenInstanceError(message)


def _read_slots(self: object) -> list[object]:
    return [getattr(self, name) for name in _field_names(self)]


def _write_slots(self: object, state: list[object]) -> None:
    for name, value in zip(_field_names(self), state, strict=True):
        object.__setattr__(self, name, value)


def _field_names(instance: object) -> list[str]:
    return [field.name for field in dataclasses.fields(instance)]  # type: ignore[arg-type]


_FROZEN_METHODS: dict[str, object] = {
    "__setattr__": _refuse_assignment,
    "__delattr__": _refuse_deletion,
    "__getstate__": _read_slots,
    "__setstate__": _write_slots,
}

if TYPE_CHECKING:
    from dataclasses import dataclass
if not TYPE_CHECKING:
    dataclass = _light_dataclass
