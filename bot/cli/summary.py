"""What one pass leaves behind: the newest forecasts beside the crowd, the scores, and where everything is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from bot.app import LEDGER_FILE, App
from bot.domain.forecast import Forecast
from bot.domain.prediction import Prediction, Shape
from bot.domain.resolution import Resolution
from bot.domain.vitals import JobRun
from bot.store.scores import Marked, ScoredRows, ScoreFilter

SHOWN = 12
LOOKED_AT = 10 * SHOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One forecast: the answer for one target, the crowd when it was made, and what happened if that is known."""

    forecast: Forecast
    title: str
    family: str
    shape: Shape
    target: str
    crowd: Prediction | None
    resolution: Resolution | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What to tell at the end of a pass; ``written`` is each folder with files for a venue, and how many."""

    runs: Sequence[JobRun]
    questions: int
    forecasts: int
    lines: tuple[Line, ...]
    scored: ScoredRows
    marked: Sequence[Marked]
    seed: int
    ledger: Path
    written: Mapping[Path, int]


async def summary_of(app: App, runs: Sequence[JobRun]) -> Summary:
    """Gather the summary of the pass whose job runs are given."""
    ledger = app.ledger
    recent = [await _line(app, forecast) for forecast in await ledger.forecasts.recent(LOOKED_AT)]
    return Summary(
        runs=runs,
        questions=await ledger.questions.count(),
        forecasts=await ledger.forecasts.count(),
        lines=tuple(_mixed(recent)[:SHOWN]),
        scored=await ledger.scores.table(ScoreFilter()),
        marked=await ledger.scores.marked(ScoreFilter()),
        seed=app.config.seed,
        ledger=app.folder / LEDGER_FILE,
        written=_written(app),
    )


async def _line(app: App, forecast: Forecast) -> Line:
    """Tell the target that has resolved, if one has; a question may have many."""
    outcomes = {found.target: found for found in await app.ledger.resolutions.current(forecast.ref)}
    question = (await app.ledger.forecasts.trace(forecast.id)).question
    target = next((key for key in forecast.predictions if key in outcomes), next(iter(forecast.predictions)))
    return Line(
        forecast=forecast,
        title=question.title,
        family=question.family,
        shape=question.shape,
        target=target,
        crowd=question.crowd.prediction if question.crowd else None,
        resolution=outcomes.get(target),
    )


def _mixed(lines: Sequence[Line]) -> list[Line]:
    """Take from each family of questions in turn: the newest forecasts of a pass are often of one family alone."""
    families: dict[str, list[Line]] = {}
    for line in lines:
        families.setdefault(line.family, []).append(line)
    return [line for turn in zip_longest(*families.values()) for line in turn if line is not None]


def _written(app: App) -> dict[Path, int]:
    """Count the files that the paper books and writers of the venues keep in their folders."""
    counts: dict[Path, int] = {}
    for venue in app.venues:
        for path in sorted((app.folder / venue).rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                counts[path.parent] = counts.get(path.parent, 0) + 1
    return counts
