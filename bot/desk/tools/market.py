"""The prices of the market that a question is, as they moved before the cutoff."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.desk.leaks.caught import Caught
from bot.desk.notebook import Note
from bot.desk.parts import Gauge
from bot.desk.take import Take
from bot.desk.tools.scene import Scene
from bot.desk.tools.series import known_series, names_of, summary_of, table_of
from bot.desk.tools.tool import Cannot, Outcome, described
from bot.domain.prompt import Tool
from bot.domain.question import Question
from bot.domain.step import Json

NAME = "market_history"


@dataclass(frozen=True, slots=True)
class MarketHistory:
    """Reads the prices of the question from the gauge that serves its venue or source."""

    scene: Scene
    gauge: Gauge

    @property
    def tool(self) -> Tool:
        return described(NAME, "The past prices of the market that the question is about, up to the cutoff.")

    async def run(self, arguments: Mapping[str, Json], take: Take) -> Outcome:
        names = names_of(self.gauge, self.scene.question)
        if not names:
            message = "There are no prices of this question."
            raise Cannot(message)
        clamped = await known_series(self.gauge, names[0], self.scene, take)
        caught = Caught(clamped=clamped.beyond)
        if not clamped.series.values:
            message = "No price is known from before the cutoff."
            raise Cannot(message, caught=caught)
        parts = (caught.says("prices").capitalize(), self.scene.quoted(table_of(clamped.series), "prices", 20_000))
        return Outcome(text="\n".join(filter(None, parts)), data=summary_of(clamped.series), note=Note(caught=caught))


def price_gauge(question: Question, gauges: Mapping[str, Gauge]) -> Gauge | None:
    """Return the gauge for the prices of the question, by its venue or its source."""
    served = {question.ref.venue, question.source}
    return next((gauge for gauge in gauges.values() if served & gauge.spec.serves), None)
