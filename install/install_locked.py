"""Installs lock files into a virtual environment; says how far it is, and at the end what it installed and how long.

Uses uv where it is on the machine, else pip. Both take only files that have the hashes of the locks. Byte code is left
to the first start of each program, for most modules of the libraries are never loaded; where the environment forbids
to write it later it is written now. Needs the standard library alone.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

# A lock names all that is needed; what it leaves out on purpose would be fetched by a resolver.
LOCKED = ("--no-deps", "--require-hashes", "--only-binary", ":all:")
IN_PLACE = ("--no-deps", "--no-build-isolation", "--editable", ".")
# Says which package an installer works on.
WORKED_ON = re.compile(r"^(?:Collecting|Requirement already satisfied:) ([\w.-]+)")
# `make weight` compares with it.
RELEASED = Path(__file__).with_name("released_weight.json")
UNPACKING = "Installing collected packages"


def main() -> int:
    """Install the locks in their order, then this folder if wanted; return the exit code of an installer that fails."""
    parser = argparse.ArgumentParser(prog="install_locked.py", description="Install lock files, with progress.")
    parser.add_argument("environment", type=Path, help="folder of the virtual environment")
    parser.add_argument("locks", type=Path, nargs="*", metavar="LOCK", help="none: only weigh what is there")
    parser.add_argument("--installer", choices=["uv", "pip"], default="uv" if shutil.which("uv") else "pip")
    parser.add_argument("--in-place", action="store_true", help="install the project of this folder in place, too")
    options = parser.parse_args()
    began, command = time.monotonic(), find_installer(options.installer, options.environment / "bin" / "python")
    for lock in options.locks:
        count = len(re.findall(r"^[a-z][^ ]*==", lock.read_text("utf-8"), re.MULTILINE))
        write_line(f"{lock}: at most {count} packages, with {options.installer} ...")
        if code := run_installer([*command, *LOCKED, "-r", lock], count):
            write_line(
                f"{options.installer} failed; what it said is above. To use the other: make INSTALLER=pip (or uv)"
            )
            return code
    if options.in_place and (code := run_installer([*command, *IN_PLACE], 1)):
        return code
    took_s = time.monotonic() - began
    write_line(f"{options.environment}: {weigh(options.environment)}, {took_s:.0f} s with {options.installer}")
    if options.in_place:
        write_line(f"  {describe_release()}")
    return 0


def find_installer(name: str, python: Path) -> list[str | Path]:
    """Return the start of the command that installs into the environment of an interpreter."""
    now = "PYTHONDONTWRITEBYTECODE" in os.environ
    if name == "uv":
        return ["uv", "pip", "install", *(["--compile-bytecode"] if now else []), "--python", python]
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        subprocess.run([python, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
    return [python, "-m", "pip", "--disable-pip-version-check", "install", "--compile" if now else "--no-compile"]


def run_installer(command: list[str | Path], count: int) -> int:
    """Run an installer to its end; of the lines of pip only show the number and name of the package it works on."""
    if command[0] == "uv":
        return subprocess.run(command, check=False).returncode
    said, done = [], 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            said.append(line)
            if found := WORKED_ON.match(line):
                done += 1
                show_progress(f"  {done} of {count}: {found[1]}")
            elif line.startswith(UNPACKING):
                show_progress(f"  unpacking {done} packages ...")
    show_progress("")
    if process.returncode:
        sys.stdout.writelines(said)
    return process.returncode


def show_progress(text: str) -> None:
    """Replace the line of progress on a terminal; logs get no progress."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\x1b[K{text}")
        sys.stdout.flush()


def write_line(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def describe_release() -> str:
    """Return what an installation of the last release weighed, and how long it took on one machine."""
    known = json.loads(RELEASED.read_text("utf-8"))
    weight = f"{known['packages']} packages, {known['megabytes']} MB without byte code, {known['seconds']} s with uv"
    return f"release {known['release']}: {weight}"


def weigh(environment: Path) -> str:
    """Return the number of packages in an environment and the size of all its files, byte code included."""
    # Environments within this one are installations of their own.
    within = [config.parent for config in environment.glob("*/pyvenv.cfg")]
    files = [
        path
        for path in environment.rglob("*")
        if path.is_file() and not path.is_symlink() and not any(map(path.is_relative_to, within))
    ]
    packages = {path.parent for path in files if path.name == "METADATA" and path.parent.suffix == ".dist-info"}
    return f"{len(packages)} packages, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
