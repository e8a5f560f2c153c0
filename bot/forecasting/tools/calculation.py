"""The calculate tool: runs a Python program in the calculator and shows what it printed."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.core.errors import FoxcastError
from bot.core.language_models import ToolDefinition
from bot.core.values import Json
from bot.forecasting.services import CalculationResult, PythonCalculator
from bot.forecasting.tools.base import ToolContext, describe_failure
from bot.forecasting.tools.definitions import define_tool, text_schema
from bot.forecasting.trial_tools import ToolCallError, ToolCallTrace, ToolOutcome
from bot.forecasting.untrusted_text import clean_text

CALCULATE = "calculate"
_CODE_CHARS = 4_000
_SHOWN_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class CalculateTool:
    """Runs code with its clock fixed at the cutoff and its random numbers seeded, so that each run gives the same."""

    context: ToolContext
    calculator: PythonCalculator

    @property
    def tool(self) -> ToolDefinition:
        return define_tool(
            CALCULATE,
            "Run a short Python program (no files, no network, a few seconds; of the library math, random, itertools, "
            "collections, datetime, decimal, json and re). You see what it prints and the value of its last line.",
            {"code": text_schema("The program.", _CODE_CHARS)},
            required=("code",),
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        try:
            found = await self.calculator.run(str(arguments["code"]), now=self.context.data_before)
        except FoxcastError as error:
            self.context.warn("calculation failed", "calculator", error)
            message = f"Nothing was calculated: {describe_failure(error)}."
            raise ToolCallError(message) from error
        return ToolOutcome(
            text=self._describe_result(found), data=found.value or found.printed, failed=bool(found.error)
        )

    def _describe_result(self, found: CalculationResult) -> str:
        """Return its output, fenced: the program may hold words of others, and print text that looks like a source."""
        parts = {"": found.printed, "value: ": found.value, "error: ": found.error}
        lines = [f"{name}{clean_text(text, _SHOWN_CHARS)}" for name, text in parts.items() if text]
        if not lines:
            return "It printed nothing, and its last line has no value."
        return self.context.fence("\n".join(lines), "what the program printed", len(parts) * (_SHOWN_CHARS + 100))
