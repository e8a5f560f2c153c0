"""Command lines of the processes that Foxcast starts to run code of its own.

Each runs the code of the installation that this process belongs to, whatever the working directory contains.
"""

import sys
from pathlib import Path

# The folder of foxcast.py and of the packages bot and plugins.
INSTALLATION_FOLDER = Path(__file__).resolve().parents[2]
# For a child that must not get keys and settings.
MINIMAL_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
_START_CODE = "import sys; sys.path.insert(0, sys.argv[1]); import foxcast; foxcast.run_child()"


def child_command(entry_point: str, *arguments: str, is_isolated: bool = False) -> list[str]:
    """Return the command line of a process that calls the function of an entry point, written ``module:function``.

    Its return value is the exit code, and ``arguments`` are in ``sys.argv`` there. An isolated child takes nothing
    from the environment: neither PYTHONPATH nor packages of the user.
    """
    option = "-I" if is_isolated else "-P"
    return [sys.executable, option, "-c", _START_CODE, str(INSTALLATION_FOLDER), entry_point, *arguments]
