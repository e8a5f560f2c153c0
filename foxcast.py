"""Starts Foxcast with the packages of its own installation: those beside this file.

A folder ``bot`` or ``plugins`` in the working directory or on PYTHONPATH would otherwise be imported in their place.
``foxcast`` and ``python -m foxcast`` start here, and so do the child processes of ``bot.core.child_process``.
"""

import gc
import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder

ROOT = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib takes longer to load than all of this
PACKAGES = ("bot", "plugins")


def main() -> int:
    """Run the command of this process and return its exit code."""
    # Imports leave 1.4 MB of garbage. Searching for it took a tenth of the start. The command starts the
    # collector again.
    gc.disable()
    use_own_packages()
    from bot.core.light_imports import import_without  # noqa: PLC0415 - found only now

    # It shows tracebacks in colour by rich, which takes 5 MB; ours are plain.
    import_without("structlog", "rich")
    from bot.cli.main import main as run_command  # noqa: PLC0415 - found only now

    return run_command()


def run_child() -> None:
    """Run the function that the command line of a child process names, and exit with what it returns."""
    _, folder, entry_point, *arguments = sys.argv
    sys.path.remove(folder)
    sys.argv[1:] = arguments
    use_own_packages()
    module, _, function = entry_point.partition(":")
    sys.exit(getattr(import_module(module), function)())


def use_own_packages() -> None:
    """Move each folder that holds other packages of our names behind our own folder on the module path.

    What else such a folder holds can still be imported. Processes of multiprocessing inherit this path.
    """
    others = [entry for entry in sys.path if _hides_packages(entry)]
    kept = [entry for entry in sys.path if entry not in others]
    own = [] if any(map(_is_root, kept)) else [ROOT]
    sys.path[:] = [*kept, *own, *others]


def _hides_packages(entry: str) -> bool:
    if _is_root(entry):
        return False
    found = (PathFinder.find_spec(name, [entry]) for name in PACKAGES)
    # A folder without __init__.py has no origin: it hides no package that has one.
    return any(spec is not None and spec.origin is not None for spec in found)


def _is_root(entry: str) -> bool:
    return os.path.realpath(entry) == ROOT


if __name__ == "__main__":
    sys.exit(main())
