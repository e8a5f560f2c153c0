"""The simulated world as rounds of ForecastBench: files in the published layout, written as days pass.

A round asks about series on several days, and about markets of the other stalls, with the price of ten days before.
Outcomes are published from ten days after its due date on, and again every day; rows of markets that are open carry
the price of the day before and are not resolved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.testing.world.ask import Fate, Form
from bot.testing.world.life import Act, known_on, truth

if TYPE_CHECKING:
    from datetime import date

    from bot.testing.world.ask import Ask
    from bot.testing.world.life import Happening
    from bot.testing.world.world import World

FREEZE_DAYS, PUBLISHED_AFTER_DAYS = 10.0, 10.0
MARKETS_A_ROUND = 12
NONE = "N/A"
# Who publishes series of a theme, and whose markets are put beside them.
_SERIES_OF: Mapping[str, str] = {"prices": "yfinance", "weather": "dbnomics"}
_MARKETS_OF: Mapping[str, str] = {"fair": "manifold", "contest": "metaculus", "exchange": "polymarket"}
_INTRO = "This question is part of a simulation."


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one round asks, with its due day."""

    due: float
    series: list[Ask] = field(default_factory=list)
    markets: list[Ask] = field(default_factory=list)


@dataclass(kw_only=True)
class ForecastBenchStall:
    """Implements Stall; ``folder`` gets ``question_sets`` and ``resolution_sets``."""

    world: World
    folder: Path
    rounds: dict[float, Round] = field(default_factory=dict, init=False)
    _written: int = field(default=-1, init=False)

    def happen(self, one: Happening) -> None:
        """Publish a round when its first question opens; the others open at the same moment."""
        due = one.ask.opens
        if one.act is Act.OPEN and due not in self.rounds:
            series = [ask for ask in self.world.asks if ask.stall == one.ask.stall and ask.opens == due]
            self.rounds[due] = Round(due=due, series=series, markets=self._markets(due))
            self._publish(self.rounds[due])

    def trade(self, ask: Ask, day: float) -> None:
        """Nobody trades here."""

    def settle(self, day: float) -> None:
        """Publish outcomes, once a day; call it as often as you like."""
        if int(day) <= self._written:
            return
        self._written = int(day)
        for found in self.rounds.values():
            if day >= found.due + PUBLISHED_AFTER_DAYS:
                rows = [*self._dated_rows(found, day), *self._market_rows(found, day)]
                self._write("resolution_sets", f"{self._date(found.due)}_resolution_set.json", found, resolutions=rows)

    def _markets(self, due: float) -> list[Ask]:
        freeze = due - FREEZE_DAYS
        fit = [
            ask
            for ask in self.world.asks
            if ask.stall in _MARKETS_OF and ask.form is Form.BINARY and ask.opens <= max(freeze, 0.0)
        ]
        return [ask for ask in fit if min(ask.closes, known_on(ask)) > due + 1.0][:MARKETS_A_ROUND]

    def _publish(self, found: Round) -> None:
        records = [
            *(self._series_record(ask) for ask in found.series),
            *(self._market_record(ask, found.due) for ask in found.markets),
        ]
        self._write("question_sets", f"{self._date(found.due)}-llm.json", found, questions=records)

    def _series_record(self, ask: Ask) -> dict[str, Any]:
        frozen = max(0.0, ask.opens - FREEZE_DAYS)
        return {
            **self._record(ask, _SERIES_OF.get(ask.theme, "fred"), ask.series),
            "question": f"{ask.label} be higher on {{resolution_date}} than on {{forecast_due_date}}?",
            "resolution_criteria": ask.criteria,
            "market_info_open_datetime": NONE,
            "market_info_close_datetime": NONE,
            "freeze_datetime": self.world.calendar.at(frozen).isoformat(),
            "freeze_datetime_value": str(self.world.strips[ask.series].value(frozen)),
            "freeze_datetime_value_explanation": "Value of the series.",
            "resolution_dates": [self._date(day).isoformat() for day in ask.horizons],
        }

    def _market_record(self, ask: Ask, due: float) -> dict[str, Any]:
        frozen, calendar = max(ask.opens, due - FREEZE_DAYS), self.world.calendar
        return {
            **self._record(ask, _MARKETS_OF[ask.stall], ask.key),
            "question": ask.title,
            "resolution_criteria": f"Resolves as the market does. {ask.criteria}",
            "market_info_open_datetime": calendar.at(ask.opens).isoformat(),
            "market_info_close_datetime": calendar.at(ask.closes).isoformat(),
            "freeze_datetime": calendar.at(frozen).isoformat(),
            "freeze_datetime_value": f"{self._price(ask, frozen):.4f}",
            "freeze_datetime_value_explanation": "Price of the market.",
            "resolution_dates": NONE,
        }

    def _record(self, ask: Ask, source: str, number: str) -> dict[str, Any]:
        return {
            "id": number,
            "source": source,
            "background": ask.background,
            "market_info_resolution_criteria": NONE,
            "url": f"https://simulation.example/{ask.key}",
            "source_intro": _INTRO,
        }

    def _dated_rows(self, found: Round, day: float) -> list[dict[str, Any]]:
        return [
            _row(ask.series, _SERIES_OF.get(ask.theme, "fred"), self._date(when), outcome=float(happened))
            for ask in found.series
            for when, happened in zip(ask.horizons, self.world.truths_on(ask), strict=True)
            if when + 1.0 <= day
        ]

    def _market_rows(self, found: Round, day: float) -> list[dict[str, Any]]:
        rows = []
        for ask in found.markets:
            source, known = _MARKETS_OF[ask.stall], known_on(ask)
            if ask.fate is Fate.ANNULLED and known + 1.0 <= day:
                continue
            if known + 1.0 <= day:
                rows.append(_row(ask.key, source, self._date(known), outcome=float(truth(ask) is True)))
            else:
                price = self._price(ask, min(day - 1.0, ask.closes))
                rows.append(_row(ask.key, source, self._date(day - 1.0), outcome=price, resolved=False))
        return rows

    def _price(self, ask: Ask, day: float) -> float:
        price = self.world.price(ask, max(day, ask.opens))
        assert isinstance(price, float)  # noqa: S101 - only questions of yes or no are taken
        return price

    def _date(self, day: float) -> date:
        return (self.world.calendar.at(day) + timedelta(seconds=1)).date()

    def _write(self, part: str, name: str, found: Round, **rows: object) -> None:
        due = self._date(found.due).isoformat()
        content = {"forecast_due_date": due, "question_set": f"{due}-llm.json", **rows}
        path = self.folder / part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A reader sees the old file or the new one.
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
        fresh.replace(path)


def _row(number: str, source: str, day: date, *, outcome: float, resolved: bool = True) -> dict[str, Any]:
    return {
        "id": number,
        "source": source,
        "direction": None,
        "resolution_date": day.isoformat(),
        "resolved_to": outcome,
        "resolved": resolved,
    }
