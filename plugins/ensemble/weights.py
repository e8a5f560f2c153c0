"""How much each member counts: by the inverse of its mean loss on what all members answered, shrunk towards equal.

Source of the inverse: J. M. Bates and C. W. J. Granger, The combination of forecasts, Operational Research Quarterly 20
(1969), weights inversely proportional to mean squared errors, errors taken as uncorrelated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from math import fsum

from bot.api import Json, LeakError, ResolvedForecast, TrainingExample, prediction_loss
from plugins.ensemble.settings import EnsembleSettings

# The key for all venues together; no venue can have it as its name.
ALL_VENUES = ""
# A mean loss below this is luck.
LEAST_LOSS = 0.005

# A member's loss on one target.
MemberLosses = Mapping[str, float]


class WeightLearner:
    """Learns from the members' forecasts of resolved targets; a ``bot.api.HistoryLearner``."""

    def __init__(self, settings: EnsembleSettings) -> None:
        """Keep the names of the members."""
        self.settings = settings

    @property
    def other_forecasters(self) -> Collection[str]:
        """The members."""
        return self.settings.members

    def fit(self, examples: Sequence[TrainingExample], *, before: datetime) -> Mapping[str, Json]:
        """Return nothing: outcomes alone say nothing about members."""
        return {}

    def fit_history(self, pasts: Sequence[ResolvedForecast], *, before: datetime) -> Mapping[str, Json]:
        """Return ``{"weights": {venue: {"targets": n, "shares": {member: share}}}}``, "" standing for all venues.

        A venue where all members answered too few targets has no entry. Raises LeakError for an outcome that was not
        known before the moment.
        """
        settings = self.settings
        weights: dict[str, Json] = {}
        for venue, losses in _losses_by_venue(pasts, settings.members, before).items():
            if len(losses) >= settings.min_targets and len(settings.members) > 1:
                shares = fit_shares(losses, settings)
                weights[venue] = {"targets": len(losses), "shares": dict(shares)}
        return {"weights": weights}


def fit_shares(losses: Sequence[MemberLosses], settings: EnsembleSettings) -> Mapping[str, float]:
    """Return the share of each member, which sum to 1; equal losses give equal shares.

    The mean loss of each is pooled with ``shrink`` targets of the mean loss of all, and its share is proportional to
    the inverse of that. No share is below ``floor`` of an equal one.
    """
    members, count = settings.members, len(losses)
    forecast_context = {member: fsum(loss[member] for loss in losses) / count for member in members}
    common = fsum(forecast_context.values()) / len(members)
    evidence = count / (count + settings.equal_weight_targets)
    drawn = {member: common + evidence * (mean - common) for member, mean in forecast_context.items()}
    inverse = {member: 1.0 / max(loss, LEAST_LOSS) for member, loss in drawn.items()}
    total = fsum(inverse.values())
    # So much of each share is the same for all that the worst keeps its floor.
    floor = settings.min_weight / len(members)
    return {member: floor + (1.0 - settings.min_weight) * part / total for member, part in inverse.items()}


def _losses_by_venue(
    pasts: Sequence[ResolvedForecast], members: Sequence[str], before: datetime
) -> Mapping[str, Sequence[MemberLosses]]:
    """Return the losses on each target that all members answered, by venue and of all venues."""
    losses: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for past in _require_resolved_before(pasts, before):
        loss = prediction_loss(past.prediction, past.question.shape, past.outcome)
        if past.forecaster in members and loss is not None:
            losses[str(past.question.ref), past.resolution.target][past.forecaster] = loss
    found: defaultdict[str, list[MemberLosses]] = defaultdict(list)
    for (ref, _), by_member in losses.items():
        if len(by_member) == len(members):
            found[ALL_VENUES].append(by_member)
            found[ref.partition(":")[0]].append(by_member)
    return found


def _require_resolved_before(pasts: Sequence[ResolvedForecast], before: datetime) -> Iterator[ResolvedForecast]:
    for past in pasts:
        if past.resolution.resolved_at >= before:
            at = past.resolution.resolved_at.isoformat()
            message = f"{past.resolution.ref} was resolved on {at}, not before {before.isoformat()}"
            raise LeakError(message)
        yield past
