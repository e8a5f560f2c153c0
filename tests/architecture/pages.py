"""Reads the documents of the repository, and the comments that cite them, into what the rules about them look at."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

# A page, then its sections: docs/facts/manifold.md#bets, #account and #sizing.
_CITATION = re.compile(r"(docs/[\w/-]+\.md)((?:#[\w-]+(?:(?:,|,?\s+and)\s+#[\w-]+)*)?)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class DocumentPage:
    """One Markdown file of the repository."""

    root: Path
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(self.root).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def anchors(self) -> frozenset[str]:
        """The names of its sections in links, as GitHub makes them."""
        return frozenset(section_anchor(heading) for heading in _HEADING.findall(self.prose))

    @property
    def all_blocks(self) -> list[tuple[str, str]]:
        """The fenced blocks in order, each with its language."""
        return _FENCE.findall(self.text)

    def blocks(self, language: str) -> list[str]:
        """Return the fenced blocks of one language."""
        return [text for kind, text in self.all_blocks if kind == language]

    @property
    def code(self) -> list[str]:
        """The pieces of code in its prose."""
        return re.findall(r"`([^`\n]+)`", self.prose)

    @property
    def links(self) -> list[str]:
        """The targets of its links that are not on the web."""
        return [link for link in re.findall(r"\]\(([^)\s]+)\)", self.prose) if "://" not in link]


def section_anchor(heading: str) -> str:
    """Return the anchor of a heading: lower case, without marks, with hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def load_pages(root: Path) -> list[DocumentPage]:
    """Return README, CHANGELOG and every page in docs, sorted by path."""
    paths = [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]
    return [DocumentPage(root, path) for path in paths]


def cited_sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (page, anchor) of every citation in a text; the anchor is "" where the whole page is cited."""
    for page, sections in _CITATION.findall(text):
        anchors = re.findall(r"#([\w-]+)", sections)
        yield from ((page, anchor) for anchor in anchors or [""])


def broken_link(page: DocumentPage, link: str, pages: dict[Path, DocumentPage]) -> str | None:
    """Return what is wrong with a link of a page, None where it leads somewhere."""
    target, _, anchor = link.partition("#")
    path = (page.path.parent / target).resolve() if target else page.path
    if not path.exists():
        return f"{page.name}: {link} does not exist"
    if anchor and anchor not in pages[path].anchors:
        return f"{page.name}: {link} has no such section"
    return None


def comments_and_docstrings(source: str) -> Iterator[str]:
    """Yield what a source file says to its readers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def missing_name(root: Path, dotted: str) -> bool:
    """Say whether a dotted name of the engine, such as bot.core.questions.Question, is nowhere in it."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        folder = root.joinpath(*parts[:end])
        file = folder.with_suffix(".py") if folder.with_suffix(".py").is_file() else folder / "__init__.py"
        if file.is_file():
            return len(parts) > end and parts[end] not in _defined_names(file)
    return True


def _defined_names(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return names
