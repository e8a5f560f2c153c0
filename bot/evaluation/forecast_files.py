"""Scores of forecast files written by anyone, after the documented rules for missing rows."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.core.errors import ConfigError, NotFoundError
from bot.core.interfaces import RoundArchive
from bot.core.learning import ForecastFile
from bot.core.outcomes import ChoiceOutcome, NumericOutcome
from bot.core.predictions import BinaryShape
from bot.evaluation.score_rows import BinaryScoreRow, binary_score_rows, missing_share


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredForecastFile:
    """One file with its rows; ``missing`` is the share of the round's yes-or-no targets without an answer.

    ``unscored`` counts the resolved choices and curves of the round: such files hold probabilities of yes alone.
    """

    file: ForecastFile
    rows: tuple[BinaryScoreRow, ...]
    missing: float
    unscored: int = 0

    def notes(self) -> list[str]:
        """Return in words what the rules did to the file; those of the venue are in the complaints of the sheet."""
        notes = [f"{self.file.name}: {complaint}" for complaint in self.file.dropped_rows]
        imputed = sum(row.imputed for row in self.rows)
        if imputed:
            notes.append(f"{self.file.name}: {imputed} of {len(self.rows)} scored rows are missing and count as 0.5")
        if self.unscored:
            which = f"{self.unscored} of the outcomes are of choices or curves, which no such file can answer"
            notes.append(f"{self.file.name}: {which}")
        return notes


def score_forecast_files(archive: RoundArchive, paths: Sequence[Path]) -> list[ScoredForecastFile]:
    """Read each file and join it with the outcomes of its round.

    Raises MalformedDataError for a file that the rules refuse whole, NotFoundError for a round that the archive lacks,
    and ConfigError for a file that is named twice.
    """
    known = set(archive.round_keys())
    if twice := [path.name for path, count in Counter(path.resolve() for path in paths).items() if count > 1]:
        message = f"named twice, which would count their rows twice: {', '.join(twice)}"
        raise ConfigError(message)
    scored = []
    for path in paths:
        sheet = archive.read_forecast_file(path)
        if sheet.round not in known:
            message = f"{path.name} is for round {sheet.round}; there are {', '.join(sorted(known)) or 'no rounds'}"
            raise NotFoundError(message)
        a_round = archive.read_round(sheet.round)
        yes_or_no = [question for question in a_round.questions if isinstance(question.shape, BinaryShape)]
        scored.append(
            ScoredForecastFile(
                file=sheet,
                rows=tuple(binary_score_rows(a_round, sheet.probabilities)),
                missing=missing_share(yes_or_no, sheet.probabilities),
                unscored=sum(
                    isinstance(known.outcome, ChoiceOutcome | NumericOutcome) for known in a_round.resolutions
                ),
            )
        )
    return scored


def pooling_notes(scored: Sequence[ScoredForecastFile]) -> Iterator[str]:
    """Return notes where the pooled figures mix several authors, or several files of a round."""
    authors = sorted({one.file.author for one in scored})
    if len(authors) > 1:
        yield f"the figures pool files of {len(authors)} authors ({', '.join(authors)}); by_file tells them apart"
    for key, count in sorted(Counter(one.file.round for one in scored).items()):
        if count > 1:
            yield f"the figures pool {count} files of round {key}; by_file tells them apart"
