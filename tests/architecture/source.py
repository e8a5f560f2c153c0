"""Reads source files into what the architecture rules look at; it imports none of them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef
_BODIES = ("body", "orelse", "handlers", "finalbody", "cases")


@dataclass(frozen=True, kw_only=True)
class Module:
    """One source file: its dotted name, its text, and whether it is the `__init__` of a package."""

    name: str
    text: str
    package: bool = False

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.text)

    @property
    def component(self) -> str:
        """The unit of the arrows: bot.execution for bot.execution.gate.caps."""
        return component(self.name)

    def at(self, node: ast.stmt | ast.expr | ast.arg) -> str:
        return f"{self.name}:{node.lineno}"


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def forget_trees() -> None:
    """Free the trees of all sources: together they are a gigabyte."""
    _parsed.cache_clear()


def component(name: str) -> str:
    """Return the first two parts of a dotted name."""
    return ".".join(name.split(".")[:2])


def load(root: Path, package: str) -> list[Module]:
    """Return all modules of the package folder under root, sorted by path, or the one module of that name."""
    single = root / f"{package}.py"
    return [_module(root, path) for path in ([single] if single.is_file() else sorted((root / package).rglob("*.py")))]


@cache
def imports(module: Module) -> tuple[tuple[str, int], ...]:
    """Return (dotted name, line) of everything imported anywhere: at the top, in functions, for types only.

    `from a import b` gives a.b, since b may be a module; `settle` tells which it is.
    """
    return tuple(_imports(module))


def _imports(module: Module) -> Iterator[tuple[str, int]]:
    for node in statements(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def settle(name: str, known: frozenset[str]) -> str:
    """Return the longest leading part of the name that is a known module, or the name itself if none is."""
    parts = name.split(".")
    leading = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((part for part in leading if part in known), name)


def references(module: Module) -> Iterator[tuple[str, int]]:
    """Yield (full dotted name, line) of each name in use, with import aliases resolved: np.mean is numpy.mean.

    A name that no import binds stands under `builtins`, so that a parameter called random is not the module.
    """
    aliases = dict(_aliases(module.tree))
    nodes = [*ast.walk(module.tree)]
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in inner and (dotted := _dotted(node)):
            first, _, rest = dotted.partition(".")
            yield ".".join(filter(None, (aliases.get(first, f"builtins.{first}"), rest))), node.lineno


def functions(module: Module) -> Iterator[Function]:
    return (node for node in statements(module.tree) if isinstance(node, Function))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements inside, with handlers and cases. Nearly all nodes of a tree are expressions, left out."""
    waiting = inner_statements(tree)
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(inner_statements(node))


def inner_statements(node: ast.AST) -> list[ast.AST]:
    """Return the statements, handlers and cases directly inside a statement, a handler, a case or a module."""
    return [inner for name in _BODIES for inner in getattr(node, name, ())]


def _module(root: Path, path: Path) -> Module:
    parts = path.relative_to(root).with_suffix("").parts
    package = parts[-1] == "__init__"
    return Module(
        name=".".join(parts[:-1] if package else parts),
        text=path.read_text(encoding="utf-8"),
        package=package,
    )


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in statements(tree):
        if isinstance(node, ast.Import):
            # `import a.b` binds a; `import a.b as c` binds c to a.b.
            yield from (
                (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
                for alias in node.names
            )
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        prefix = _dotted(node.value)
        return prefix and f"{prefix}.{node.attr}"
    return None
