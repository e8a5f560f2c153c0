"""The lock files: every version pinned and hashed, from no named address, and what pyproject.toml asks for."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.source import ROOT

PINNED = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?: ; [^\\]+)? \\(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+$"
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = (ROOT / "requirements.lock").read_text()
TOOLS = (ROOT / "tests" / "requirements.lock").read_text()


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
