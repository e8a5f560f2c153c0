"""What all rules of the referee ask of the facts that the world saw: lives, acts of people, values of accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from tests.simulation.full_system.account_values import Holding, Worth, position_worth

Fact = Mapping[str, Any]
# Nobody sets the clock by more.
CLOCK_SET = timedelta(hours=1, minutes=5)


@dataclass(frozen=True)
class WorldFacts:
    """Facts of ``WorldRecord``, and rows of the ledger to compare them with."""

    facts: Fact
    ledger: Mapping[str, Sequence[Fact]]

    def describe(self, fact: Fact) -> str:
        what = f"{fact['side']} {fact['leg']} {fact['contract']}" if "contract" in fact else fact["path"]
        return f"{fact['venue']} got {what} at {fact['at_s']:.0f} s ({fact['clock']:%m-%d %H:%M:%S} by its clock)"

    def era_at(self, at_s: float) -> Fact:
        """Return the life in which something arrived: the last one that had begun."""
        found: Fact = [era for era in self.facts["eras"] if era["from_s"] <= at_s][-1]
        return found

    def venue_table(self, config: Fact, venue: str) -> Fact:
        found: Fact = config["venues"][venue]
        return {"mode": config.get("mode", "paper"), **found}

    def acts_at(self, venue: str, *kinds: str) -> list[Fact]:
        return [
            act
            for act in self.facts["acts"]
            if act["kind"] in kinds and act.get("venue") in {venue, "", None} and not act.get("refused")
        ]

    def is_clock_set(self, at: datetime) -> bool:
        """Say whether somebody set the clock near a moment, by that clock."""
        return any(act["kind"] == "clock moved" and abs(act["clock"] - at) <= CLOCK_SET for act in self.facts["acts"])

    def value_range(self, account: Fact, unread: Mapping[Holding, Worth] = MappingProxyType({})) -> Worth:
        """Return the least and the most that an account is worth; for ``unread`` see ``value_unread_holdings``."""
        values = [position_worth(position, unread) for position in account["positions"]]
        return account["cash"] + sum(low for low, _ in values), account["cash"] + sum(high for _, high in values)
