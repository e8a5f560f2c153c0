"""The simulated world as ForecastBench rounds.

Question and resolution files in the published layout, written as days pass.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.core.light_dataclass import dataclass
from bot.simulator.world.questions import AnswerKind, LifecycleAction, QuestionEnding, outcome_day, outcome_of

if TYPE_CHECKING:
    from datetime import date

    from bot.simulator.world.questions import LifecycleEvent, SimulatedQuestion
    from bot.simulator.world.simulated_world import SimulatedWorld

FREEZE_DAYS = 10.0
MARKETS_A_ROUND = 12
NOT_AVAILABLE = "N/A"
# The publishers of series by theme, and the venues of the markets next to them.
_SERIES_OF: Mapping[str, str] = {"prices": "yfinance", "weather": "dbnomics"}
_MARKETS_OF: Mapping[str, str] = {"fair": "manifold", "contest": "metaculus", "exchange": "polymarket"}
_INTRO = "This question is part of a simulation."


@dataclass(frozen=True, kw_only=True)
class SimulatedRound:
    """The questions of one round, with its due day."""

    due: float
    series: list[SimulatedQuestion] = field(default_factory=list)
    markets: list[SimulatedQuestion] = field(default_factory=list)


@dataclass(kw_only=True)
class ForecastBenchBridge:
    """Implements VenueBridge; ``folder`` gets ``question_sets`` and ``resolution_sets``.

    Outcomes are not published of the questions and dates in ``withheld``.
    """

    world: SimulatedWorld
    folder: Path
    withheld: set[tuple[str, str]] = field(default_factory=set)
    rounds: dict[float, SimulatedRound] = field(default_factory=dict, init=False)
    _written: int = field(default=-1, init=False)

    def apply_event(self, one: LifecycleEvent) -> None:
        """Publish a round when its first question opens; the others open at the same moment."""
        due = one.question.opens
        if one.action is LifecycleAction.OPEN and due not in self.rounds:
            series = [
                simulated
                for simulated in self.world.questions
                if simulated.venue_kind == one.question.venue_kind and simulated.opens == due
            ]
            self.rounds[due] = SimulatedRound(due=due, series=series, markets=self._open_markets(due))
            self._publish_round(self.rounds[due])

    def move_price(self, simulated: SimulatedQuestion, day: float) -> None:
        """Nobody trades here."""

    def settle(self, day: float) -> None:
        """Publish outcomes, once a day; further calls change nothing."""
        if int(day) <= self._written:
            return
        self._written = int(day)
        for found in self.rounds.values():
            if day >= found.due + self.world.rounds.published_after:
                rows = [*self._dated_rows(found, day), *self._market_rows(found, day)]
                rows = [row for row in rows if (row["id"], row["resolution_date"]) not in self.withheld]
                self._write_file(
                    "resolution_sets", f"{self._date(found.due)}_resolution_set.json", found, resolutions=rows
                )

    def withhold(self, rows: Collection[tuple[str, str]]) -> None:
        """Publish the outcomes again without those of these questions and dates, with the next settlement."""
        self.withheld, self._written = {*rows}, -1

    def _open_markets(self, due: float) -> list[SimulatedQuestion]:
        freeze = due - FREEZE_DAYS
        fit = [
            simulated
            for simulated in self.world.questions
            if simulated.venue_kind in _MARKETS_OF
            and simulated.answer_kind is AnswerKind.BINARY
            and simulated.opens <= max(freeze, 0.0)
        ]
        return [simulated for simulated in fit if min(simulated.closes, outcome_day(simulated)) > due + 1.0][
            :MARKETS_A_ROUND
        ]

    def _publish_round(self, found: SimulatedRound) -> None:
        records = [
            *(self._series_record(simulated) for simulated in found.series),
            *(self._market_record(simulated, found.due) for simulated in found.markets),
        ]
        self._write_file("question_sets", f"{self._date(found.due)}-llm.json", found, questions=records)

    def _series_record(self, simulated: SimulatedQuestion) -> dict[str, Any]:
        frozen = max(0.0, simulated.opens - FREEZE_DAYS)
        return {
            **self._question_record(simulated, _SERIES_OF.get(simulated.theme, "fred"), simulated.series),
            "question": f"{simulated.label} be higher on {{resolution_date}} than on {{forecast_due_date}}?",
            "resolution_criteria": simulated.criteria,
            "market_info_open_datetime": NOT_AVAILABLE,
            "market_info_close_datetime": NOT_AVAILABLE,
            "freeze_datetime": self.world.calendar.moment_of(frozen).isoformat(),
            "freeze_datetime_value": str(self.world.series_by_name[simulated.series].value(frozen)),
            "freeze_datetime_value_explanation": "Value of the series.",
            "resolution_dates": [self._date(day).isoformat() for day in simulated.horizons],
        }

    def _market_record(self, simulated: SimulatedQuestion, due: float) -> dict[str, Any]:
        frozen, calendar = max(simulated.opens, due - FREEZE_DAYS), self.world.calendar
        return {
            **self._question_record(simulated, _MARKETS_OF[simulated.venue_kind], simulated.key),
            "question": simulated.title,
            "resolution_criteria": f"Resolves as the market does. {simulated.criteria}",
            "market_info_open_datetime": calendar.moment_of(simulated.opens).isoformat(),
            "market_info_close_datetime": calendar.moment_of(simulated.closes).isoformat(),
            "freeze_datetime": calendar.moment_of(frozen).isoformat(),
            "freeze_datetime_value": f"{self._price(simulated, frozen):.4f}",
            "freeze_datetime_value_explanation": "Price of the market.",
            "resolution_dates": NOT_AVAILABLE,
        }

    def _question_record(self, simulated: SimulatedQuestion, source: str, number: str) -> dict[str, Any]:
        return {
            "id": number,
            "source": source,
            "background": simulated.background,
            "market_info_resolution_criteria": NOT_AVAILABLE,
            "url": f"https://simulation.example/{simulated.key}",
            "source_intro": _INTRO,
        }

    def _dated_rows(self, found: SimulatedRound, day: float) -> list[dict[str, Any]]:
        return [
            _resolution_row(
                simulated.series, _SERIES_OF.get(simulated.theme, "fred"), self._date(when), outcome=float(happened)
            )
            for simulated in found.series
            for when, happened in zip(simulated.horizons, self.world.outcomes_by_day(simulated), strict=True)
            if when + 1.0 <= day
        ]

    def _market_rows(self, found: SimulatedRound, day: float) -> list[dict[str, Any]]:
        rows = []
        for simulated in found.markets:
            source, known = _MARKETS_OF[simulated.venue_kind], outcome_day(simulated)
            if simulated.ending is QuestionEnding.ANNULLED and known + 1.0 <= day:
                continue
            if known + 1.0 <= day:
                rows.append(
                    _resolution_row(
                        simulated.key, source, self._date(known), outcome=float(outcome_of(simulated) is True)
                    )
                )
            else:
                price = self._price(simulated, min(day - 1.0, simulated.closes))
                rows.append(
                    _resolution_row(simulated.key, source, self._date(day - 1.0), outcome=price, resolved=False)
                )
        return rows

    def _price(self, simulated: SimulatedQuestion, day: float) -> float:
        price = self.world.crowd_price(simulated, max(day, simulated.opens))
        assert isinstance(price, float)  # noqa: S101 - only questions of yes or no are taken
        return price

    def _date(self, day: float) -> date:
        return (self.world.calendar.moment_of(day) + timedelta(seconds=1)).date()

    def _write_file(self, part: str, name: str, found: SimulatedRound, **rows: object) -> None:
        due = self._date(found.due).isoformat()
        content = {"forecast_due_date": due, "question_set": f"{due}-llm.json", **rows}
        path = self.folder / part / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A reader sees the old file or the new one.
        fresh = path.with_suffix(".part")
        fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
        fresh.replace(path)


def _resolution_row(number: str, source: str, day: date, *, outcome: float, resolved: bool = True) -> dict[str, Any]:
    return {
        "id": number,
        "source": source,
        "direction": None,
        "resolution_date": day.isoformat(),
        "resolved_to": outcome,
        "resolved": resolved,
    }
