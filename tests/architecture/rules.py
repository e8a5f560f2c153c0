"""The rules of the house as pure checks over source: each takes modules and returns one line per fault.

A check holds no names of this project; the tests beside it hold the tables.
"""

import ast
import graphlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tests.architecture.source import (
    Function,
    Module,
    component,
    functions,
    imports,
    inner_statements,
    references,
    settle,
)

Layers = Sequence[Collection[str]]

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case)
# What a module may do while it is being imported: define, and nothing else.
INERT = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
)


def unplaced(modules: Iterable[Module], layers: Layers) -> list[str]:
    """Name each component that stands in no layer, so that a new one cannot escape the arrows."""
    placed = {component for layer in layers for component in layer}
    return sorted({module.component for module in modules} - placed)


def upward_imports(modules: Sequence[Module], layers: Layers) -> list[str]:
    """Find imports that do not point to a lower layer or stay within the component; layers run from low to high."""
    height = {component: rank for rank, layer in enumerate(layers) for component in layer}
    return [
        f"{module.name}:{line} imports {target}"
        for module in modules
        for target, line in imports(module)
        if (goal := component(target)) in height
        and goal != module.component
        and height[goal] >= height.get(module.component, len(layers))
    ]


def forbidden_imports(modules: Iterable[Module], forbidden: Collection[str]) -> list[str]:
    """Find imports of the forbidden packages or modules, or of anything inside them."""
    return [
        f"{module.name}:{line} imports {target}"
        for module in modules
        for target, line in imports(module)
        if any(_inside(target, name) for name in forbidden)
    ]


def strays(modules: Iterable[Module], homes: Collection[str], allowed: Collection[str]) -> list[str]:
    """Find imports of the project's own packages (homes) beyond the module's component and what is allowed."""
    return [
        f"{module.name}:{line} imports {target}"
        for module in modules
        for target, line in imports(module)
        if any(_inside(target, home) for home in homes)
        and not any(_inside(target, name) for name in (module.component, *allowed))
    ]


def cycles(modules: Sequence[Module]) -> list[str]:
    """Find one import cycle, counting imports inside functions and for types too."""
    known = frozenset(module.name for module in modules)
    graph = {
        module.name: {goal for target, _ in imports(module) if (goal := settle(target, known)) in known} - {module.name}
        for module in modules
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [" imports ".join(reversed(error.args[1]))]
    return []


def loose_use(modules: Iterable[Module], owners: Mapping[str, Collection[str]]) -> list[str]:
    """Find uses of an owned name outside the modules that own it.

    owners maps a dotted name (time.sleep, or random for all inside it) to the modules that may use it. The longest
    name that matches decides, so that numpy.random.Generator can be free while numpy.random is not.
    """
    owned_names = frozenset(owners)
    return [
        f"{module.name}:{line} uses {name}"
        for module in modules
        for name, line in sorted({*references(module), *imports(module)}, key=lambda use: use[1])
        if (owned := settle(name, owned_names)) in owners
        and not any(_inside(module.name, owner) for owner in owners[owned])
    ]


def oversized(modules: Iterable[Module], *, file_lines: int, function_lines: int) -> Iterator[str]:
    """Find files and functions (from def to end) that are longer than the budget, in physical lines."""
    for module in modules:
        if (length := len(module.text.splitlines())) > file_lines:
            yield f"{module.name} has {length} lines"
        for function in functions(module):
            if (length := (function.end_lineno or 0) - function.lineno + 1) > function_lines:
                yield f"{module.name}.{function.name} has {length} lines"


def overloaded(modules: Iterable[Module], *, complexity: int, nesting: int, parameters: int) -> Iterator[str]:
    """Find functions over the budgets of branches, nested blocks, and parameters (self and cls not counted)."""
    for module in modules:
        for function in functions(module):
            measured = {
                "branches": (_complexity(function), complexity),
                "nested blocks": (_nesting(function.body), nesting),
                "parameters": (_parameters(function), parameters),
            }
            yield from (
                f"{module.name}.{function.name} has {count} {what}"
                for what, (count, budget) in measured.items()
                if count > budget
            )


def busy_on_import(modules: Iterable[Module]) -> list[str]:
    """Find statements at the top of a module that do more than define or import; a program may start when it is run."""
    return [
        module.at(node)
        for module in modules
        for node in module.tree.body
        if not (_is_inert(node) or (module.name.endswith(".__main__") and _is_start(node)))
    ]


def undocumented(modules: Iterable[Module]) -> list[str]:
    """Find public modules without a docstring."""
    return [
        module.name
        for module in modules
        if not module.name.rpartition(".")[2].startswith("_") and not ast.get_docstring(module.tree)
    ]


def mentions(text: str, words: Collection[str]) -> list[str]:
    """Find lines that contain a word, in any case and also as part of a longer word."""
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    return [
        f"line {number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)
    ]


def unowned_tasks(text: str) -> list[str]:
    """Find task notes that do not name their owner in brackets."""
    pattern = re.compile(r"\b(?:TODO|FIXME|XXX)\b(?!\([\w-]+\))")
    return [
        f"line {number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)
    ]


def _inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _is_inert(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.If(test=test, body=body, orelse=[]):
            return ast.unparse(test) in ("TYPE_CHECKING", "not TYPE_CHECKING") and all(map(_is_inert, body))
        case _:
            return isinstance(node, INERT)


def _is_start(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'" and not node.orelse


def _own(function: Function) -> Iterator[ast.AST]:
    """Walk a function without the functions and classes defined inside it, which are measured by themselves."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            waiting.extend(inner_statements(node))


def _complexity(function: Function) -> int:
    return 1 + sum(isinstance(node, BRANCHES) for node in _own(function))


def _nesting(body: Iterable[ast.AST]) -> int:
    return max((_depth(node) for node in body), default=0)


def _depth(node: ast.AST) -> int:
    if isinstance(node, Function | ast.ClassDef):
        return 0
    inner = _nesting(inner_statements(node))
    if isinstance(node, ast.If) and [*map(type, node.orelse)] == [ast.If]:
        # An elif stands beside its if, not inside it.
        return max(1 + _nesting(node.body), _depth(node.orelse[0]))
    return inner + isinstance(node, BLOCKS)


def _parameters(function: Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in {"self", "cls"} for argument in named)
