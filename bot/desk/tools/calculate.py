"""Arithmetic for those who are bad at it: a piece of Python that can reach nothing, told by its output."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.desk.parts import Calculator, Sum
from bot.desk.take import Take
from bot.desk.tools.scene import Scene
from bot.desk.tools.tool import Cannot, Outcome, described, reason, text_of
from bot.desk.untrusted import plain
from bot.domain.prompt import Tool
from bot.domain.step import Json
from bot.errors import FoxcastError

NAME = "calculate"
_CODE_CHARS = 4_000
_SHOWN_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class Calculate:
    """Runs code with its clock standing at the cutoff and its chance seeded, so that it comes to the same each time."""

    scene: Scene
    calculator: Calculator

    @property
    def tool(self) -> Tool:
        return described(
            NAME,
            "Run a short Python program (no files, no network, a few seconds; of the library math, random, itertools, "
            "collections, datetime, decimal, json and re). You see what it prints and the value of its last line.",
            {"code": text_of("The program.", _CODE_CHARS)},
            required=("code",),
        )

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        try:
            found = await self.calculator.run(str(arguments["code"]), now=self.scene.bound)
        except FoxcastError as error:
            self.scene.warn("calculation failed", "calculator", error)
            message = f"Nothing was calculated: {reason(error)}."
            raise Cannot(message) from error
        return Outcome(text=self._told(found), data=found.value or found.printed, failed=bool(found.error))

    def _told(self, found: Sum) -> str:
        """Return what came of it, fenced: the program may hold words of others, and print what looks like a source."""
        parts = {"": found.printed, "value: ": found.value, "error: ": found.error}
        said = [f"{name}{plain(text, _SHOWN_CHARS)}" for name, text in parts.items() if text]
        if not said:
            return "It printed nothing, and its last line has no value."
        return self.scene.quoted("\n".join(said), "what the program printed", len(parts) * (_SHOWN_CHARS + 100))
