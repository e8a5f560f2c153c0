"""The scored predictions of the ledger by forecaster, as the rows that reports are made from."""

from bot.core.light_dataclass import dataclass
from bot.core.questions import NO_ROUND
from bot.evaluation.score_rows import BinaryScoreRow
from bot.store.scores import ResolvedBinaryColumns


@dataclass(frozen=True, slots=True)
class VenueScoreRow:
    """A scored prediction of the ledger: the venue, and the row that reports are made from."""

    venue: str
    row: BinaryScoreRow


def rows_by_forecaster(columns: ResolvedBinaryColumns) -> dict[str, list[VenueScoreRow]]:
    """Return the scored predictions of each forecaster, by name; the bootstrap resamples clusters."""
    found: dict[str, list[VenueScoreRow]] = {}
    for index, forecaster in enumerate(columns.forecaster):
        ref = columns.ref[index]
        row = BinaryScoreRow(
            round=columns.batch[index] or NO_ROUND,
            family=columns.family[index],
            source=columns.source[index],
            series=f"{ref.venue}:{columns.source[index]}/{columns.series[index] or ref.key}",
            horizon_days=columns.horizon_days[index],
            probability=columns.probability[index],
            outcome=columns.outcome[index],
            crowd=columns.crowd[index],
        )
        found.setdefault(forecaster, []).append(VenueScoreRow(ref.venue, row))
    return dict(sorted(found.items()))
