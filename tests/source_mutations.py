"""Breaks the program by a changed part of its source, in this process, whatever was imported before."""

from __future__ import annotations
import __future__

import ast
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

from tests.mutations import ProgramMutant

_LIKE_ALL_MODULES = __future__.annotations.compiler_flag
Definition = ast.FunctionDef | ast.AsyncFunctionDef
Value = ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMutant:
    """One changed part of the source: ``breaks`` says what it does, ``by`` stands in the place of ``part``.

    ``seed`` is one that finds it, 0 where none did; ``defence`` says why it changes nothing that the world could see.
    """

    breaks: str
    module: str
    part: str
    by: str
    seed: int = 0
    defence: str = ""

    @property
    def program_mutant(self) -> ProgramMutant:
        """The same as a mutant of the program."""
        return ProgramMutant(description=self.breaks, apply=partial(break_source, self.module, self.part, self.by))


def read_mutants(path: Path) -> Mapping[str, SourceMutant]:
    """Return the mutants of a TOML file by name."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: SourceMutant(**table) for name, table in tables.items()}


def break_source(module_name: str, part: str, by: str) -> None:
    """Put ``by`` in the place of the first ``part`` of the source of a module; raises AssertionError without one.

    A changed function gets the code of the changed source, so that all who imported it run that. A changed value is
    computed again, and so are the values of the module that are made of it, also by functions.
    """
    module = import_module(module_name)
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    if part not in source:
        message = f"{module_name} is not what it was when this mutant was written: no {part!r} in it"
        raise AssertionError(message)
    before, _, after = source.partition(part)
    line, lines = before.count("\n") + 1, source.splitlines()
    changed = _Source(module, (before + by + after).splitlines(), line, by.count("\n") - part.count("\n"))
    for place, node in _definitions(module, ast.parse(source)):
        is_changed = bool(changed.names & {one.id for one in ast.walk(node) if isinstance(one, ast.Name)})
        if isinstance(node, Definition):
            if _covers(node, line):
                _function(getattr(place, node.name)).__code__ = _function(changed.execute(node)[node.name]).__code__
                return
            # What it returns is another value, too.
            changed.names |= {node.name} if is_changed and place is module else set()
        elif _covers(node, line) or is_changed:
            changed.assign(node)
    if not changed.names:
        message = f"line {line} of {module_name}, {lines[line - 1]!r}, is in no function and no value"
        raise AssertionError(message)


def _function(found: Any) -> FunctionType:
    """Return a function, or that of a property."""
    function: Any = found.fget if isinstance(found, property) else found
    return cast("FunctionType", function)


class _Source:
    """The changed lines of a module; ``names`` are the values that were computed again, and functions of them."""

    def __init__(self, module: ModuleType, lines: list[str], line: int, longer: int) -> None:
        self._module, self._lines, self._line, self._longer = module, lines, line, longer
        self.names: set[str] = set()

    def execute(self, node: Definition | Value) -> dict[str, Any]:
        """Return the names of the module after a statement of it, as changed."""
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        moved = [self._longer if at > self._line else 0 for at in (node.lineno, last + 1)]
        text = textwrap.dedent("\n".join(self._lines[first + moved[0] : last + moved[1]]))
        found = dict(vars(self._module))
        exec(compile(text, str(self._module.__file__), "exec", flags=_LIKE_ALL_MODULES), found)  # noqa: S102
        return found

    def assign(self, node: Value) -> None:
        """Compute a value of the module again."""
        found, targets = self.execute(node), node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        vars(self._module).update({name: found[name] for name in names})
        self.names |= names


def _covers(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _definitions(module: ModuleType, tree: ast.Module) -> Iterator[tuple[Any, Definition | Value]]:
    """Yield the functions, methods and values of a module, each with the object that has it."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, Definition)]
            yield from ((getattr(module, node.name), one) for one in methods)
        elif isinstance(node, Definition | Value):
            yield module, node
