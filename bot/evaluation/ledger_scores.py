"""The scored predictions of the ledger by forecaster, as the rows that reports are made from."""

from collections.abc import Sequence

from bot.core.light_dataclass import dataclass
from bot.core.outcomes import (
    CROWD_RULE_PREFIX,
)
from bot.core.questions import NO_ROUND
from bot.evaluation.score_rows import BinaryScoreRow, RuleScoreRow
from bot.store.scores import NonBinaryScores, ResolvedBinaryColumns


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


def rule_scores_by_forecaster(non_binary: Sequence[NonBinaryScores]) -> dict[str, list[RuleScoreRow]]:
    """Return the scored choices and curves of each forecaster, by name."""
    found: dict[str, list[RuleScoreRow]] = {}
    for item in non_binary:
        row = RuleScoreRow(
            round=item.batch or NO_ROUND,
            kind=item.kind,
            family=item.family,
            source=item.source,
            series=f"{item.ref.venue}:{item.source}/{item.series or item.ref.key}",
            horizon_days=item.horizon_days,
            scores={rule: value for rule, value in item.values.items() if not rule.startswith(CROWD_RULE_PREFIX)},
            crowd_scores={
                rule.removeprefix(CROWD_RULE_PREFIX): value
                for rule, value in item.values.items()
                if rule.startswith(CROWD_RULE_PREFIX)
            },
        )
        if row.scores:
            found.setdefault(item.forecaster, []).append(row)
    return dict(sorted(found.items()))
