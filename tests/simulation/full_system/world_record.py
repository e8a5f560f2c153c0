"""Records what the world saw of Foxcast as plain dicts and numbers, for the referee.

Operators' acts, lives and their configuration, writes as they arrive, orders with what they cost, accounts at the
moments at which Foxcast reads them, and calls that are paid for.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from bot.core.operator_requests import LockQuestion, UnlockQuestion, WithdrawForecast
from bot.simulator.faults import RequestFault
from bot.simulator.venues.polymarket_order_books import best_bid_and_ask, book_levels, mid_price
from bot.store.serialization import parse_timestamp
from tests.ledger_checks import read_rows
from tests.simulation.full_system import polymarket_orders

if TYPE_CHECKING:
    from pathlib import Path

    from bot.core.operator_requests import OperatorRequest
    from bot.simulator.request_log import LoggedRequest, RequestEffect
    from bot.simulator.venues.manifold_state import FakeManifoldBet, FakeManifoldMarket
    from bot.simulator.venues.polymarket_state import FakePolymarketMarket, FakePolymarketOrder, FakePolymarketState
    from tests.ledger_checks import Row
    from tests.simulation.full_system.daemon_lives import DaemonLives
    from tests.simulation.full_system.fake_venues import SimulationVenues

Fact = dict[str, Any]
# The calls that the forecaster of the simulation made: each counts as paid for.
PAID_CALLS: list[Fact] = []
# The ids of the messages that people got.
MESSAGES: set[str] = set()
# With these requests an account is read, and its shares are valued.
ACCOUNT_READS: Mapping[str, tuple[str, ...]] = {
    "manifold": ("/v0/me", "/v0/get-user-contract-metrics-with-contracts", "/v0/market/"),
    "polymarket": ("/balance-allowance", "/data-api/v2/positions", "/books"),
}
# Faults after which nothing was read at all, so that it is read again: no figure comes of them.
UNTOLD = (
    RequestFault.DROPPED_BEFORE,
    RequestFault.DROPPED_AFTER,
    RequestFault.TOO_MANY,
    RequestFault.ERROR_BEFORE,
    RequestFault.ERROR_AFTER,
    RequestFault.PAGE_BEFORE,
    RequestFault.PAGE_AFTER,
    RequestFault.TRUNCATED,
)
# The price of YES, or those of options.
Price = float | Mapping[str, float]
_ENDS: Mapping[str | None, float] = {"YES": 1.0, "NO": 0.0, "yes": 1.0, "no": 0.0}
MARKET = "/v0/market/"
# So often it is looked which questions are closed.
LOOK_S = 60.0
_POSITIONS = "select venue, paper, max(at, until) as at, body from account_reading where body <> '' order by id"
# The requests that name a question: a bet, and a forecast.
BET, FORECAST = "/v0/bet", "/api/questions/forecast/"
_KINDS: Mapping[str, str] = {
    "/v0/comment": "comment",
    "/api/comments/create/": "comment",
    polymarket_orders.LOGIN: "login",
}


@dataclass(slots=True, kw_only=True)
class WorldRecord:
    """All that was seen, in order of true time ``at_s``; ``clock`` is the time by the clock of Foxcast's machine."""

    bridges: SimulationVenues
    now: Callable[[], datetime]
    at_s: Callable[[], float]
    lives: DaemonLives | None = None
    acts: list[Fact] = field(default_factory=list)
    eras: list[Fact] = field(default_factory=list)
    writes: list[Fact] = field(default_factory=list)
    orders: dict[str, Fact] = field(default_factory=dict)
    accounts: list[Fact] = field(default_factory=list)
    books: dict[tuple[str, str], list[Fact]] = field(default_factory=dict)
    unread: list[Fact] = field(default_factory=list)
    marks: list[Fact] = field(default_factory=list)
    positions: list[Fact] = field(default_factory=list)
    readings: list[Row] = field(default_factory=list)
    closed: dict[str, list[list[datetime | None]]] = field(default_factory=dict)
    # The prices of questions since when, and when an answer of a venue may not have been what was true.
    prices: dict[str, list[tuple[datetime, Price]]] = field(default_factory=dict)
    spoilt: dict[str, list[datetime]] = field(default_factory=dict)
    # The middles of books of YES once an own order had come.
    _after_orders: dict[str, list[tuple[datetime, float]]] = field(default_factory=dict)
    _came: dict[tuple[str, int], Fact] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)
    _closes: dict[str, datetime | None] = field(default_factory=dict)
    # When closed questions were last looked at, the last bets whose prices are noted, and orders that are not over.
    _closed_s: float = -math.inf
    _closed_at: datetime | None = None
    _priced: dict[str, int] = field(default_factory=dict)
    _open_orders: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        PAID_CALLS.clear()
        MESSAGES.clear()

    def saw_act(self, kind: str, **details: object) -> None:
        """Note what a person did, under the configuration of that moment."""
        self.acts.append({**details, "kind": kind, **self._moment(), "config": self._config()})

    def saw_request_of_person(
        self, request: OperatorRequest, shown: Mapping[str, object] | None = None, *, name: str = ""
    ) -> None:
        """Note a request of a person, what that person was shown, and the name by which its answer is found."""
        details = asdict(request)
        if isinstance(request, LockQuestion | UnlockQuestion | WithdrawForecast):
            # As text: a reference is a record of its own.
            details["ref"] = str(request.ref)
        self.saw_act(**details, shown=dict(shown or {}), request=name)

    def saw_request(self, venue: str, heard: LoggedRequest, *, is_write: bool) -> None:
        """Note a write, or account and books where they are read; and a new life, with its first request."""
        assert self.lives is not None
        if self.lives.number > len(self.eras):
            self.eras.append(self._moment() | {"from_s": self.at_s(), "config": self._config()})
        if is_write:
            cancels = "cancel" in heard.path or heard.method == "DELETE"
            kind = "cancel" if cancels else _KINDS.get(heard.path, "write")
            body = json.loads(heard.body) if heard.body else {}
            fact = {**self._moment(), "venue": venue, "number": heard.number, "kind": kind, "body": body}
            fact |= {"questions": dict(self._asked_of(venue, heard.path, body)), "old_answers": self.old_answers(venue)}
            fact["unopened"] = [*self._unopened(heard.path, body)]
            self._came[venue, heard.number] = fact
            self.writes.append(fact | {"path": heard.path})
            return
        if venue == "polymarket" and heard.path in {"/book", "/books"}:
            is_told = self.bridges.all["polymarket"].faults_met.get(heard.number) not in UNTOLD
            self._saw_books(re.findall(r"\d{20,}", heard.query + heard.body.decode()), is_told=is_told)
        if venue == "manifold" and heard.path.startswith(MARKET):
            self._saw_market(heard)
        if heard.path.startswith(ACCOUNT_READS.get(venue, ("-",))):
            self.accounts.append(self._moment() | self._account(venue))

    def look(self) -> None:
        """Note orders that have come since the last look, and what each of them costs by now."""
        self._note_closes()
        # All questions are looked at, and a pass asks for much within seconds.
        if self.at_s() >= self._closed_s + LOOK_S:
            self._note_closed()
        self._note_prices()
        for venue in ("manifold", "polymarket"):
            service = self.bridges.all.get(venue)
            if service is None:
                continue
            effects = service.ledger.effects(since=self._known.get(venue, 0))
            self._known[venue] = self._known.get(venue, 0) + len(effects)
            for effect in [one for one in effects if one.kind in {"bet", "sell", "order"}]:
                if venue == "polymarket" or effect.account == self.bridges.trader:
                    self._add_order(venue, effect)
        for name in [*self._open_orders]:
            self._follow(self.orders[name])
            if self.orders[name]["is_over"]:
                del self._open_orders[name]

    def facts(self, undone: Collection[str] = ()) -> Fact:
        """Return everything, with accounts and contracts as they are now, and outcomes that were never taken back."""
        self.look()
        outcomes = {ref: one for name, ref, one in self._outcomes() if name not in undone}
        return {
            "outcomes": outcomes,
            "endings": dict(self._endings(undone)),
            "spots": dict(self._spots()),
            "undone": {*undone},
            **{
                name: getattr(self, name)
                for name in ("acts", "eras", "writes", "accounts", "books", "unread", "marks", "closed", "spoilt")
            },
            "prices": {**self._bet_prices(), **dict(self._exchange_prices()), **dict(self._event_prices())},
            "unnoted": dict(self._unnoted_bets()),
            "disturbed": {name: {*venue.faults_met} for name, venue in self.bridges.all.items()},
            "orders": [*self.orders.values()],
            "calls": [*PAID_CALLS],
            "bills": [{"true_time": at, **usage} for at, usage in self.bridges.environment.model_server.billed],
            "contracts": dict(self._contracts()),
            "trades": self._trades(),
            "foreign_orders": self.bridges.foreign_orders,
            "self_trades": [*self._self_trades()],
            "standing": dict(self._standing()),
            "last": [self._moment() | self._account(venue) for venue in ACCOUNT_READS if venue in self.bridges.all],
            **self._moment(),
        }

    def _standing(self) -> Iterator[tuple[str, list[float]]]:
        """Yield the open questions of Metaculus, and since when, by true time, each forecast of them stands."""
        contest, account = self.bridges.metaculus, self.bridges.environment.metaculus_account
        if contest is None or account is None:
            return
        now = contest.now()
        for asked in contest.state.questions.values():
            if asked.close > now and asked.resolution is None:
                mine = [one for one in asked.forecasts_of(account.id) if one.is_standing(now.timestamp())]
                since = [self.at_s() - now.timestamp() + one.start for one in mine]
                yield f"metaculus:{asked.post}:{asked.id}", since

    def _config(self) -> Fact:
        assert self.lives is not None
        return read_tables((self.lives.home / "config.toml").read_text(encoding="utf-8"))

    def _moment(self) -> Fact:
        return {"at_s": self.at_s(), "clock": self.now()}

    def _asked_of(self, venue: str, path: str, body: Any) -> Iterator[tuple[str, datetime | None]]:
        """Yield the references of the questions that a bet or a forecast is for, with the close that was announced."""
        if venue == "manifold" and path == BET:
            name, answer = str(body.get("contractId")), body.get("answerId")
            yield f"manifold:{name}", self._announced_close(name)
            if answer is not None:
                yield f"manifold:{name}/{answer}", self._announced_close(name)
        elif venue == "metaculus" and path == FORECAST and self.bridges.metaculus is not None:
            asked = self.bridges.metaculus.state.questions
            for question in [asked[item["question"]] for item in body if item.get("question") in asked]:
                yield f"metaculus:{question.post}:{question.id}", question.scheduled_close

    def _unopened(self, path: str, body: Any) -> Iterator[str]:
        """Yield the questions of Metaculus that a forecast is for and that are not open yet, which it takes."""
        if path == FORECAST and self.bridges.metaculus is not None:
            asked, now = self.bridges.metaculus.state.questions, self.bridges.metaculus.now()
            items = [item.get("question") for item in body]
            yield from (f"metaculus:{one}" for one in items if one in asked and asked[one].open > now)

    def _announced_close(self, name: str) -> datetime | None:
        """Return the latest close of a market that was announced so far: its creator may open it again."""
        first = self._closes.get(name)
        market = None if self.bridges.manifold is None else self.bridges.manifold.state.markets.get(name)
        if first is None or market is None or market.closes is None:
            return None
        later = [closes for _, (_, _, closes) in market.edits if closes is not None]
        return max(first, *map(_moment_of, [market.closes, *later]))

    def _note_closes(self) -> None:
        """Note when new markets close: a fault may close one before that."""
        markets = {} if self.bridges.manifold is None else self.bridges.manifold.state.markets
        for market in islice(markets.values(), len(self._closes), None):
            self._closes[market.id] = None if market.closes is None else _moment_of(market.closes)

    def _note_closed(self) -> None:
        """Note from when until when a question is closed at its venue, or one market of an event is.

        It was so from one look to the last one that saw it, at least.
        """
        before, now = self._closed_at, self.now()
        self._closed_s, self._closed_at = self.at_s(), now
        for ref, is_closed in self._closed_questions():
            spans = self.closed.setdefault(ref, [])
            if is_closed and (not spans or spans[-1][1] is not None):
                spans.append([now, None])
            elif not is_closed and spans and spans[-1][1] is None:
                spans[-1][1] = before or now

    def _note_prices(self) -> None:
        """Note the prices of markets of Manifold since their last bet, and whether faults came meanwhile."""
        markets = {} if self.bridges.manifold is None else self.bridges.manifold.state.markets
        for market in markets.values():
            since_ms = max(market.last_bet or 0, market.created)
            if self._priced.get(market.id) == since_ms:
                continue
            known, since = self.prices.setdefault(f"manifold:{market.id}", []), _moment_of(since_ms)
            self._priced[market.id] = since_ms
            is_known = market.type == "BINARY" or (market.type == "MULTIPLE_CHOICE" and market.sums_to_one)
            if is_known and (not known or known[-1][0] != since):
                options = {answer.text: answer.pool.prob for answer in market.answers}
                known.append((since, options or market.pool.prob))
        for name, venue in self.bridges.all.items():
            moments, count = self.spoilt.setdefault(name, []), venue.faults.injected.total()
            moments += [self.now()] * (count - len(moments))

    def _bet_prices(self) -> dict[str, list[tuple[datetime, Price]]]:
        """Return the prices that were noted, and those after bets between two looks, of which the stream tells."""
        if self.bridges.manifold is None:
            return self.prices
        found, state = {ref: [*known] for ref, known in self.prices.items()}, self.bridges.manifold.state
        for bet in state.bets.values():
            if state.markets[bet.market].type == "BINARY" and bet.amount:
                found.setdefault(f"manifold:{bet.market}", []).append((_moment_of(bet.created), bet.prob_after))
        return {ref: sorted(known, key=itemgetter(0)) for ref, known in found.items()}

    def _unnoted_bets(self) -> Iterator[tuple[str, list[datetime]]]:
        """Yield when bets moved the options of a market, where their prices between two looks are not known."""
        if self.bridges.manifold is None:
            return
        state = self.bridges.manifold.state
        moved: dict[str, set[datetime]] = defaultdict(set)
        for bet in state.bets.values():
            if bet.amount and state.markets[bet.market].answers:
                moved[f"manifold:{bet.market}"].add(_moment_of(bet.created))
        for ref, moments in moved.items():
            yield ref, sorted(moments - {at for at, _ in self.prices.get(ref, ())})

    def _event_prices(self) -> Iterator[tuple[str, list[tuple[datetime, Price]]]]:
        """Yield the middles of the books of the options of events since when."""
        known, exchange = dict(self._exchange_prices()), self.bridges.polymarket
        events: dict[str, dict[str, str]] = {}
        for market in () if exchange is None else exchange.state.markets.values():
            if market.neg_risk:
                events.setdefault(market.event, {})[market.item] = f"polymarket:{market.condition}"
        for event, members in events.items():
            moves = [(at, item, value) for item, ref in members.items() for at, value in known[ref]]
            current: dict[str, float] = {}
            found: list[tuple[datetime, Price]] = []
            for at, item, value in sorted(moves):
                if current.get(item) != value:
                    current = {**current, item: value}
                    found += [(at, current)] * (len(current) == len(members))
            yield f"polymarket:event:{event}", found

    def _exchange_prices(self) -> Iterator[tuple[str, list[tuple[datetime, float]]]]:
        """Yield the middle of the book of YES since when, of each market: as it moved, and when it was read."""
        markets = {} if self.bridges.polymarket is None else self.bridges.polymarket.state.markets
        for market in markets.values():
            found: list[tuple[datetime, float]] = [
                (datetime.fromtimestamp(at, UTC), float(middle)) for at, middle in market.history
            ]
            for seen in self.books.get((market.condition, "yes"), ()):
                bid, ask = seen["bid"] or 0.0, 1.0 if seen["ask"] is None else seen["ask"]
                found.append((seen["clock"], (bid + ask) / 2.0))
            found += self._after_orders.get(market.condition, ())
            yield f"polymarket:{market.condition}", sorted(found, key=itemgetter(0))

    def _closed_questions(self) -> Iterator[tuple[str, bool]]:
        if (manifold := self.bridges.manifold) is not None:
            now = manifold.now_ms()
            for market in manifold.state.markets.values():
                is_closed = market.resolution is not None or (market.closes is not None and market.closes <= now)
                names = [market.id, *(f"{market.id}/{answer.id}" for answer in market.answers)]
                yield from ((f"manifold:{name}", is_closed) for name in names)
        if (metaculus := self.bridges.metaculus) is not None:
            for asked in metaculus.state.questions.values():
                yield f"metaculus:{asked.post}:{asked.id}", asked.close <= metaculus.now()
        if (exchange := self.bridges.polymarket) is not None:
            events: dict[str, bool] = {}
            for other in exchange.state.markets.values():
                yield f"polymarket:{other.condition}", not other.trades_now
                events[other.event] = events.get(other.event, False) or not other.trades_now
            yield from ((f"polymarket:event:{event}", is_closed) for event, is_closed in events.items() if event)

    # Orders

    def _self_trades(self) -> Iterator[tuple[str, str]]:
        """Yield the bets of Foxcast at Manifold that an order of its own filled, with that order."""
        bets = {} if self.bridges.manifold is None else self.bridges.manifold.state.bets
        mine = {order["id"] for order in self.orders.values() if order["venue"] == "manifold"}
        for name in sorted(mine & bets.keys()):
            yield from ((name, fill["matchedBetId"]) for fill in bets[name].fills if fill.get("matchedBetId") in mine)

    def _add_order(self, venue: str, effect: RequestEffect) -> None:
        came = self._came[venue, effect.request]
        made = self._bet_facts(effect) if venue == "manifold" else self._exchange_order_facts(effect)
        order = {**came, "venue": venue, "id": effect.subject, "effect_s": self.at_s(), "stakes": [], **made}
        order |= {"is_over": False, "fills": []}
        self.orders[effect.subject] = order
        self._open_orders[effect.subject] = None
        self._follow(order)
        order["held"] = self._held(venue)
        if venue == "polymarket" and self.bridges.polymarket is not None:
            state = self.bridges.polymarket.state
            market = state.orders[effect.subject].market
            if (middle := mid_price(state, market, market.tokens[0])) is not None:
                self._after_orders.setdefault(market.condition, []).append((self.now(), float(middle)))

    def _follow(self, order: Fact) -> None:
        if order["venue"] == "manifold":
            assert self.bridges.manifold is not None
            bet, now = self.bridges.manifold.state.bets[order["id"]], self.bridges.manifold.now_ms()
            rests = bet.is_resting(now) and not bet.expired(now)
            stake, order["is_over"] = bet.order_amount if rests else bet.amount, not rests
            order["fills"], order["spent"] = [(bet.id, abs(bet.shares), -bet.amount)], bet.amount
        else:
            assert self.bridges.polymarket is not None
            state = self.bridges.polymarket.state
            mine = state.orders[order["id"]]
            trades = [*polymarket_orders.order_trades(mine, state)]
            stake = polymarket_orders.money_at_risk(mine, state)
            # What is matched is in the account at once, and leaves it again where the match fails.
            order["spent"] = -float(sum(cash for one, cash, _ in trades if one.status != "FAILED"))
            order["is_over"] = mine.status not in {"LIVE", "DELAYED"} and all(one.is_over for one, _, _ in trades)
            order["fills"] = [
                (one.id, float(size), float(cash)) for one, cash, size in trades if one.status == "CONFIRMED"
            ]
        if not order["stakes"] or order["stakes"][-1][1] != stake:
            order["stakes"].append((self.at_s(), stake))
        if order["is_over"] and "over_s" not in order:
            order["over_s"] = self.at_s() - self._expired_for(order)

    def _expired_for(self, order: Fact) -> float:
        """Return for how many seconds an order has been over since its own expiry."""
        service = self.bridges.all[order["venue"]]
        if order["venue"] == "manifold":
            assert self.bridges.manifold is not None
            expires = (self.bridges.manifold.state.bets[order["id"]].expires or 0) / 1000.0
        else:
            assert self.bridges.polymarket is not None
            expires = self.bridges.polymarket.state.orders[order["id"]].expires
        return max(0.0, service.now().timestamp() - expires) if expires else 0.0

    def _bet_facts(self, effect: RequestEffect) -> Fact:
        assert self.bridges.manifold is not None
        bet: FakeManifoldBet = self.bridges.manifold.state.bets[effect.subject]
        asked, is_sale = effect.detail["asked"], effect.kind == "sell"
        is_no, price = str(asked["outcome"]) == "NO", asked.get("limitProb")
        limit = {} if price is None else {"limit": 1.0 - float(price) if is_no else float(price)}
        return {
            **limit,
            "contract": f"{bet.market}/{bet.answer}" if bet.answer else bet.market,
            "side": "sell" if is_sale else "buy",
            "leg": str(asked["outcome"]).lower(),
            "asked": 0.0 if is_sale else float(asked["amount"]),
            "same_as": json.dumps(dict(asked), sort_keys=True, default=str),
        }

    def _exchange_order_facts(self, effect: RequestEffect) -> Fact:
        assert self.bridges.polymarket is not None
        order: FakePolymarketOrder = self.bridges.polymarket.state.orders[effect.subject]
        return {
            "contract": order.market.condition,
            "side": order.side.lower(),
            "leg": "yes" if order.token == order.market.tokens[0] else "no",
            "asked": polymarket_orders.maximum_cost(order),
            "limit": float(order.price),
            "type": order.kind,
            "same_as": order.id,
        }

    def _saw_books(self, tokens: Iterable[str], *, is_told: bool) -> None:
        """Note the books of both outcomes of the markets whose books are read, and whether the answer says them."""
        venue = self.bridges.polymarket
        assert venue is not None
        markets = [venue.state.tokens[token] for token in tokens if token in venue.state.tokens]
        for market in {market.condition: market for market in markets}.values():
            for leg, token in zip(("yes", "no"), market.tokens, strict=True):
                bid, ask = best_bid_and_ask(venue.state, market, token)
                best: Fact = {"bid": None if bid is None else float(bid), "ask": None if ask is None else float(ask)}
                seen = self._moment() | best | {"faults": self._faults("polymarket"), "token": token}
                seen |= {"is_told": is_told, "age_s": venue.now().timestamp() - market.moved_ms / 1000.0}
                seen |= _levels_of(venue.state, market, token)
                self.books.setdefault((market.condition, leg), []).append(seen)

    def _saw_market(self, heard: LoggedRequest) -> None:
        """Note the price of a market of Manifold that is read, and whether its answer does not say it."""
        venue, name = self.bridges.manifold, heard.path.removeprefix(MARKET).partition("/")[0]
        assert venue is not None
        if venue.faults_met.get(heard.number) in UNTOLD:
            self.unread.append(self._moment() | {"venue": "manifold", "market": name})
        if (market := venue.state.markets.get(name)) is None:
            return
        pools = {f"{name}/{answer.id}": answer.pool for answer in market.answers} or {name: market.pool}
        for contract, pool in pools.items():
            seen = self._moment() | {"prob": pool.prob, "faults": self._faults("manifold")}
            seen["pool"] = (pool.yes, pool.no, pool.p)
            now = venue.now_ms()
            answer = contract.partition("/")[2] or None
            seen["is_alone"] = (
                market.is_open(now)
                and not market.sums_to_one
                and not venue.state.book(name, answer, now)
                and (answer is None or getattr(market.answer(answer), "resolution", None) is None)
            )
            self.books.setdefault((contract, "pool"), []).append(seen)

    # Accounts

    def _account(self, venue: str) -> Fact:
        found = self._mana() if venue == "manifold" else self._dollars()
        return {"venue": venue, "faults": self._faults(venue), "old_answers": self.old_answers(venue), **found}

    def _faults(self, venue: str) -> int:
        """Return how many answers of a venue may not have been what was true at that moment, so far."""
        met = self.bridges.all[venue].faults.injected
        return met.total() - sum(met[fault] for fault in (*UNTOLD, RequestFault.MEANWHILE))

    def old_answers(self, venue: str) -> int:
        """Return how many answers of a venue were those of an earlier request, so far."""
        return self.bridges.all[venue].faults.injected[RequestFault.STALE]

    def _mana(self) -> Fact:
        venue = self.bridges.manifold
        assert venue is not None
        user, positions, loan = venue.state.users[self.bridges.trader], [], 0.0
        for (who, name, answer), one in venue.state.holdings.items():
            market = venue.state.markets[name]
            if who != user.id or market.resolved or max(one.yes, one.no) <= 1e-6:
                continue
            loan += one.loan + one.margin
            place = {"contract": f"{name}/{answer}" if answer else name, "pool": _pool(market, answer)}
            legs = (("yes", one.yes, one.costs["YES"]), ("no", one.no, one.costs["NO"]))
            positions += [{**place, "leg": leg, "shares": has, "paid": paid} for leg, has, paid in legs if has > 1e-6]
        now = venue.now_ms()
        # What the venue does not list yet nobody can count.
        listed_from = venue.state.listed_from
        listed = [bet for bet in venue.state.bets_by(user.id) if listed_from.get(bet.id, 0) <= now]
        mine = [bet for bet in listed if bet.is_resting(now) and not bet.expired(now)]
        free = user.balance - sum(bet.order_amount - bet.amount for bet in mine)
        return {"cash": user.balance - loan, "free": free, "moved": user.deposits, "positions": positions}

    def _dollars(self) -> Fact:
        venue, user = self.bridges.polymarket, self.bridges.environment.polymarket_account
        if venue is None or user is None:
            return {"cash": 0.0, "free": 0.0, "moved": 0.0, "positions": []}
        positions = []
        for token, shares in user.shares.items():
            market = venue.state.tokens[token]
            place = market.tokens.index(token)
            pays = None if market.payouts is None else float(market.payouts[place])
            bids = _levels_of(venue.state, market, token)["bids"]
            bid = (
                _average_of(bids, float(shares))
                if market.trades_now
                else best_bid_and_ask(venue.state, market, token)[0]
            )
            paid = user.spent.get(token, 0) + user.fees.get(token, 0)
            position: Fact = {"contract": market.condition, "leg": ("yes", "no")[place], "shares": float(shares)}
            position |= {"bid": float(bid or 0), "has_book": market.trades_now, "pays": pays, "paid": float(paid)}
            positions += [position] if shares > 0 else []
        free = float(user.cash - venue.state.tied_up(user, None))
        return {"cash": float(user.cash), "free": free, "moved": 0.0, "positions": positions}

    def _held(self, venue: str) -> dict[str, float]:
        """Return what the shares of undecided contracts have cost, with what open orders may still cost."""
        found = dict[str, float]()
        for one in self._account(venue)["positions"]:
            if one.get("pays") is None:
                found[one["contract"]] = found.get(one["contract"], 0.0) + one["paid"]
        for order in self.orders.values():
            if order["venue"] == venue and not order["is_over"] and order["side"] == "buy":
                found[order["contract"]] = found.get(order["contract"], 0.0) + order["stakes"][-1][1] - order["spent"]
        return found

    def _outcomes(self) -> Iterator[tuple[str, str, Fact]]:
        """Yield name, reference and outcome of yes-or-no questions: what YES pays, and what was said when."""
        for market in () if self.bridges.manifold is None else self.bridges.manifold.state.markets.values():
            share = market.resolution_prob if market.resolution == "MKT" else _ENDS.get(market.resolution)
            if market.type == "BINARY" and share is not None:
                name = f"manifold:{market.id}"
                yield name, name, {"yes": share}
        for other in () if self.bridges.polymarket is None else self.bridges.polymarket.state.markets.values():
            if not other.neg_risk and other.payouts is not None and any(other.payouts):
                name = f"polymarket:{other.condition}"
                yield name, name, {"yes": float(other.payouts[0])}
        contest, account = self.bridges.metaculus, self.bridges.environment.metaculus_account
        if contest is None or account is None:
            return
        for asked in contest.state.questions.values():
            if asked.type == "binary" and asked.resolution in _ENDS:
                said = [(one.start, one.end or math.inf, one.values[1]) for one in asked.forecasts_of(account.id)]
                spot = {"spot": min(asked.spot_time, asked.close).timestamp(), "said": said}
                name = f"metaculus:{asked.post}:{asked.id}"
                yield f"metaculus:{asked.id}", name, {"yes": _ENDS[asked.resolution], **spot}

    def _endings(self, undone: Collection[str]) -> Iterator[tuple[tuple[str, str], Fact]]:
        """Yield what a share of YES of each contract pays, None where stakes come back, and since when."""
        for market in () if self.bridges.manifold is None else self.bridges.manifold.state.markets.values():
            was_undone = f"manifold:{market.id}" in undone
            if not market.answers:
                share = market.resolution_prob if market.resolution == "MKT" else None
                at = market.resolution_time
                yield from _ending(market.id, market.resolution, at, was_undone=was_undone, share=share)
            for answer in market.answers:
                # Of answers that are decided together the one that the market names pays 1, or each pays its share.
                whole = market.resolution in {None, "CANCEL", "CHOOSE_MULTIPLE"}
                end = answer.resolution if market.resolution is None else market.resolution
                end = end if whole else ("NO", "YES")[market.resolution == answer.id]
                at, share = market.resolution_time or answer.resolution_time, answer.payout
                yield from _ending(f"{market.id}/{answer.id}", end, at, was_undone=was_undone, share=share)
        for other in () if self.bridges.polymarket is None else self.bridges.polymarket.state.markets.values():
            if other.payouts is not None and other.resolved_at is not None:
                since = datetime.fromtimestamp(other.resolved_at, UTC)
                was_undone = not any(other.payouts) or f"polymarket:{other.condition}" in undone
                ending = {"yes": float(other.payouts[0]), "since": since, "was_undone": was_undone}
                yield ("polymarket", other.condition), ending

    def _spots(self) -> Iterator[tuple[str, datetime]]:
        """Yield the questions of Metaculus that are scored at one moment, and that moment."""
        for asked in () if self.bridges.metaculus is None else self.bridges.metaculus.state.questions.values():
            if asked.score_type.startswith("spot_"):
                yield f"metaculus:{asked.post}:{asked.id}", asked.spot_time

    def _trades(self) -> dict[str, list[Fact]]:
        """Return what the crowd of the exchange traded, by contract, in terms of YES."""
        markets = {} if self.bridges.polymarket is None else self.bridges.polymarket.state.markets
        return {
            market.condition: [
                {
                    "at": _moment_of(one.at_ms),
                    "price": float(one.level),
                    "size": float(one.size),
                    "buys": one.is_bid,
                }
                for one in market.public_trades
            ]
            for market in markets.values()
        }

    def _contracts(self) -> Iterator[tuple[str, Fact]]:
        for market in () if self.bridges.manifold is None else self.bridges.manifold.state.markets.values():
            groups = {"event": market.id, "creator": market.creator, "category": (market.groups or ("",))[0]}
            names = [f"{market.id}/{answer.id}" for answer in market.answers] or [market.id]
            for name in names:
                ref = market.id if market.sums_to_one else name
                yield name, {**groups, "question": f"manifold:{ref}"}
        exchange = self.bridges.polymarket
        if exchange is None:
            return
        for other in exchange.state.markets.values():
            found: Fact = {"event": other.event if other.neg_risk else "", "creator": ""}
            found["category"] = (exchange.state.events[other.event].tags or ("",))[0]
            fees = None if other.fees is None else (float(other.fees.rate), float(other.fees.exponent))
            found |= {"question": f"polymarket:{other.condition}", "fees": fees, "delay_s": float(other.delay_s)}
            yield other.condition, found


def _levels_of(state: FakePolymarketState, market: FakePolymarketMarket, token: str) -> Fact:
    """Return what is shown of the book of a token: prices with shares, the best ones first; nothing once it is over."""
    is_first = token == market.tokens[0]
    sides: Fact = {}
    for name, is_bid in (("bids", True), ("asks", False)):
        shown = book_levels(state, market, bids=is_bid is is_first) if market.trades_now else {}
        levels = [(float(market.mirrored(token, price)), float(size)) for price, size in shown.items()]
        sides[name] = sorted(levels, reverse=is_bid)
    return {**sides, "tick": float(market.tick)}


def _average_of(bids: Iterable[tuple[float, float]], shares: float) -> float:
    """Return what a share brings on average if all are sold at the bids; those that nobody wants bring nothing."""
    left, brought = shares, 0.0
    for price, size in bids:
        part = min(left, size)
        left, brought = left - part, brought + part * price
    return brought / shares if shares > 0.0 else 0.0


def _ending(
    contract: str, resolution: str | None, at: int | None, *, was_undone: bool, share: float | None = None
) -> Iterator[tuple[tuple[str, str], Fact]]:
    """Yield how a contract of Manifold ended; an end that is neither YES nor NO nor called off may pay anything."""
    is_known = resolution in {*_ENDS, "CANCEL"} or share is not None
    if at is not None or was_undone:
        ending: Fact = {"yes": _ENDS.get(resolution, share), "since": None if at is None else _moment_of(at)}
        yield ("manifold", contract), ending | {"was_undone": was_undone or not is_known, "is_final": is_known}


def read_positions(ledger: Path) -> Iterator[Fact]:
    """Yield the undecided shares of the newest reading of each account."""
    for row in read_rows(ledger, _POSITIONS):
        for position in json.loads(row["body"]).get("positions", ()):
            if not position.get("decided"):
                yield {"venue": row["venue"], "paper": row["paper"], "clock": parse_timestamp(row["at"]), **position}


@lru_cache(maxsize=2)
def read_tables(text: str) -> Fact:
    """Return the tables of a configuration, which is asked for at each act of people and seldom changes."""
    return tomllib.loads(text)


def _moment_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000.0, UTC)


def _pool(market: FakeManifoldMarket, answer: str | None) -> tuple[float, float, float] | None:
    """Return the shares of YES and NO that the market maker has, and its weight; None where answers are linked."""
    if market.sums_to_one:
        return None
    found = market.answer(answer)
    pool = market.pool if found is None else found.pool
    return pool.yes, pool.no, pool.p
