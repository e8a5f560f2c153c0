"""The lock files, and what is installed: versions pinned and hashed, nothing that runs unasked, files as published."""

import base64
import hashlib
import re
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import ROOT
from tests.installed_weight import CHANGELOG, InstalledWeight, find_unsaid_growth, read_released, weigh_installation

PINNED = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?: ; [^\\]+)? \\(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+$"
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = (ROOT / "requirements.lock").read_text()
TOOLS = (ROOT / "tests" / "requirements.lock").read_text()
# A .pth file runs at each start of the interpreter, whatever is imported: in 2026 one such file stole credentials.
PTH = {
    "distutils-precedence.pth",  # setuptools
    "a1_coverage.pth",  # coverage, for subprocesses
    "_foxcast.pth",  # this project, installed in place
}
# Stole credentials, or fail in a plain install on a call with tools or on one that is repeated.
BAD_LITELLM = ("1.82.7", "1.82.8", "1.92.0", "1.102.4", "1.103.0", "1.104.0", "1.105.0", "1.106.0", "1.106.2")


def entries(lock: str) -> list[str]:
    """Return the requirements of a lock with their hashes, without comments."""
    text = "\n".join(line for line in lock.splitlines() if not line.lstrip().startswith("#"))
    return re.split(r"\n(?=\S)", text.strip())


def pins(lock: str) -> dict[str, set[str]]:
    """Return the versions by name; a name has several where they depend on the Python version or the system."""
    found: dict[str, set[str]] = {}
    for entry in entries(lock):
        if match := PINNED.match(entry):
            found.setdefault(match["name"], set()).add(match["version"])
    return found


def wanted(group: str) -> Iterator[Requirement]:
    """Yield the requirements of a dependency group, with those of the groups it includes."""
    members: list[Any] = PROJECT["dependency-groups"][group]
    for member in members:
        if isinstance(member, str):
            yield Requirement(member)
        else:
            yield from wanted(member["include-group"])


def unmet(requirements: list[Requirement], lock: str) -> list[str]:
    """Return the requirements that the lock does not hold, or holds in a version they refuse."""
    held = pins(lock)
    return [
        str(wish)
        for wish in requirements
        if not (versions := held.get(canonicalize_name(wish.name)))
        or not all(wish.specifier.contains(version) for version in versions)
    ]


def altered(distribution: metadata.Distribution) -> list[str]:
    """Return the files of a distribution that are gone or not as its RECORD says, and those it does not list."""
    listed = {Path(str(file.locate())).resolve(): file for file in distribution.files or ()}
    faults = [str(file) for path, file in listed.items() if file.hash and digest(path) != file.hash.value]
    folders = {path.parent for path in listed if path.name == "__init__.py"}
    found = {path for folder in folders for path in folder.iterdir() if path.suffix in {".py", ".so", ".pth"}}
    return [*faults, *map(str, sorted(found - listed.keys()))]


def digest(path: Path) -> str | None:
    """Return the SHA-256 as RECORD writes it, None for a file that is not there."""
    if not path.is_file():
        return None
    return base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()


@pytest.mark.parametrize("lock", [RUNTIME, TOOLS], ids=["runtime", "tools"])
def test_every_line_of_a_lock_is_a_version_with_hashes(lock: str) -> None:
    assert [entry for entry in entries(lock) if not PINNED.match(entry)] == []


def test_the_locks_hold_what_the_project_asks_for() -> None:
    program = [*map(Requirement, PROJECT["project"]["dependencies"]), *wanted("build")]
    assert unmet(program, RUNTIME) == []
    assert unmet([*program, *wanted("dev")], TOOLS) == []


def test_tests_run_on_the_versions_that_users_install() -> None:
    held = pins(TOOLS)
    assert {name: held.get(name) for name in pins(RUNTIME)} == pins(RUNTIME)


def test_nothing_installed_runs_at_the_start_of_the_interpreter_but_what_is_known() -> None:
    folders = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    lying = {path.name for folder in folders for path in folder.glob("*.pth")}
    shipped = {file.name for one in metadata.distributions() for file in one.files or () if file.suffix == ".pth"}
    assert (lying | shipped) - PTH == set()


def test_the_library_for_models_is_as_it_was_published() -> None:
    assert altered(metadata.distribution("litellm")) == []


def test_no_version_of_it_that_is_known_to_be_bad_can_be_installed() -> None:
    (wish,) = [wish for wish in map(Requirement, PROJECT["project"]["dependencies"]) if wish.name == "litellm"]
    assert [version for version in BAD_LITELLM if wish.specifier.contains(version)] == []
    assert pins(RUNTIME)["litellm"].isdisjoint(BAD_LITELLM)


@pytest.mark.parametrize("change", ["edit", "removal", "addition"])
def test_a_changed_file_is_found(change: str, tmp_path: Path) -> None:
    package, info = tmp_path / "lantern", tmp_path / "lantern-1.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("x = 1")
    (info / "RECORD").write_text(f"lantern/__init__.py,sha256={digest(package / '__init__.py')},5\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lantern\nVersion: 1\n")
    distribution = metadata.PathDistribution(info)
    assert altered(distribution) == []
    if change == "edit":
        (package / "__init__.py").write_text("x = 2")
    elif change == "removal":
        (package / "__init__.py").unlink()
    else:
        (package / "extra.pth").write_text("import os")
    assert len(altered(distribution)) == 1


@pytest.mark.parametrize(
    "line",
    ["--index-url https://example.org/simple", "numpy==2.0", "numpy @ https://example.org/numpy.whl", "numpy>=2"],
)
def test_an_address_or_a_version_without_a_hash_is_found(line: str) -> None:
    assert PINNED.match(line) is None


def test_a_missing_or_refused_version_is_found() -> None:
    lock = f"numpy==2.0 \\\n    --hash=sha256:{'0' * 64}\n    # via scipy\n"
    wishes = [Requirement("numpy>=2.0"), Requirement("numpy>=2.1"), Requirement("scipy")]
    assert unmet(wishes, lock) == ["numpy>=2.1", "scipy"]


@pytest.mark.skipif(sys.platform != "linux", reason="files of other systems have other sizes")
def test_the_changelog_names_growth_of_an_installation() -> None:
    assert find_unsaid_growth(weigh_installation(0), read_released(), CHANGELOG.read_text("utf-8")) is None


def test_growth_must_be_in_the_section_unreleased_with_its_figure() -> None:
    released = InstalledWeight(release="1.0", packages=94, megabytes=445, seconds=20)
    text = "# Changelog\n\n## Unreleased\n\n- {}\n\n## 1.0\n\n- An installation has 480 MB, 100 packages.\n"
    grown = replace(released, megabytes=480)
    assert find_unsaid_growth(replace(released, packages=98, megabytes=467), released, "") is None
    assert find_unsaid_growth(replace(released, packages=99), released, text) is not None
    assert "480 MB instead of 445" in str(find_unsaid_growth(grown, released, text))
    assert find_unsaid_growth(grown, released, text.format("Backups of 480 MB are faster.")) is not None
    assert find_unsaid_growth(grown, released, text.format("An installation has 478 MB instead of\n  445.")) is None
