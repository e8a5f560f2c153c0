"""The words and numbers of the venue's documented formats, shared by its readers and by its validator.

Source: docs/facts/forecastbench.md#question-set, #resolution-set and #forecast-set.
"""

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from bot.api import QuestionRef

VENUE = "forecastbench"
MARKET_FAMILY = "market"
DATASET_FAMILY = "dataset"
MARKET_SOURCES = frozenset({"infer", "manifold", "metaculus", "polymarket"})
DATASET_SOURCES = frozenset({"acled", "dbnomics", "fred", "wikipedia", "yfinance"})
SOURCES_BY_FAMILY = {MARKET_FAMILY: MARKET_SOURCES, DATASET_FAMILY: DATASET_SOURCES}
HORIZON_DAYS = (7, 30, 90, 180, 365, 1095, 1825, 3650)
MISSING_VALUE = "N/A"
MAX_MISSING_SHARE = 0.05

# Ten times the largest published set; a decompression bomb stops here.
MAX_FILE_BYTES = 16 * 1024 * 1024


@lru_cache(maxsize=1024)
def start_of_day(day: date) -> datetime:
    """Return the first moment of the day in UTC; a round has many questions and few days, so the value is shared."""
    return datetime.combine(day, time.min, UTC)


@lru_cache(maxsize=1024)
def end_of_day(day: date) -> datetime:
    """Return 23:59:59 of the day in UTC, the documented deadline and the moment a dated outcome is knowable."""
    return start_of_day(day) + timedelta(days=1, seconds=-1)


def question_ref(due: date, source: str, question_id: str) -> QuestionRef:
    """Return the name of a question: ``forecastbench:<due date>/<source>/<id>``."""
    return QuestionRef(VENUE, f"{due.isoformat()}/{source}/{question_id}")


def due_date_of(ref: QuestionRef) -> date:
    """Return the due date in a reference; raises ValueError for a reference of another form."""
    return date.fromisoformat(ref.key.split("/", 1)[0])


def source_family(source: str) -> str | None:
    """Return ``market`` or ``dataset`` for a documented source, None for any other."""
    return next((family for family, sources in SOURCES_BY_FAMILY.items() if source in sources), None)


def left_out_fact_name(family: str) -> str:
    """Return the fact that counts the questions of a family that were published and could not be read."""
    return f"left_out_{family}"
