"""From a belief to one limit order: policy in code.

Reads of ``Question.facts``: ``market``, the id of the market, and ``answer``, the id of the answer where the question
is about one alone. Options of a choice are the names of ``state.option_names``.

``Order.contract`` is the market's id, or ``market/answer``; prices of the order are those of a share of its leg, while
``terms`` speak the venue's language: ``market``, ``answer`` ("" for none), ``amount`` (mana, with cents),
``limit_prob`` (P(YES), as decimal text), ``type`` (the market's outcome type) and ``cancel`` (own open orders on the
other side, to be cancelled first). ``shares`` is what the stake brings on the market as it was read; the venue bounds
the stake alone. What is held against the belief is sold before anything is bought (``sales``); such an order has
neither ``amount`` nor ``limit_prob``.
Source: venue document, section 9.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal

from bot.api import (
    Binary,
    Choice,
    ClosingWish,
    ContractError,
    Curve,
    CurveShape,
    Leg,
    Order,
    Plan,
    Position,
    Prediction,
    Question,
    Rejected,
    Side,
    Wish,
)
from plugins.manifold.arbitrage import Board, Trade
from plugins.manifold.book import Take
from plugins.manifold.cpmm import LEAST_STAKE, crossing, fee
from plugins.manifold.kelly import PERCENT, Held, Purse, fraction, limit_of, shrunk
from plugins.manifold.reading import Reads, read_state
from plugins.manifold.sales import CURRENCY, DUST, OTHER, answers_first, closing_sale, sale_of, sellable
from plugins.manifold.state import TRADED, WHOLE, MarketState, Shares, contract_of, parts_of

# Answers that are looked at where the best one may not be traded.
_TRIES = 3
_CENT = Decimal("0.01")
# A pseudo-numeric market takes limits that are no whole percent.
_FINE = Decimal("0.001")


class ManifoldPlanner:
    """Implements the port Planner."""

    def __init__(self, client: Reads) -> None:
        self._client = client

    async def plan(self, wish: Wish) -> Plan:
        question = wish.question
        market = question.facts.get("market")
        if not market:
            message = f"{question.ref} names no market"
            raise Rejected(message)
        state = await self._state(wish, market)
        # Sizing in a market of many answers takes a second: not on the loop.
        return await asyncio.to_thread(planned, wish, state)

    async def plan_closing(self, wish: ClosingWish) -> Plan:
        state = await self._state(wish, parts_of(wish.position.contract)[0])
        if why := state.closed(now=wish.now):
            return Plan(why=why, state=state.to_json())
        found = await asyncio.to_thread(closing_sale, state, wish.position)
        if isinstance(found, str):
            return Plan(why=found, state=state.to_json())
        order = replace(found, option=wish.position.option)
        return Plan(why=_said(order), order=order, state=state.to_json())

    async def _state(self, wish: Wish | ClosingWish, market: str) -> MarketState:
        own = {order.id for order in wish.account.orders}
        try:
            state = await read_state(self._client, market, now=wish.now, own_orders=own)
        except ContractError as error:
            message = f"{wish.question.ref} cannot be traded: {error}"
            raise Rejected(message) from error
        return state.owning(shares_of(wish.account.positions, market))


def planned(wish: Wish, state: MarketState) -> Plan:
    """Return what to do about a wish on a market as it was read; raises Rejected for what is not traded."""
    if state.outcome_type not in TRADED:
        message = f"{wish.question.ref}: markets of type {state.outcome_type} are not traded"
        raise Rejected(message)
    text = state.to_json()
    if why := state.closed(now=wish.now):
        return Plan(why=why, state=text)
    prediction = wish.predictions[wish.question.targets[0].key]
    beliefs = _beliefs(wish.question, prediction, state)
    if isinstance(beliefs, str):
        return Plan(why=beliefs, state=text)
    desk = _Desk(wish, state, state.board(now=wish.now))
    by_gap = sorted(beliefs, key=lambda answer: -abs(beliefs[answer] - desk.board.probability(answer)))
    against = frozenset(answer for answer in beliefs if desk.is_held_against(answer, beliefs))
    best = answers_first(by_gap, against)
    reasons: list[str] = []
    for answer in best[: _TRIES + len(against)]:
        found = desk.order(answer, beliefs)
        if isinstance(found, Order):
            return Plan(why=_said(found), order=found, state=text)
        reasons.append(found)
    return Plan(why=reasons[0], state=text)


def shares_of(positions: tuple[Position, ...], market: str) -> tuple[Shares, ...]:
    """Return what an account holds of a market, by answer."""
    held: dict[str, dict[Leg, float]] = {}
    for position in positions:
        name, answer = parts_of(position.contract)
        if name == market:
            legs = held.setdefault(answer, dict.fromkeys(Leg, 0.0))
            legs[position.leg] += position.shares
    return tuple(Shares(answer=answer, yes=legs[Leg.YES], no=legs[Leg.NO]) for answer, legs in held.items())


def _beliefs(question: Question, prediction: Prediction, state: MarketState) -> dict[str, float] | str:
    """Return the belief in each answer by its id, or why there is none."""
    match prediction:
        case Binary(probability=probability):
            answer = state.answer(question.facts.get("answer", WHOLE))
            if answer is None:
                return "the market has no such answer any more"
            return "the answer is resolved" if answer.resolved else {answer.id: probability}
        case Choice(probabilities=probabilities):
            names = state.names
            if set(names) != set(probabilities):
                return "the answers have changed since the forecast"
            if any(answer.resolved for answer in state.answers):
                return "one of the answers is resolved already"
            return {names[name].id: probability for name, probability in probabilities.items()}
        case Curve():
            if state.scale is None or not isinstance(question.shape, CurveShape):
                message = f"{question.ref}: a curve answers only a pseudo-numeric market with its ends"
                raise Rejected(message)
            # A share pays a part; betting as if it paid all or nothing with that mean stakes less, never more.
            return {WHOLE: state.scale.mean(question.shape.grid, prediction)}


@dataclass(frozen=True, slots=True)
class _Bet:
    """What an order would be: the leg, what the belief pays for a share of it, and where to stop."""

    answer: str
    leg: Leg
    belief: float
    price: float

    @property
    def worth(self) -> float:
        return self.belief if self.leg is Leg.YES else 1.0 - self.belief

    @property
    def asked(self) -> float:
        return self.price if self.leg is Leg.YES else 1.0 - self.price

    def edge(self, trade: Trade) -> float:
        """What a share gains by the belief, after fees."""
        if trade.shares <= 0.0:
            return self.worth - self.asked
        return self.worth - (trade.stake + fee(trade.stake)) / trade.shares


class _Desk:
    """A wish at its market."""

    def __init__(self, wish: Wish, state: MarketState, board: Board) -> None:
        self.wish, self.state, self.board = wish, state, board
        held = {own.answer: Held(own.yes, own.no) for own in state.own if own.answer in board.pools}
        self.purse = Purse(cash=max(wish.account.cash, 0.0), held=held)
        self.step = _FINE if state.outcome_type == "PSEUDO_NUMERIC" else PERCENT

    def is_held_against(self, answer: str, beliefs: Mapping[str, float]) -> bool:
        """Say whether shares are held that the belief has to be given up."""
        bet = self._bet(answer, beliefs)
        return self._held_against(bet) > DUST and bet.worth - bet.asked >= self.wish.appetite.edge

    def order(self, answer: str, beliefs: Mapping[str, float]) -> Order | str:
        """Return an order on that answer, or why there is none."""
        bet = self._bet(answer, beliefs)
        if self._held_against(bet) > DUST:
            return self._sale(bet)
        if why := self._passed(bet) or self._resting(bet):
            return why
        appetite, belief, price = self.wish.appetite, bet.belief, bet.price
        advice = fraction(self.board, answer, self.purse, _scaled(beliefs, answer, belief), share=appetite.kelly)
        if advice.leg is not bet.leg or advice.trade.stake <= 0.0:
            return f"what is held is enough for a belief of {belief:.3f} at {price:.3f}"
        return self._limited(bet, min(advice.trade.stake, appetite.most, self.purse.cash))

    def _bet(self, answer: str, beliefs: Mapping[str, float]) -> _Bet:
        price = self.board.probability(answer)
        belief = shrunk(beliefs[answer], price, self.wish.appetite.shrink)
        return _Bet(answer, Leg.YES if belief > price else Leg.NO, belief, price)

    def _held_against(self, bet: _Bet) -> float:
        held = self.purse.held.get(bet.answer, Held())
        return held.no if bet.leg is Leg.YES else held.yes

    def _sale(self, bet: _Bet) -> Order | str:
        """Sell what is held against the belief, for no less than it is worth; it takes no cash and no new risk."""
        leg, held, worth = OTHER[bet.leg], self._held_against(bet), 1.0 - bet.worth
        if bet.worth - bet.asked < self.wish.appetite.edge:
            least = self.wish.appetite.edge
            return f"{held:.2f} {leg} are held, and the belief {bet.belief:.3f} is within {least:g} of {bet.price:.3f}"
        if why := self._resting(bet):
            return why
        shares = sellable(self.board, bet.answer, leg, held, worth)
        if shares <= DUST:
            return f"{held:.2f} {leg} are held, and would not bring enough to be given up: worth {worth:.3f}"
        found = sale_of(self.state, self.board, bet.answer, leg, shares, worth=worth)
        return found if isinstance(found, str) else replace(found, option=self._option(bet.answer))

    def _passed(self, bet: _Bet) -> str | None:
        appetite = self.wish.appetite
        low, high = appetite.band
        if not low <= bet.asked <= high:
            return f"{bet.leg} stands at {bet.asked:.3f}, outside the band {low:g} to {high:g}"
        if bet.worth - bet.asked < appetite.edge:
            return f"the belief {bet.belief:.3f} is within {appetite.edge:g} of the market's {bet.price:.3f}"
        if min(self.purse.cash, appetite.most) < LEAST_STAKE:
            return f"{min(self.purse.cash, appetite.most):.2f} may be spent, less than the least bet"
        return None

    def _resting(self, bet: _Bet) -> str | None:
        contract = contract_of(self.state.market, bet.answer)
        same = [o.id for o in self.wish.account.orders if o.contract == contract and o.leg is bet.leg]
        return f"an order of its own on {bet.leg} rests there: {same[0]}" if same else None

    def _limited(self, bet: _Bet, stake: float) -> Order | str:
        """Put a limit to a stake, and cut it to what fills within limit and edge."""
        after = self.board.trade(bet.answer, Take(leg=bet.leg, stake=stake, limit=bet.belief)).marginal
        limit = limit_of(bet.leg, after=after, belief=bet.belief, step=self.step)
        if limit is None or (float(limit) - bet.price) * (1.0 if bet.leg is Leg.YES else -1.0) <= 0.0:
            return f"no limit fits between the market's {bet.price:.3f} and the belief {bet.belief:.3f}"

        def trade(amount: float) -> Trade:
            return self.board.trade(bet.answer, Take(leg=bet.leg, stake=amount, limit=float(limit)))

        filled = trade(stake).stake
        least = self.wish.appetite.edge
        kept = crossing(lambda amount: bet.edge(trade(amount)) - least, 0.0, filled)
        amount = Decimal(repr(kept)).quantize(_CENT, ROUND_FLOOR)
        if amount < LEAST_STAKE:
            return f"a stake of {amount}, less than the least bet"
        final = trade(float(amount))
        if final.drains:
            return "the pool is too small"
        return self._written(bet, final, amount, limit)

    def _written(self, bet: _Bet, trade: Trade, amount: Decimal, limit: Decimal) -> Order:
        contract = contract_of(self.state.market, bet.answer)
        against = [o.id for o in self.wish.account.orders if o.contract == contract and o.leg is not bet.leg]
        return Order(
            contract=contract,
            leg=bet.leg,
            side=Side.BUY,
            shares=trade.shares,
            limit=float(limit if bet.leg is Leg.YES else 1 - limit),
            cost=float(amount) + fee(float(amount)),
            expected=trade.stake / trade.shares,
            currency=CURRENCY,
            option=self._option(bet.answer),
            fees=fee(float(amount)),
            edge=bet.edge(trade),
            terms={
                "market": self.state.market,
                "answer": bet.answer,
                "amount": float(amount),
                "limit_prob": str(limit),
                "type": self.state.outcome_type,
                "cancel": list(against),
            },
        )

    def _option(self, answer: str) -> str:
        about_one = "answer" in self.wish.question.facts
        return "" if self.state.answer(answer) is None or about_one else _name(self.state, answer)


def _name(state: MarketState, answer: str) -> str:
    return next((name for name, a in state.names.items() if a.id == answer and answer != WHOLE), "")


def _scaled(beliefs: Mapping[str, float], answer: str, belief: float) -> dict[str, float]:
    """Return the beliefs with that of one answer replaced, and those of the others made to sum with it to 1."""
    if len(beliefs) == 1:
        return {answer: belief}
    rest = sum(probability for name, probability in beliefs.items() if name != answer)
    even = (1.0 - belief) / (len(beliefs) - 1)
    others = {name: p * (1.0 - belief) / rest if rest > 0.0 else even for name, p in beliefs.items()}
    return {**others, answer: belief}


def _said(order: Order) -> str:
    what = f" of {order.option}" if order.option else ""
    if order.side is Side.SELL:
        brings = order.shares * order.expected
        return f"sell {order.shares:.2f} {order.leg}{what} at {order.expected:.3f}, which brings {brings:.2f}"
    amount, limit = order.terms["amount"], order.terms["limit_prob"]
    return f"{amount} on {order.leg}{what} at {order.expected:.3f}, P(YES) to {limit}, edge {order.edge:.3f} a share"
