"""What an installation weighs and how long it takes: Foxcast from its lock, and its peer, each in a new environment."""

import re
import subprocess
import sys
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from time import monotonic

from tests.benchmarks.figures import ROOT, MeasureSize
from tests.benchmarks.whole_programs import PEER, machine_load, say_row

INSTALLER = ROOT / "install" / "install_locked.py"
LOCK = ROOT / "requirements.lock"
PEER_NAME = "forecasting-tools"
WEIGHT = re.compile(r": (\d+ packages, \d+ MB)")


def main(size: MeasureSize) -> None:
    """Measure and print everything; quick: only what is here."""
    load = machine_load()
    if size is MeasureSize.QUICK:
        say_row("installed: this environment, with tools", foxcast=_weigh(Path(sys.prefix)), load=load)
        return
    shown = {"foxcast": _install(LOCK)}
    if PEER.exists():
        shown["peer"] = _install(f"{PEER_NAME}=={_peer_version()}")
    say_row("installed, from the cache of uv where it has the files", **shown, wanted="520 MB", load=load)


def _install(what: Path | str) -> str:
    """Install a lock with its hashes, or a package with what it needs, in a new environment; return its weight."""
    with TemporaryDirectory() as place:
        environment = Path(place) / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        chosen = ["--require-hashes", "--no-deps", "-r", what] if isinstance(what, Path) else [what]
        command = [which("uv") or Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", *chosen]
        began = monotonic()
        subprocess.run([*command, "--python", environment / "bin" / "python"], check=True)
        took_s = monotonic() - began
        return f"{_weigh(environment)}, {took_s:.0f} s"


def _weigh(environment: Path) -> str:
    done = subprocess.run([sys.executable, INSTALLER, environment], capture_output=True, text=True, check=True)
    found = WEIGHT.search(done.stdout)
    return found[1] if found else done.stdout


def _peer_version() -> str:
    code = f"from importlib.metadata import version; print(version({PEER_NAME!r}))"
    return subprocess.run([PEER, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
