"""What stands before the command: the options that all commands share. Imports little, so that ``--help`` is fast."""

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Call:
    """One call of ``foxcast``, filled in as its options are read: where the configuration is, and how errors look.

    ``given`` are its arguments as they were typed.
    """

    config_path: Path | None = None
    debug: bool = False
    given: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """How to call the program again: by its name where the shell finds it, else by its place."""
        place = Path(sys.argv[0])
        if shutil.which(place.name):
            return place.name
        return str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)

    @property
    def again(self) -> str:
        """The same command line once more, for a shell."""
        return shlex.join([self.program, *self.given])

    def next(self, *arguments: str) -> str:
        """Return another command line for a shell, with the configuration that this call was given."""
        config = () if self.config_path is None else ("--config", str(self.config_path))
        return shlex.join([self.program, *config, *arguments])
