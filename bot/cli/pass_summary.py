"""The summary of a pass of every job, read from its ledger."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from bot.app.app import FoxcastApp
from bot.core.forecasts import Forecast
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import Resolution
from bot.core.predictions import Prediction, QuestionShape
from bot.daemon.runner import JobRun
from bot.store.ledger import LEDGER_FILE
from bot.store.score_totals import ScoreSums
from bot.store.scores import ScoreFilter

MAX_LINES_SHOWN = 12


MAX_FORECASTS_READ = 10 * MAX_LINES_SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """One forecast: the answer for one target, the crowd at that time, and the outcome if it is known."""

    forecast: Forecast
    title: str
    family: str
    shape: QuestionShape
    target: str
    crowd: Prediction | None
    resolution: Resolution | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSummary:
    """The summary of a pass; ``written`` is the number of files in each folder with files for a venue."""

    runs: Sequence[JobRun]
    questions: int
    forecasts: int
    lines: tuple[SummaryLine, ...]
    scored: ScoreSums
    seed: int
    ledger: Path
    written: Mapping[Path, int]


async def load_pass_summary(app: FoxcastApp, runs: Sequence[JobRun]) -> PassSummary:
    """Load the summary of a pass with these job runs."""
    ledger = app.ledger
    recent = [await _summary_line(app, forecast) for forecast in await ledger.forecasts.recent(MAX_FORECASTS_READ)]
    return PassSummary(
        runs=runs,
        questions=await ledger.questions.count(),
        forecasts=await ledger.forecasts.count(),
        lines=tuple(_interleave_families(recent)[:MAX_LINES_SHOWN]),
        scored=await ledger.scores.read_sums(ScoreFilter()),
        seed=app.config.seed,
        ledger=app.folder / LEDGER_FILE,
        written=_count_venue_files(app),
    )


async def _summary_line(app: FoxcastApp, forecast: Forecast) -> SummaryLine:
    """Return the line of a forecast, for a resolved target if there is one."""
    outcomes = {found.target: found for found in await app.ledger.resolutions.current(forecast.ref)}
    question = await app.ledger.forecasts.question_of(forecast.id)
    target = next((key for key in forecast.predictions if key in outcomes), next(iter(forecast.predictions)))
    return SummaryLine(
        forecast=forecast,
        title=question.title,
        family=question.family,
        shape=question.shape,
        target=target,
        crowd=question.crowd.prediction if question.crowd else None,
        resolution=outcomes.get(target),
    )


def _interleave_families(lines: Sequence[SummaryLine]) -> list[SummaryLine]:
    """Take lines from each question family in turn: the newest forecasts of a pass are often of one family."""
    families: dict[str, list[SummaryLine]] = {}
    for line in lines:
        families.setdefault(line.family, []).append(line)
    return [line for group in zip_longest(*families.values()) for line in group if line is not None]


def _count_venue_files(app: FoxcastApp) -> dict[Path, int]:
    """Count the files that paper books and writers keep in the folders of the venues."""
    counts: dict[Path, int] = {}
    for venue in app.venues:
        for path in sorted((app.folder / venue).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                counts[path.parent] = counts.get(path.parent, 0) + 1
    return counts
