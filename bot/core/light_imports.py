"""Imports of libraries without others that they load wherever those are installed."""

import sys
from importlib import import_module
from types import ModuleType


def import_without(module: str, *unwanted: str) -> ModuleType:
    """Import a module as if the unwanted ones were not installed; one that is loaded already stays.

    A name that is None in ``sys.modules`` cannot be imported: docs.python.org, "The import system", "The module cache".
    """
    hidden = dict.fromkeys(set(unwanted) - sys.modules.keys())
    sys.modules.update(hidden)  # type: ignore[arg-type]
    try:
        return import_module(module)
    finally:
        for name in hidden:
            del sys.modules[name]
