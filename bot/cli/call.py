"""What stands before the command: the options that all commands share. Imports nothing, so that ``--help`` is fast."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Call:
    """One call of ``foxcast``, filled in as its options are read: where the configuration is, and how errors look."""

    config_path: Path | None = None
    debug: bool = False
