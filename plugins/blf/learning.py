"""What BLF learns from outcomes: how often questions of each kind came true, strictly before a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.api import Example, Happened, Json, LeakError
from plugins.blf.anchors import kind_of


class RateLearner:
    """Counts outcomes by kind; those of a question that a crowd prices teach nothing, since it has a better start."""

    def fit(self, examples: Sequence[Example], *, before: datetime) -> Mapping[str, Json]:
        """Return ``{"rates": {kind: [outcomes, mean]}}``; raises LeakError for an outcome not known before."""
        seen: defaultdict[str, list[float]] = defaultdict(list)
        for example in examples:
            if example.resolution.resolved_at >= before:
                message = (
                    f"{example.question.ref} was resolved on {example.resolution.resolved_at.isoformat()}, "
                    f"not before {before.isoformat()}"
                )
                raise LeakError(message)
            kind = kind_of(example.question) if example.question.crowd is None else None
            if kind is not None and isinstance(example.resolution.outcome, Happened):
                seen[kind].append(example.resolution.outcome.value)
        rates: dict[str, Json] = {kind: [len(found), sum(found) / len(found)] for kind, found in sorted(seen.items())}
        return {"rates": rates}
