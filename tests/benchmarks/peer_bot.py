"""The peer of the measurements: the template bot of forecasting-tools, unchanged, on questions made here.

``make bench-peer`` makes its environment; the arguments are the number of questions, the address of the models, and
how many questions are in work at once (0: as it is shipped, which limits its research alone). The template makes five
calls a question: research, summary, forecast, and two that parse the forecast.
"""

import asyncio
import logging
import sys
from typing import Any

from forecasting_tools import (  # type: ignore[import-not-found]  # in the environment of the peer
    BinaryQuestion,
    GeneralLlm,
    TemplateBot,
)

ROLES = ("default", "summarizer", "researcher", "parser")
CRITERIA = "Resolves to yes if the keeper of the harbour says in public that the lamp was lit before the date. " * 4


class LimitedTemplateBot(TemplateBot):  # type: ignore[misc]  # as above
    """The template with so many questions in work at once."""

    questions_at_once = asyncio.Semaphore(1)
    _concurrency_limiter = asyncio.Semaphore(1_000_000)

    async def _run_individual_question(self, question: BinaryQuestion) -> Any:
        async with self.questions_at_once:
            return await super()._run_individual_question(question)


def main() -> int:
    """Forecast the questions; return 1 where one of them has no forecast."""
    count, base_url, at_once = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    logging.disable(logging.CRITICAL)
    kind = LimitedTemplateBot if at_once else TemplateBot
    LimitedTemplateBot.questions_at_once = asyncio.Semaphore(at_once or 1)
    model = GeneralLlm(model="openai/mock", base_url=base_url, api_key="none", temperature=None, timeout=120)
    bot = kind(research_reports_per_question=1, predictions_per_research_report=1, llms=dict.fromkeys(ROLES, model))
    questions = [
        BinaryQuestion(
            question_text=f"Will lamp {number} of the harbour be lit this month?",
            id_of_post=number,
            page_url=f"https://harbour.example/{number}",
            resolution_criteria=CRITERIA,
            background_info="",
            fine_print="",
        )
        for number in range(count)
    ]
    reports = asyncio.run(bot.forecast_questions(questions, return_exceptions=True))
    broken = [report for report in reports if isinstance(report, BaseException)]
    if broken:
        sys.stderr.write(f"{len(broken)} of {count} questions failed: {broken[0]}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
