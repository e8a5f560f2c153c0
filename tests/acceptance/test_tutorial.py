"""The tutorial as a reader follows it: every block of both pages in order, and the contract kits on what they built."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.acceptance.conftest import FoxcastInstallation, InProcessCommand
from tests.architecture.pages import DocumentPage
from tests.architecture.source import ROOT

PAGES = [DocumentPage(ROOT, ROOT / "docs" / f"{name}.md") for name in ("venue-tutorial", "venue-tutorial-orders")]
FORECASTER = DocumentPage(ROOT, ROOT / "docs" / "writing-a-plugin.md")
SHOWN_ADDRESS = "http://127.0.0.1:8000"
BLOCKS = [block for page in PAGES for block in page.all_blocks]
KIT_COMMAND = ["pytest", "-o", "asyncio_mode=auto", "test_lark.py"]


def file_part(block: str) -> tuple[str, str]:
    """Return the file that a block of Python belongs to, and its code."""
    name, code = block.split("\n", 1)
    assert name in {"# lark.py", "# test_lark.py"}
    return name.removeprefix("# "), code


def import_file(name: str) -> ModuleType:
    """Execute all blocks of a file in order, as an import of the file does."""
    parts = [file_part(text) for kind, text in BLOCKS if kind == "python"]
    module = ModuleType(name.removesuffix(".py"))
    sys.modules[module.__name__] = module
    exec(compile("".join(code for of, code in parts if of == name), name, "exec"), module.__dict__)  # noqa: S102 - of our own page
    return module


# The kits of the tutorial run here, one test each: a second process of pytest would take seconds only to start.
import_file("lark.py")
globals().update({name: kit for name, kit in vars(import_file("test_lark.py")).items() if name.startswith("Test")})


@contextmanager
def serve(command: list[str]) -> Iterator[str]:
    """Run the command that starts the exchange; yield the address that it prints."""
    assert command[:2] == ["python", "-m"]
    with subprocess.Popen([sys.executable, *command[1:]], stdout=subprocess.PIPE, text=True) as exchange:
        assert exchange.stdout is not None
        yield exchange.stdout.readline().strip()
        exchange.kill()


def shown_commands(block: str) -> list[list[str]]:
    return [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]


@pytest.mark.timeout(120)
def test_every_block_works_in_order(tmp_path: Path, run_command: InProcessCommand) -> None:
    output: list[str] = []
    (tmp_path / "ember.py").write_text(*FORECASTER.blocks("python"))
    foxcast = FoxcastInstallation(tmp_path, {"FOXCAST_VENUES__LARK__PAPER__DELAY_S": "0"})
    first, *rest = BLOCKS
    [start] = shown_commands(first[1])
    with serve(start) as address:
        for kind, text in rest:
            if kind == "console":
                commands = [words for words in shown_commands(text) if words != KIT_COMMAND]
                output += [run(foxcast, run_command, words) for words in commands]
            else:
                write_block(foxcast, kind, text.replace(SHOWN_ADDRESS, address))
    listed, read, questions, traded, portfolio = output
    assert "venue lark" in listed
    assert "3 questions seen" in read
    assert "3 forecasts made" in read
    assert all(f"lark:{name}" in questions for name in ("rain", "ice", "match"))
    assert "3 planned, 0 held, 3 acknowledged" in traded, traded
    assert "Positions (3)" in portfolio


def write_block(foxcast: FoxcastInstallation, kind: str, text: str) -> None:
    """Append a block of Python to its file, or put settings above those of earlier blocks."""
    if kind == "python":
        name, code = file_part(text)
        with (foxcast.folder / name).open("a") as file:
            file.write(code)
    else:
        earlier = foxcast.config.read_text() if foxcast.config.exists() else ""
        foxcast.config.write_text(text + earlier)


def run(foxcast: FoxcastInstallation, run_command: InProcessCommand, words: list[str]) -> str:
    done = run_command(foxcast, *words[1:])
    assert (words[0], done.code) == ("foxcast", 0), done.err
    return done.out
