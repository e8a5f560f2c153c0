"""Why forecasts are made, and on what: the reason on record is true, a moved price and a changed text are answered.

By docs/settings.md ("policy"), docs/forecasters.md, docs/models.md ("Order") and docs/commands.md ("foxcast lock"):
what moved the price or the text is forecast again, the soonest close is begun first, each forecast reads the newest
price, a locked question is left alone, and what was only to be seen is never submitted.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from bot.store.serialization import format_timestamp, parse_timestamp
from tests.ledger_checks import Row, read_rows
from tests.simulation.full_system.omission_checks import (
    ASKED,
    ERROR_REASON,
    HEARD,
    MIN_GAP_H,
    NEAR_CLOSE_H,
    ONE_MOMENT,
    STALE_AFTER_H,
    Fact,
    JobPass,
    OmissionChecks,
)
from tests.simulation.full_system.record_checks import measure_distance, read_chances

PRICE_MOVE = 0.5
# The move on record is rounded.
ROUNDED = 0.006
# A text that changes often is not forecast more often than this.
CHANGE_COOLDOWN = timedelta(hours=1)
# A market that did not change since it was listed is not read again, and a list is kept by the venue for some seconds.
# The exchange tells its time in whole seconds. Prices on record may be rounded.
LISTED_AGAIN, SAME_PRICE = timedelta(seconds=90), 2e-3
# What is claimed together begins together, but for what is read once more at its venue, whose last list lacks it. What
# was first seen just before the pass is in that list, of the same life.
ONE_CLAIM, READ_AGAIN = timedelta(seconds=5), timedelta(seconds=90)
_CHANGED = ("the question changed", "its facts changed")
_RUNS = """
select f.id, f.ref, f.forecaster, f.state, f.why, f.made_at, f.started_at, f.ended_at, f.cutoff, f.forecast_only,
  f.version, f.price, q.venue, q.closes_at, q.as_of, q.first_seen_at, v.body,
  coalesce(json_extract(v.body, '$.closes_at'), q.closes_at) as closes_then,
  (select min(r.seen_at) from resolution r where r.ref = f.ref) as resolved_at,
  (select s.why from schedule s where s.ref = f.ref and s.forecaster = f.forecaster) as waits_for,
  (select count(*) from question_version w where w.ref = f.ref) as versions
from forecast f join question q on q.ref = f.ref join question_version v on v.version = f.version
order by f.ref, f.forecaster, f.revision
"""
_PRICES = "select id, seen_at, at, probability, body from price where ref = :ref order by id"
_ALL_PRICES = """
select p.id, p.ref, p.at, p.seen_at, p.probability, p.body, q.title, q.closes_at from price p
join question q on q.ref = p.ref order by p.id
"""
_VERSIONS = "select version, seen_at, body from question_version where ref = :ref order by seen_at"
_APART = """
select i.id, i.ref, f.id as forecast from intent i join forecast f on f.id = i.forecast
where f.forecast_only = 1 and i.action in ('order', 'forecast')
  and coalesce(json_extract(i.order_body, '$.closing'), '') = ''
"""


@dataclass(frozen=True, kw_only=True)
class RenewalChecks(OmissionChecks):
    """Judges one ledger by the passes of jobs that ended well, as ``OmissionChecks`` does.

    ``prices`` are those that questions had at their venues since when; ``unnoted`` is when they had others, too.
    """

    prices: Mapping[str, Sequence[tuple[datetime, Any]]] = field(default_factory=dict)
    unnoted: Mapping[str, Sequence[datetime]] = field(default_factory=dict)

    def violations(self) -> Iterator[str]:
        """Say which forecast was made for no reason, on an old price or text, or out of turn, and which was not."""
        for rows in self._runs.values():
            yield from self._renewed_after_close(rows)
            base: Row | None = None
            for row in rows:
                if (why := self._wrong_reason_of(row, base)) is not None:
                    yield f"renewal: {_name(row)} for {row['why']!r}, and {why}"
                if row["state"] == "done" and not row["forecast_only"]:
                    base = row
            for row, after in zip(rows, [*rows[1:], None], strict=True):
                if row["state"] == "done" and not row["forecast_only"] and row["closes_at"] is not None:
                    yield from self._late_answer(row, after)
            for row in rows:
                yield from self._old_price(row)
                yield from self._while_locked(row)
        yield from self._out_of_turn()
        yield from self._wrong_prices()
        yield from self._looks()
        yield from self._not_looked_at()
        for row in read_rows(self.ledger, _APART):
            yield f"renewal: {row['id']} submits {row['forecast']} of {row['ref']}, which was only to be recorded"

    @cached_property
    def _runs(self) -> dict[tuple[str, str], list[Row]]:
        runs: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _RUNS):
            runs[row["ref"], row["forecaster"]].append(row)
        return runs

    # Why a forecast was made

    def _wrong_reason_of(self, row: Row, base: Row | None) -> str | None:
        """Return what is wrong with the reason of a forecast; ``base`` is the last one that may be submitted."""
        why, started = row["why"], parse_timestamp(row["started_at"])
        if why == "new question":
            return None if base is None else f"there is one of {base['made_at']}"
        if why == ASKED:
            return None if self._is_asked_for(row) else "nobody had asked"
        if base is None or self._has_clock_moved(parse_timestamp(base["made_at"]), started):
            return None
        rules = (
            (" before closing", self._wrong_close),
            ("stale", self._wrong_age),
            ("price moved by ", self._wrong_move),
        )
        found = next((rule for words, rule in rules if words in why), None)
        if found is not None and not why.startswith("the question changed"):
            return found(row, base)
        is_changed = row["versions"] > 1 or "withdrawn" in why or not why.startswith(_CHANGED)
        return None if is_changed else "there is one version of it"

    def _wrong_age(self, row: Row, base: Row) -> str | None:
        """Say whether the last one was old enough."""
        age = parse_timestamp(row["started_at"]) - parse_timestamp(base["made_at"])
        least = timedelta(hours=min(self._policy("stale_after_h", STALE_AFTER_H)))
        return None if age >= least - ONE_MOMENT else f"the last one was made {age} before, to be renewed after {least}"

    def _is_asked_for(self, row: Row) -> bool:
        at = parse_timestamp(row["started_at"])
        return any(
            act["kind"] == "forecast"
            and (_ref_of(act), act["forecaster"]) == (row["ref"], row["forecaster"])
            and (act["clock"] <= at + ONE_MOMENT or self._has_clock_moved(at, act["clock"]))
            for act in self.acts
        )

    def _looks(self) -> Iterator[str]:
        """What nobody wanted to be submitted, of all who asked, is only recorded."""
        asked: dict[tuple[str, str], list[Fact]] = defaultdict(list)
        for act in self.acts:
            if act["kind"] == "forecast":
                asked[_ref_of(act), act["forecaster"]].append(act)
        for name, acts in asked.items():
            for row in self._runs.get(name, ()) if not any(act["submit"] for act in acts) else ():
                if row["why"] == ASKED and not row["forecast_only"]:
                    yield f"renewal: {_name(row)} was asked for to be seen, and may be submitted"

    def _not_looked_at(self) -> Iterator[str]:
        """What people ask for is forecast by the next pass, while it can be; what failed stays put off."""
        for act in self.acts:
            ref = _ref_of(act)
            if act["kind"] != "forecast" or ref in self.locked or act["clock"] is None:
                continue
            runs = self._runs.get((ref, act["forecaster"]), [])
            before = [row for row in runs if parse_timestamp(row["started_at"]) < act["clock"]]
            # What is in work when somebody asks is what he gets.
            is_answered = before and (before[-1]["ended_at"] or "9") > format_timestamp(act["clock"])
            if is_answered or (before and before[-1]["state"] == "failed"):
                continue
            spans = self.closed.get(ref, ())
            ends = [since for since, _ in spans if since is not None]
            ends += [parse_timestamp(row["closes_at"]) for row in runs[:1] if row["closes_at"]]
            after = [parse_timestamp(row["started_at"]) for row in runs]
            until = min([*ends, *(at for at in after if at >= act["clock"] - ONE_MOMENT)], default=None)
            heard = next((one for one in self._by_job["requests"] if one.started_at >= act["clock"]), None)
            is_known = bool(runs) and heard is not None and (until is None or heard.ended_at < until)
            if is_known and heard is not None and (count := self._passes_between("forecast", heard.ended_at, until)):
                yield f"renewal: {ref} was asked for at {act['clock']} of {act['forecaster']}, {count} passes did not"

    def _wrong_close(self, row: Row, base: Row) -> str | None:
        """Say whether it was that long before the close, and the last one was made earlier than that."""
        gap = row["why"].removesuffix(" before closing")
        gaps = [timedelta(hours=one) for near in self._policy("near_close_h", NEAR_CLOSE_H) for one in near]
        if gap not in {str(one) for one in gaps}:
            return f"the times before the close are {sorted({str(one) for one in gaps})}"
        length = next(one for one in gaps if str(one) == gap)
        known = [json.loads(one["body"]).get("closes_at") for one in read_rows(self.ledger, _VERSIONS, row)]
        closes = [parse_timestamp(one) for one in known if one]
        made, started = parse_timestamp(base["made_at"]), parse_timestamp(row["started_at"])
        if any(made < one - length + ONE_MOMENT and started >= one - length - ONE_MOMENT for one in closes):
            return None
        return f"the last one is of {made}, and it closes at {sorted({*map(str, closes)})}"

    def _wrong_move(self, row: Row, base: Row) -> str | None:
        """Say whether the price had moved by so much since that of the last forecast, and whether that is enough."""
        move = float(row["why"].split()[3])
        least = min(self._policy("price_move", PRICE_MOVE))
        if move < least - ROUNDED:
            return f"{least:g} is the least move"
        prices = read_rows(self.ledger, _PRICES, row)
        first = next((one for one in prices if one["id"] == base["price"]), None)
        seen = [one for one in prices if one["seen_at"] <= row["started_at"]]
        if first is None or not (moves := [_move(first, one) for one in seen]):
            return "the last one had no price"
        return None if any(abs(one - move) < ROUNDED for one in moves) else f"it had moved by {max(moves):.2f} at most"

    # What had to be forecast again, and what had not

    def _renewed_after_close(self, rows: Sequence[Row]) -> Iterator[str]:
        """What has an answer is not forecast again once its question has closed, whatever it was put off for."""
        has_answer = False
        for row in rows:
            started, closes = parse_timestamp(row["started_at"]), row["closes_at"] and parse_timestamp(row["closes_at"])
            is_known = row["versions"] == 1 and row["as_of"] is None and not self._has_clock_moved(started, started)
            is_asked = row["why"] == ASKED or row["forecast_only"]
            # A venue may close a question early: that is known after the next list.
            lists = self._by_job[f"discover {row['venue']}"]
            is_listed = closes and any(closes <= one.started_at and one.ended_at < started for one in lists)
            if has_answer and is_known and not is_asked and closes and is_listed:
                what = f"{row['ref']} was forecast again at {started} by {row['forecaster']}, {row['why']}"
                yield f"renewal: {what}, and closed at {closes}"
            has_answer |= row["state"] == "done" and not row["forecast_only"]

    def _late_answer(self, row: Row, after: Row | None) -> Iterator[str]:
        """A moved price and a changed text are answered by the next passes after the pass that found them."""
        # It was begun and postponed where it could not be read at its venue.
        if self._is_left_out(row) or ERROR_REASON.match((after["why"] if after else row["waits_for"]) or ""):
            return
        made, closes = parse_timestamp(row["made_at"]), parse_timestamp(row["closes_at"])
        ends = [
            closes - self._reader_margin(row["venue"]),
            *[parse_timestamp(row[name]) for name in ("as_of", "resolved_at") if row[name]],
            *[since for since, _ in self.closed.get(row["ref"], ()) if since is not None],
        ]
        until = min([*ends, *([parse_timestamp(after["started_at"])] if after else [])])
        for seen, what in self._news(row, made):
            pause = timedelta(hours=max(self._policy("min_gap_h", MIN_GAP_H)))
            due = max(seen, made + max(pause, CHANGE_COOLDOWN))
            if due < min(ends) and (count := self._passes_between("forecast", due, until)):
                yield f"renewal: {_name(row)} was to be made again at {due}, {what} at {seen}, {count} passes before"
                return

    def _news(self, row: Row, made: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield when a pass that looks for questions ended that had seen another price or text, and what it was."""
        most = max(self._policy("price_move", PRICE_MOVE))
        prices = read_rows(self.ledger, _PRICES, row)
        first = next((one for one in prices if one["id"] == row["price"]), None)
        for one in prices:
            if first is not None and one["id"] > first["id"] and _move(first, one) > most + ROUNDED:
                found = self._pass_at(f"discover {row['venue']}", parse_timestamp(one["seen_at"]))
                if found is not None and found.ended_at > made:
                    yield found.ended_at, f"its price had moved by {_move(first, one):.2f}"
                    break
        for one in read_rows(self.ledger, _VERSIONS, row):
            found = self._pass_at(f"discover {row['venue']}", parse_timestamp(one["seen_at"]))
            if found is not None and found.started_at > made and one["version"] != row["version"]:
                yield found.ended_at, "its text had changed"
                break

    def _pass_at(self, job: str, at: datetime) -> JobPass | None:
        return next((one for one in self._by_job[job] if one.started_at <= at <= one.ended_at), None)

    # What it was made on

    def _old_price(self, row: Row) -> Iterator[str]:
        """A forecast reads the newest price that was known when it began."""
        started = parse_timestamp(row["started_at"])
        known = [one for one in read_rows(self.ledger, _PRICES, row) if parse_timestamp(one["seen_at"]) <= started]
        sure = [one for one in known if parse_timestamp(one["seen_at"]) < started - ONE_MOMENT]
        newest = sure[-1]["id"] if sure else None
        is_old = newest is not None and (row["price"] or 0) < newest
        if is_old and row["versions"] == 1 and not self._has_clock_moved(started, started):
            newer = f"the newest was {newest} of {sure[-1]['seen_at']}"
            yield f"renewal: {_name(row)} has the price {row['price']}, and {newer}"

    def _wrong_prices(self) -> Iterator[str]:
        """Each price on record was that of its venue then, and a pass that looks for questions has the newest."""
        known: dict[str, list[Row]] = defaultdict(list)
        for row in read_rows(self.ledger, _ALL_PRICES):
            known[row["ref"]].append(row)
        for ref, rows in known.items():
            history, venue = self.prices.get(ref, ()), ref.partition(":")[0]
            for row in rows if history else ():
                at, seen = parse_timestamp(row["at"]), parse_timestamp(row["seen_at"])
                values = _prices_between(history, at - LISTED_AGAIN, seen + ONE_MOMENT)
                # The answer may have been that of an earlier request; of a book some changes may be missing.
                is_old = any(seen - HEARD <= one <= seen + ONE_MOMENT for one in self.spoilt.get(venue, ()))
                is_unknown = any(at - ONE_MOMENT <= one <= seen + ONE_MOMENT for one in self.unnoted.get(ref, ()))
                if is_unknown or (is_old and venue == "polymarket"):
                    continue
                values += [value for _, value in history] if is_old else []
                # While somebody trades level by level, the middle of a book passes what is between.
                is_between = row["probability"] is not None and _is_between(row["probability"], values)
                is_right = any(_is_price(row, one) for one in values) or (venue == "polymarket" and is_between)
                if not is_right and not self._is_clock_wrong(at, seen):
                    said = row["probability"] if row["body"] is None else row["body"]
                    yield f"renewal: the price of {ref} of {at} is {said} on record, and was {values[-2:]}"
            yield from self._missed_price(ref, rows, history)

    def _is_clock_wrong(self, first: datetime, last: datetime) -> bool:
        """Say whether the clock was wrong in a time: from one move to the next, which sets it right."""
        ends = [*self.clock_moves[1::2], datetime.max.replace(tzinfo=UTC)]
        wrong = zip(self.clock_moves[::2], ends, strict=False)
        return self._has_clock_moved(first, last) or any(begin <= last and first <= end for begin, end in wrong)

    def _missed_price(self, ref: str, rows: Sequence[Row], history: Sequence[tuple[datetime, Any]]) -> Iterator[str]:
        venue, spans = ref.partition(":")[0], self.closed.get(ref, ())
        words = [
            word for config in self.configs for word in config["venues"][venue].get("exclude", {}).get("words", ())
        ]
        closes = rows[0]["closes_at"] and parse_timestamp(rows[0]["closes_at"]) - self._reader_margin(venue)
        if any(word in rows[0]["title"] for word in words):
            return
        # Whether a book of the exchange was too wide for a price is not known here.
        for one in self._by_job[f"discover {venue}"] if history and venue == "manifold" else ():
            since, until = one.started_at - LISTED_AGAIN, one.ended_at + LISTED_AGAIN
            values = _prices_between(history, since, until)
            newest = [row for row in rows if parse_timestamp(row["seen_at"]) <= one.ended_at + ONE_MOMENT][-1:]
            is_closed = any(begin is not None and begin <= until for begin, _ in spans)
            is_closed |= closes is not None and closes <= until
            is_spoilt = any(since <= moment <= until for moment in self.spoilt.get(venue, ()))
            if not newest or len(values) != 1 or is_closed or is_spoilt or self._is_clock_wrong(since, until):
                continue
            if not _is_price(newest[0], values[0]) and ref not in self.locked:
                what = f"is {values[0]}, and on record is that of {newest[0]['seen_at']}"
                yield f"renewal: the pass of {one.started_at} looked at {ref}, whose price {what}"
                return

    def _while_locked(self, row: Row) -> Iterator[str]:
        """A locked question is not forecast, but by those for whom it was not locked."""
        at = parse_timestamp(row["started_at"])
        for act in self.acts:
            is_mine = act["kind"] == "lock" and _ref_of(act) == row["ref"] and act["clock"] < at
            if not is_mine or act.get("forecaster") not in {None, row["forecaster"]}:
                continue
            ends = [
                one["clock"]
                for one in self.acts
                if one["kind"] == "unlock" and _ref_of(one) == row["ref"] and one.get("forecaster") == act["forecaster"]
            ]
            is_over = any(act["clock"] <= end <= at + ONE_MOMENT for end in ends)
            if not is_over and self._passes_between("requests", act["clock"], at):
                yield f"renewal: {_name(row)}, and it was locked at {act['clock']}"
                return

    # In which order

    def _out_of_turn(self) -> Iterator[str]:
        """In one pass the question that closes first is begun first, of those that were due when the pass began."""
        begun: dict[int, list[tuple[datetime, Row, bool]]] = defaultdict(list)
        passes = self._by_job["forecast"]
        for rows in self._runs.values():
            for row, before in zip(rows, [None, *rows[:-1]], strict=True):
                at = parse_timestamp(row["started_at"])
                number = next((n for n, one in enumerate(passes) if one.started_at <= at <= one.ended_at), None)
                if number is not None and row["closes_at"] is not None and row["why"] != ASKED:
                    begun[number].append((at, row, self._was_due(row, before, passes[number].started_at)))
        for number, found in begun.items():
            for at, row, was_due in found:
                is_listed = parse_timestamp(row["first_seen_at"]) >= passes[number].started_at - ONE_CLAIM
                pause = ONE_CLAIM if is_listed else READ_AGAIN
                earlier = [(since, one) for since, one, _ in found if since < at - pause]
                later = next((one for since, one in earlier if one["closes_then"] > row["closes_then"]), None)
                # One whose time is over comes at no time too late.
                is_open = parse_timestamp(row["closes_then"]) > passes[number].started_at
                if (
                    was_due
                    and is_open
                    and later is not None
                    and not self._has_clock_moved(passes[number].started_at, at)
                ):
                    what = f"which closes at {row['closes_then']} and was due, at {at}"
                    other = f"after {later['ref']}, which closes at {later['closes_then']}"
                    yield f"renewal: the pass of {passes[number].started_at} began {row['ref']}, {what}, {other}"

    def _was_due(self, row: Row, before: Row | None, at: datetime) -> bool:
        """Say whether a forecast was certainly due at a moment: its question was new then, or the last one stale."""
        if row["versions"] > 1 or row["ref"] in self.locked or row["forecaster"] not in {"drifter", "drifter_second"}:
            return False
        if row["why"] == "new question" and before is None:
            return parse_timestamp(row["first_seen_at"]) <= at
        if row["why"] == "stale" and before is not None and before["state"] == "done":
            most = timedelta(hours=max(self._policy("stale_after_h", STALE_AFTER_H)))
            return parse_timestamp(before["made_at"]) + most <= at
        return False


def _prices_between(history: Sequence[tuple[datetime, Any]], since: datetime, until: datetime) -> list[Any]:
    """Return the prices that a question had in a time, the first of them that was in force when it began."""
    before = [value for at, value in history if at <= since][-1:]
    return [*before, *(value for at, value in history if since < at <= until)]


def _is_between(said: float, values: Sequence[Any]) -> bool:
    numbers = [one for one in values if isinstance(one, float)]
    return bool(numbers) and min(numbers) <= said <= max(numbers)


def _is_price(row: Row, value: Any) -> bool:
    """Say whether a price on record is one of a venue; those of options are in proportion to one another."""
    said, known = read_chances(row), value if isinstance(value, Mapping) else {"": value}
    same = said.keys() & known.keys()
    wholes = [sum(one[name] for name in same) if len(same) > 1 else 1.0 for one in (said, known)]
    return all(abs(said[name] / wholes[0] - known[name] / wholes[1]) <= SAME_PRICE for name in same)


def _name(row: Row) -> str:
    return f"the forecast of {row['ref']} by {row['forecaster']} of {row['started_at']}"


def _ref_of(act: Fact) -> str:
    """Return the reference of a question in an act of people, which may be a record."""
    ref = act.get("ref")
    return f"{ref['venue']}:{ref['key']}" if isinstance(ref, dict) else str(ref)


def _move(first: Any, other: Any) -> float:
    """Return how far a price is from another one, 0 where they have nothing in common."""
    before, now = read_chances(first), read_chances(other)
    return measure_distance(before, now) if before.keys() & now.keys() else 0.0
