"""Scores of forecast files written by anyone, after the documented rules for missing rows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.domain.learning import Sheet
from bot.domain.prediction import BinaryShape
from bot.domain.resolution import Chosen, Landed
from bot.errors import ConfigError, NotFound
from bot.evaluation.score_rows import BinaryScoreRow, binary_score_rows, missing_share
from bot.ports import Archive


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredForecastFile:
    """One file with its rows; ``missing`` is the share of the round's yes-or-no targets without an answer.

    ``unscored`` counts the resolved choices and curves of the round: such files hold probabilities of yes alone.
    """

    file: Sheet
    rows: tuple[BinaryScoreRow, ...]
    missing: float
    unscored: int = 0

    def notes(self) -> list[str]:
        """Say in words what the rules did to the file; those of the venue stand in the complaints of the sheet."""
        notes = [f"{self.file.name}: {complaint}" for complaint in self.file.complaints]
        imputed = sum(row.imputed for row in self.rows)
        if imputed:
            notes.append(f"{self.file.name}: {imputed} of {len(self.rows)} scored rows are missing and count as 0.5")
        if self.unscored:
            which = f"{self.unscored} of the outcomes are of choices or curves, which no such file can answer"
            notes.append(f"{self.file.name}: {which}")
        return notes


def score_forecast_files(archive: Archive, paths: Sequence[Path]) -> list[ScoredForecastFile]:
    """Read each file and join it with the outcomes of its round.

    Raises ContractError for a file that the rules refuse whole, NotFound for a round that the archive lacks, and
    ConfigError for a file that is named twice.
    """
    known = set(archive.rounds())
    if twice := [path.name for path, count in Counter(path.resolve() for path in paths).items() if count > 1]:
        message = f"named twice, which would count their rows twice: {', '.join(twice)}"
        raise ConfigError(message)
    scored = []
    for path in paths:
        sheet = archive.sheet(path)
        if sheet.round not in known:
            message = f"{path.name} is for round {sheet.round}; there are {', '.join(sorted(known)) or 'no rounds'}"
            raise NotFound(message)
        a_round = archive.round(sheet.round)
        yes_or_no = [question for question in a_round.questions if isinstance(question.shape, BinaryShape)]
        scored.append(
            ScoredForecastFile(
                file=sheet,
                rows=tuple(binary_score_rows(a_round, sheet.probabilities)),
                missing=missing_share(yes_or_no, sheet.probabilities),
                unscored=sum(isinstance(known.outcome, Chosen | Landed) for known in a_round.resolutions),
            )
        )
    return scored


def pooling_notes(scored: Sequence[ScoredForecastFile]) -> Iterator[str]:
    """Say where the pooled figures mix what a reader may think apart: several authors, or several files of a round."""
    authors = sorted({one.file.author for one in scored})
    if len(authors) > 1:
        yield f"the figures pool files of {len(authors)} authors ({', '.join(authors)}); by_file tells them apart"
    for key, count in sorted(Counter(one.file.round for one in scored).items()):
        if count > 1:
            yield f"the figures pool {count} files of round {key}; by_file tells them apart"
