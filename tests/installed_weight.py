"""What a runtime installation weighs next to the last release: growth of more than 5 % belongs in the changelog.

Counted are the packages of ``requirements.lock`` that are installed here, and their files without byte code, which
depends on what was run. Seconds depend on the machine and its network: installations print them, nothing checks them.
"""

import argparse
import json
import re
import sys
import tomllib
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
RELEASED = ROOT / "install" / "released_weight.json"
CHANGELOG = ROOT / "CHANGELOG.md"
MAX_GROWTH = 1.05
_PINNED_NAME = re.compile(r"^([a-z0-9-]+)==", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledWeight:
    """The number of packages and the size of their files in MB of 1,000,000 bytes; seconds are those of one machine."""

    release: str
    packages: int
    megabytes: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.packages} packages, {self.megabytes} MB"


def read_released() -> InstalledWeight:
    """Return the figures of the last release."""
    return InstalledWeight(**json.loads(RELEASED.read_text("utf-8")))


def weigh_installation(seconds: int) -> InstalledWeight:
    """Return the figures of what is installed here of the runtime's lock."""
    size, packages = 0, 0
    for name in {*_PINNED_NAME.findall(LOCK.read_text("utf-8"))}:
        try:
            files = metadata.distribution(name).files or ()
        except metadata.PackageNotFoundError:
            continue  # for another system or version of Python
        packages += 1
        paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
        size += sum(path.stat().st_size for path in paths if path.is_file())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return InstalledWeight(release=version, packages=packages, megabytes=round(size / 1e6), seconds=seconds)


def find_unsaid_growth(now: InstalledWeight, released: InstalledWeight, changelog: str) -> str | None:
    """Return what to do about growth that the section Unreleased of the changelog does not name; None if all is well.

    It names the growth with a sentence that has the word installation and the new figure, to within 5 %.
    """
    unreleased = " ".join(changelog.partition("## Unreleased")[2].partition("\n## ")[0].split())
    sentences = [one for one in re.split(r"(?<=[.;:])\s", unreleased) if "installation" in one.lower()]
    compared = {"packages": (now.packages, released.packages), "MB": (now.megabytes, released.megabytes)}
    for unit, (figure, before) in compared.items():
        named = [int(found) for one in sentences for found in re.findall(rf"(\d+) {unit}\b", one)]
        if figure > MAX_GROWTH * before and not any(abs(one - figure) <= 0.05 * figure for one in named):
            sentence = f"An installation has {figure} {unit} instead of {before} in release {released.release}."
            return f"{sentence} Drop what brings them, or say so in CHANGELOG.md under Unreleased."
    return None


def main() -> int:
    """Print both weights, and record this one if asked to; return 1 for growth that the changelog does not name."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.installed_weight", description="Compare with the last release."
    )
    parser.add_argument("--record", action="store_true", help="this is the release: keep its figures")
    parser.add_argument("--seconds", type=int, help="what a new installation took; left out: as recorded")
    options = parser.parse_args()
    released = read_released()
    now = weigh_installation(released.seconds if options.seconds is None else options.seconds)
    sys.stdout.write(f"now: {now}\nrelease {released.release}: {released}\n")
    if options.record:
        RELEASED.write_text(json.dumps(asdict(now), indent=2) + "\n", "utf-8")
        return 0
    growth = find_unsaid_growth(now, released, CHANGELOG.read_text("utf-8"))
    if growth:
        sys.stderr.write(f"{growth}\n")
    return 1 if growth else 0


if __name__ == "__main__":
    sys.exit(main())
