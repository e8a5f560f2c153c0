"""The tool that reads prices of the same question at other venues."""

from collections.abc import Mapping
from datetime import datetime

from bot.core.language_models import ToolDefinition
from bot.core.light_dataclass import dataclass
from bot.core.values import Json
from bot.forecasting.aggregation import summarize_prediction
from bot.forecasting.tools.base import ToolContext, define_tool
from bot.forecasting.trial_tools import ToolCallTrace, ToolOutcome
from bot.store.question_pairs import PairedPrice, PairUse, QuestionPairStore

PAIRED_PRICES = "paired_prices"
_TITLE_CHARS = 300


def describe_paired_price(price: PairedPrice, now: datetime) -> str:
    """Return in one line where a price comes from, its age, spread and liquidity, and how the questions differ."""
    hours = max(0.0, (now - price.at).total_seconds() / 3600.0)
    parts = [f"{summarize_prediction(price.prediction)} at {price.ref}", f"unchanged for {hours:.1f} h"]
    parts += [f"spread {price.spread:.3f}"] if price.spread is not None else []
    parts += [f"liquidity {price.liquidity:,.0f}"] if price.liquidity is not None else []
    parts += [f"its question differs: {price.differences}"] if price.differences else []
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class PairedPricesTool:
    """Shows the newest prices of the same question elsewhere, as they were known before the cutoff."""

    context: ToolContext
    pairs: QuestionPairStore
    use: PairUse

    @property
    def tool(self) -> ToolDefinition:
        """Its definition."""
        return define_tool(
            PAIRED_PRICES,
            "The price of the same question at other venues, with its age, spread and liquidity, and how they differ.",
        )

    async def run(self, arguments: Mapping[str, Json], trace: ToolCallTrace) -> ToolOutcome:
        """Read the prices."""
        context = self.context
        found = await self.pairs.paired_prices(context.question, use=self.use, before=context.data_before)
        if not found:
            return ToolOutcome(text="No other venue is known to ask the same.", data=0)
        lines = [
            f"{describe_paired_price(one, context.data_before)}; there it reads: "
            f"{context.clean(' '.join(one.title.split()), _TITLE_CHARS)}"
            for one in found
        ]
        text = context.fence("\n".join(lines), "prices at other venues", context.section.passage_chars)
        return ToolOutcome(text=text, data=len(found))
