"""Changes the modules that spend or send, one small change at a time, and sees whether the tests notice.

Each part of `parts.toml` has a folder in `state/mutation`, where mutmut begins where it stopped: it tests again only
what has no result yet or was changed since. A survivor is a change that no test notices. `equivalents.toml` lists those
that change no behaviour, each with its reason; of all others at least 95 % of each part must be noticed.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "state" / "mutation"
PARTS_FILE, EQUIVALENTS_FILE = (Path(__file__).with_name(name) for name in ("parts.toml", "equivalents.toml"))
WANTED_SHARE = 0.95
# What the tests need beside the packages; mutmut copies it next to the changed sources.
NEEDED = ("foxcast.py", "config.toml", "docs", "Makefile", "requirements.lock", "install")
SOURCES = ("bot", "plugins")
PYTEST_OPTIONS = ("-p", "no:xdist", "-p", "no:cacheprovider", "--timeout=300", "--ignore-glob=*/test_kills.py")
# Exit codes of mutmut's workers.
SURVIVED, NOT_CHECKED, NO_TESTS = 0, None, 33


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationPart:
    """Modules that are changed, as patterns, and the tests that must notice; ``folder`` keeps the results."""

    name: str
    folder: Path
    modules: tuple[str, ...]
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class MutantChange:
    """A change of a function: the lines that it removes and those that it adds."""

    function: str
    was: str
    becomes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleResult:
    """How many mutants of a module were made, noticed, accepted and not tested, and those that nothing noticed."""

    module: str
    mutants: int
    killed: int
    equivalent: int
    unchecked: int
    alive: tuple[MutantChange, ...]


def read_parts() -> list[MutationPart]:
    """Return all parts."""
    tables = tomllib.loads(PARTS_FILE.read_text())
    return [
        MutationPart(name=name, folder=FOLDER / name, modules=tuple(table["modules"]), tests=tuple(table["tests"]))
        for name, table in tables.items()
    ]


def read_equivalents() -> dict[MutantChange, str]:
    """Return the accepted changes with their reasons."""
    listed = tomllib.loads(EQUIVALENTS_FILE.read_text()).get("equivalent", [])
    return {MutantChange(one["function"], one["was"], one["becomes"]): one["reason"] for one in listed}


def prepare_folder(part: MutationPart, root: Path) -> None:
    """Make the folder of a part: links to the sources, and the project's settings with those of mutmut."""
    part.folder.mkdir(parents=True, exist_ok=True)
    links = {name: root / name for name in (*SOURCES, "tests", *NEEDED)} | {"shared": root.parent / "shared"}
    for name, target in links.items():
        link = part.folder / name
        if not link.is_symlink():
            link.symlink_to(target)
    lists = {
        "source_paths": SOURCES,
        "only_mutate": part.modules,
        "also_copy": NEEDED,
        "do_not_mutate_patterns": ("message = ", r"raise \w+", r"log\.\w+\("),
        "pytest_add_cli_args_test_selection": part.tests,
        "pytest_add_cli_args": PYTEST_OPTIONS,
    }
    table = "".join(f"{name} = {json.dumps(values)}\n" for name, values in lists.items())
    project = (root / "pyproject.toml").read_text()
    text = f"{project}\n[tool.mutmut]\n{table}use_git_change_detection = false\n"
    if not (part.folder / "pyproject.toml").exists() or (part.folder / "pyproject.toml").read_text() != text:
        (part.folder / "pyproject.toml").write_text(text)


def run_part(part: MutationPart, *, root: Path = ROOT, seconds: float | None = None, share: float = 1.0) -> bool:
    """Test the mutants of a part that have no result yet, or a share of them.

    Returns whether mutmut did, also if the time was over.
    """
    prepare_folder(part, root)
    # Tests that were changed or removed are not to be found as they were.
    shutil.rmtree(part.folder / "mutants" / "tests", ignore_errors=True)
    program = str(Path(__file__).with_name("mutmut_run.py"))
    command = [sys.executable, program, str(share), "run", "--max-children", "1"]
    environment = {**os.environ, "CI": "1"}
    process = subprocess.Popen(command, cwd=part.folder, env=environment, start_new_session=True)
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()
        return True


def forget_survivors(part: MutationPart, equivalents: Mapping[MutantChange, str]) -> None:
    """Have the survivors tested again that are not accepted: tests may have been added, or run other functions now."""
    (part.folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    for file in (part.folder / "mutants").rglob("*.py.meta"):
        meta, source = json.loads(file.read_text()), file.relative_to(part.folder / "mutants").with_suffix("")
        codes = meta["exit_code_by_key"]
        lived = [name for name, code in codes.items() if code in {SURVIVED, NO_TESTS}]
        for name in lived:
            if _read_change(part.folder, source, name) not in equivalents:
                codes[name] = NOT_CHECKED
        file.write_text(json.dumps(meta))


def read_results(part: MutationPart, equivalents: Mapping[MutantChange, str]) -> list[ModuleResult]:
    """Return the results of the modules of a part."""
    results = []
    for file in sorted((part.folder / "mutants").rglob("*.py.meta")):
        codes: Mapping[str, int | None] = json.loads(file.read_text())["exit_code_by_key"]
        source = file.relative_to(part.folder / "mutants").with_suffix("")
        if not codes or not any(source.match(pattern) for pattern in part.modules):
            continue
        lived = {name for name, code in codes.items() if code in {SURVIVED, NO_TESTS}}
        changes = sorted(_read_change(part.folder, source, name) for name in lived)
        alive = tuple(change for change in changes if change not in equivalents)
        unchecked = sum(code is NOT_CHECKED for code in codes.values())
        results.append(
            ModuleResult(
                module=str(source),
                mutants=len(codes),
                killed=len(codes) - len(lived) - unchecked,
                equivalent=len(changes) - len(alive),
                unchecked=unchecked,
                alive=alive,
            )
        )
    return results


def _read_change(folder: Path, source: Path, name: str) -> MutantChange:
    """Return what a mutant changes, from the file with all mutants that mutmut wrote."""
    mangled, _, _ = name.rpartition("__mutmut_")
    original, changed = _read_function(folder, source, f"{mangled}__mutmut_orig"), _read_function(folder, source, name)
    while original and changed and original[-1] == changed[-1]:
        original, changed = original[:-1], changed[:-1]
    while original and changed and original[0] == changed[0]:
        original, changed = original[1:], changed[1:]
    module, _, function = mangled.rpartition(".")
    path = function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    return MutantChange(f"{module}.{path}", " ".join(original), " ".join(changed))


def _read_function(folder: Path, source: Path, name: str) -> list[str]:
    """Return the lines of a function after the one with its name, without indentation."""
    mutants = folder / "mutants"
    start, end = json.loads((mutants / f"{source}.spans").read_text())["spans"][name.rpartition(".")[2]]
    lines = [line.strip() for line in (mutants / source).read_text().splitlines()[start - 1 : end]]
    mangled = name.rpartition(".")[2]
    plain = mangled.partition("__mutmut_")[0].removeprefix("x_").rpartition("ǁ")[2]
    return [line.replace(mangled, plain) for line in lines]


def format_results(results: Sequence[ModuleResult]) -> Iterator[str]:
    """Yield a table, then each survivor."""
    yield f"{'module':44} {'mutants':>8} {'killed':>8} {'equivalent':>10} {'alive':>6} {'unchecked':>9}"
    for one in results:
        figures = f"{one.mutants:8} {one.killed:8} {one.equivalent:10} {len(one.alive):6} {one.unchecked:9}"
        yield f"{one.module:44} {figures}"
    for one in results:
        for change in one.alive:
            yield f"{change.function}\n  - {change.was}\n  + {change.becomes}"


def find_shortfalls(results: Sequence[ModuleResult], *, sampled: bool = False) -> list[str]:
    """Return a line for each module of which too few changes were noticed, and for all that was not tested.

    Of a sample, the rest need not be tested.
    """
    lines = []
    for one in results:
        tested = one.killed + len(one.alive)
        if one.killed < WANTED_SHARE * tested:
            lines.append(f"{one.module}: {one.killed} of {tested} changes were noticed, {WANTED_SHARE:.0%} are wanted")
    unchecked = sum(one.unchecked for one in results)
    return [
        *lines,
        *([f"{unchecked} mutants were not tested yet: run make mutate again"] if unchecked and not sampled else []),
    ]


def main() -> int:
    """Run what the command line asks for; 1 if too little was noticed or not all was tested."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation_testing", description="Test the tests.")
    parts = read_parts()
    parser.add_argument("--part", nargs="*", choices=[part.name for part in parts], help="these parts only")
    parser.add_argument("--minutes", type=float, help="stop after so long; the next run begins there")
    parser.add_argument("--share", type=float, default=1.0, help="test this share of the mutants, always the same ones")
    parser.add_argument("--survivors", action="store_true", help="test the survivors again first")
    parser.add_argument("--report", action="store_true", help="only show the results so far")
    options = parser.parse_args()
    by_name = {part.name: part for part in parts}
    chosen = parts if options.part is None else [by_name[name] for name in options.part]
    equivalents = read_equivalents()
    end = None if options.minutes is None else monotonic() + 60 * options.minutes
    failed = []
    for part in () if options.report else chosen:
        left = None if end is None else max(1.0, end - monotonic())
        if options.survivors:
            forget_survivors(part, equivalents)
        if (end is None or monotonic() < end) and not run_part(part, seconds=left, share=options.share):
            failed.append(f"{part.name}: mutmut failed; see above")
    if not (ROOT.parent / "shared").is_dir():
        sys.stdout.write(
            "tests with reference data were skipped, so more survives: put the folder shared/ beside this one\n"
        )
    results = [result for part in chosen for result in read_results(part, equivalents)]
    sys.stdout.writelines(f"{line}\n" for line in format_results(results))
    shortfalls = [*failed, *find_shortfalls(results, sampled=options.share < 1)]
    sys.stdout.writelines(f"{line}\n" for line in shortfalls)
    return 1 if shortfalls or not results else 0


if __name__ == "__main__":
    sys.exit(main())
