"""Classes that the light decorator defines behave as those of the standard library, which defines the same text."""

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.light_dataclass import _light_dataclass

VALUES = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=3), st.tuples(st.integers()))
# A field: its kind, and whether its default takes part in comparisons, in the text and in the parameters.
KINDS = ("plain", "default", "factory", "hidden", "uncompared", "not taken", "by keyword", "set later")
FIELDS = {
    "plain": "int",
    "default": "int = 3",
    "factory": "list[int] = field(default_factory=list)",
    "hidden": "str = field(default='x', repr=False)",
    "uncompared": "str = field(default='y', compare=False)",
    "not taken": "int = field(default=7, init=False)",
    "by keyword": "int = field(default=1, kw_only=True)",
    "set later": "int = field(init=False)",
}


def _defined(decorator: Callable[..., object], fields: Sequence[str], options: str, more: str = "") -> type:
    # Fields without a default come first, as the standard library demands.
    ordered = sorted(fields, key=lambda kind: kind != "plain")
    lines = [f"    f{number}: {FIELDS[kind]}" for number, kind in enumerate(ordered)]
    module = ModuleType("defined_here")
    module.__dict__.update(dataclass=decorator, field=dataclasses.field)
    sys.modules["defined_here"] = module
    body = "\n".join(lines) + more
    exec(f"@dataclass({options})\nclass Sample:\n    'Its text.'\n{body}\n", module.__dict__)  # noqa: S102 - it is above
    made: type = module.__dict__["Sample"]
    return made


def _result(work: Callable[[], object]) -> object:
    """Return what the work returns, or its error; values that differ between two classes have been left out."""
    try:
        return work()
    except (TypeError, AttributeError, dataclasses.FrozenInstanceError) as error:
        return type(error), str(error)


def _observed(cls: type, values: Sequence[object]) -> list[object]:
    taken = [field.name for field in dataclasses.fields(cls) if field.init]
    given = dict(zip(taken, values, strict=False))

    def made() -> object:
        return cls(**given)

    def changed() -> object:
        one = made()
        one.f0 = 5  # type: ignore[attr-defined]
        return one

    def deleted() -> object:
        one = made()
        del one.f0  # type: ignore[attr-defined]
        return repr(one)

    works: list[Callable[[], object]] = [
        lambda: repr(made()),
        lambda: made() == made(),
        lambda: made() == object(),
        lambda: hash(made()) == hash(made()),
        lambda: repr(cls(*values[:2])),
        lambda: repr(cls()),
        lambda: repr(cls(**given, unknown=1)),
        lambda: repr(changed()),
        deleted,
        lambda: repr(copy.copy(made())),
        lambda: repr(copy.deepcopy(made())),
        lambda: repr(pickle.loads(pickle.dumps(made()))),  # noqa: S301 - made here
        lambda: repr(dataclasses.replace(made(), **given)),  # type: ignore[type-var]
        lambda: str(inspect.signature(cls)),
        lambda: hasattr(made(), "__dict__"),
        lambda: (cls.__match_args__, cls.__doc__),  # type: ignore[attr-defined]
        lambda: (cls.__init__.__qualname__, cls.__init__.__annotations__),  # type: ignore[misc]
        lambda: (cls.__eq__.__qualname__, cls.__hash__ is None),
    ]
    return [_result(work) for work in works]


@given(
    fields=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5),
    frozen=st.booleans(),
    kw_only=st.booleans(),
    slots=st.booleans(),
    eq=st.booleans(),
    values=st.lists(VALUES, min_size=6, max_size=6),
)
def test_plain_classes_behave_as_those_of_the_standard_library(
    fields: list[str], *, frozen: bool, kw_only: bool, slots: bool, eq: bool, values: list[object]
) -> None:
    options = f"frozen={frozen}, kw_only={kw_only}, slots={slots}, eq={eq}"
    light, standard = (
        _observed(_defined(decorator, fields, options), values)
        for decorator in (_light_dataclass, dataclasses.dataclass)
    )
    assert light == standard


@pytest.mark.parametrize(
    "more",
    [
        "    f0: int\n    def __post_init__(self) -> None:\n        object.__setattr__(self, 'f0', 2 * self.f0)",
        "    f0: int\n    def __eq__(self, other: object) -> bool:\n        return True",
        "    f0: int\n    def __hash__(self) -> int:\n        return 1",
        "    f0: int\n    def __repr__(self) -> str:\n        return 'it'",
        "    f0: int\n    def __init__(self) -> None:\n        object.__setattr__(self, 'f0', 3)",
    ],
)
@pytest.mark.parametrize("options", ["frozen=True, slots=True", "slots=True"])
def test_methods_of_a_class_of_its_own_stay(options: str, more: str) -> None:
    light, standard = (
        _observed(_defined(decorator, (), options, more), [4, 5])
        for decorator in (_light_dataclass, dataclasses.dataclass)
    )
    assert light == standard


@pytest.mark.parametrize("base", [_light_dataclass, dataclasses.dataclass])
@pytest.mark.parametrize("derived", [_light_dataclass, dataclasses.dataclass])
def test_classes_derive_from_each_other(base: Callable[..., object], derived: Callable[..., object]) -> None:
    parent = _defined(base, ["plain", "factory"], "frozen=True, slots=True")
    child = derived(frozen=True, slots=True)(  # type: ignore[operator]
        type("Child", (parent,), {"__annotations__": {"more": int}, "more": 1})
    )
    one = child(1, more=2)
    assert repr(one) == "Child(f0=1, f1=[], more=2)"
    assert one == child(1, more=2) != child(1, more=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.more = 4
    with pytest.raises(TypeError, match="non-frozen"):
        derived(slots=True)(type("Thawed", (parent,), {}))  # type: ignore[operator]


def test_an_ordinary_class_below_a_frozen_one_has_attributes_of_its_own() -> None:
    parent = _defined(_light_dataclass, ["plain"], "frozen=True, slots=True")
    child = type("Child", (parent,), {})
    one = child(1)
    one.own = 2
    del one.own
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'f0'"):
        one.f0 = 3


def test_methods_are_made_once() -> None:
    cls = _defined(_light_dataclass, ["plain"], "frozen=True, slots=True")
    assert not inspect.isfunction(cls.__dict__["__init__"])
    cls(1)
    assert inspect.isfunction(cls.__dict__["__init__"])
    assert cls.__init__ is cls.__dict__["__init__"]  # type: ignore[misc]
    assert inspect.isfunction(cls.__eq__)
    assert cls.__eq__ is cls.__dict__["__eq__"]


def test_methods_are_made_without_writing_a_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = _defined(_light_dataclass, ["plain"], "frozen=True, slots=True")
    monkeypatch.delattr(inspect, "signature")
    assert (cls(1) == cls(1), hash(cls(1)) == hash(cls(1)), repr(cls(1))) == (True, True, "Sample(f0=1)")
