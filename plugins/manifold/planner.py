"""Plans one limit order from a belief.

Uses ``Question.market``, the id of the market, and the fact ``answer``, the id of the answer if the question is
about one only. Options of a choice are the names of ``state.option_names``.

``Order.contract`` is the market's id, or ``market/answer``; prices of the order are those of a share of its leg, while
``terms`` have the venue's form: ``market``, ``answer`` ("" for none), ``limit_prob`` (P(YES), as decimal text) and
``type`` (the market's outcome type). ``shares`` is what the stake (mana, with cents) buys on the market as it was read;
the venue bounds only the stake. Shares held against the belief are sold before anything is bought (``sales``); such an
order has neither ``stake`` nor ``limit_prob``. Source: docs/facts/manifold.md#sizing.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal

from bot.api import (
    BinaryPrediction,
    ChoicePrediction,
    ClosingProposal,
    ContractSide,
    CurvePrediction,
    CurveShape,
    HeldShares,
    KellyBankroll,
    MalformedDataError,
    Order,
    OrderPlan,
    OrderSide,
    Position,
    Prediction,
    Question,
    RequestRejectedError,
    TradeProposal,
    rescale_beliefs,
    share_value,
    shrink_to_market,
    sum_held_shares,
)
from plugins.manifold.book_walk import PoolTakerOrder
from plugins.manifold.cpmm import MIN_STAKE, find_root, taker_fee
from plugins.manifold.kelly_sizing import (
    PRICE_PERCENT,
    fractional_kelly_stake,
    limit_probability,
)
from plugins.manifold.market_simulation import SimulatedMarket, SimulatedTrade
from plugins.manifold.market_state import (
    TRADED_TYPES,
    WHOLE_MARKET,
    AnswerShares,
    ManifoldMarketSource,
    ManifoldMarketState,
    contract_name,
    read_market_state,
    split_contract,
)
from plugins.manifold.sales import (
    CURRENCY,
    MIN_SALE_SHARES,
    OPPOSITE_SIDE,
    plan_closing_sale,
    plan_sale,
    prioritize_held_answers,
    sellable_shares,
)

# How many answers are tried if the best one may not be traded.
_MAX_TRIED_ANSWERS = 3
_CENT = Decimal("0.01")
# A pseudo-numeric market accepts limits in tenths of a percent.
_FINE_PRICE_STEP = Decimal("0.001")


class ManifoldPlanner:
    """Implements ``OrderPlanner``."""

    def __init__(self, client: ManifoldMarketSource) -> None:
        self._client = client

    async def plan_order(self, proposal: TradeProposal) -> OrderPlan:
        question = proposal.question
        if not question.market:
            message = f"{question.ref} has no market"
            raise RequestRejectedError(message)
        state = await self._state(proposal, question.market)
        # Sizing in a market of many answers takes a second, so it runs off the event loop.
        return await asyncio.to_thread(plan_on_state, proposal, state)

    async def plan_closing(self, proposal: ClosingProposal) -> OrderPlan:
        state = await self._state(proposal, split_contract(proposal.position.contract)[0])
        if why := state.closed_reason(now=proposal.now):
            return OrderPlan(why=why, market_state=state.to_json())
        result = await asyncio.to_thread(plan_closing_sale, state, proposal.position)
        if isinstance(result, str):
            return OrderPlan(why=result, market_state=state.to_json())
        order = replace(result, option=proposal.position.option)
        return OrderPlan(why=_describe_order(order), order=order, market_state=state.to_json())

    async def _state(self, proposal: TradeProposal | ClosingProposal, market: str) -> ManifoldMarketState:
        own = {order.id for order in proposal.account.orders}
        try:
            state = await read_market_state(self._client, market, now=proposal.now, own_orders=own)
        except MalformedDataError as error:
            message = f"{proposal.question.ref} cannot be traded: {error}"
            raise RequestRejectedError(message) from error
        return state.with_own_shares(shares_by_answer(proposal.account.positions, market))


def plan_on_state(proposal: TradeProposal, state: ManifoldMarketState) -> OrderPlan:
    """Return the plan for a proposal on a market as it was read; raises RequestRejectedError if it is not traded."""
    if state.outcome_type not in TRADED_TYPES:
        message = f"{proposal.question.ref}: markets of type {state.outcome_type} are not traded"
        raise RequestRejectedError(message)
    text = state.to_json()
    if why := state.closed_reason(now=proposal.now):
        return OrderPlan(why=why, market_state=text)
    prediction = proposal.predictions[proposal.question.targets[0].key]
    beliefs = _answer_beliefs(proposal.question, prediction, state)
    if isinstance(beliefs, str):
        return OrderPlan(why=beliefs, market_state=text)
    sizer = _ProposalSizer(proposal, state, state.simulated_market(now=proposal.now))
    by_gap = sorted(beliefs, key=lambda answer: -abs(beliefs[answer] - sizer.market.probability(answer)))
    against = frozenset(answer for answer in beliefs if sizer.is_held_against(answer, beliefs))
    best = prioritize_held_answers(by_gap, against)
    reasons: list[str] = []
    for answer in best[: _MAX_TRIED_ANSWERS + len(against)]:
        result = sizer.build_order(answer, beliefs)
        if isinstance(result, Order):
            return OrderPlan(why=_describe_order(result), order=result, market_state=text, min_cost=MIN_STAKE)
        reasons.append(result)
    return OrderPlan(why=reasons[0], market_state=text)


def shares_by_answer(positions: tuple[Position, ...], market: str) -> tuple[AnswerShares, ...]:
    """Return what an account holds of a market, by answer."""

    def answer_of(position: Position) -> str | None:
        name, answer = split_contract(position.contract)
        return answer if name == market else None

    held = sum_held_shares(positions, answer_of)
    return tuple(AnswerShares(answer=answer, yes=one.yes, no=one.no) for answer, one in held.items())


def _answer_beliefs(question: Question, prediction: Prediction, state: ManifoldMarketState) -> dict[str, float] | str:
    """Return the belief in each answer by its id, or why there are none."""
    match prediction:
        case BinaryPrediction(probability=probability):
            answer = state.answer(question.facts.get("answer", WHOLE_MARKET))
            if answer is None:
                return "the market no longer has this answer"
            return "the answer is resolved" if answer.resolved else {answer.id: probability}
        case ChoicePrediction(probabilities=probabilities):
            names = state.answers_by_option
            if set(names) != set(probabilities):
                return "the answers have changed since the forecast"
            if any(answer.resolved for answer in state.answers):
                return "one of the answers is resolved already"
            return {names[name].id: probability for name, probability in probabilities.items()}
        case CurvePrediction():
            if state.scale is None or not isinstance(question.shape, CurveShape):
                message = f"{question.ref}: a curve answers only a pseudo-numeric market with its ends"
                raise RequestRejectedError(message)
            # A share pays a part; sizing as if it paid all or nothing with that mean stakes less, never more.
            return {WHOLE_MARKET: state.scale.expected_payout(question.shape.grid, prediction)}


@dataclass(frozen=True, slots=True)
class _BetCandidate:
    """A possible bet: the leg, the belief, and the market price."""

    answer: str
    leg: ContractSide
    belief: float
    price: float

    @property
    def worth(self) -> float:
        return share_value(self.leg, self.belief)

    @property
    def side_price(self) -> float:
        return share_value(self.leg, self.price)

    def edge(self, trade: SimulatedTrade) -> float:
        """Return the expected gain per share after fees."""
        if trade.shares <= 0.0:
            return self.worth - self.side_price
        return self.worth - (trade.stake + taker_fee(trade.stake)) / trade.shares


class _ProposalSizer:
    """Sizes the order of one proposal on its market."""

    def __init__(self, proposal: TradeProposal, state: ManifoldMarketState, market: SimulatedMarket) -> None:
        self.proposal, self.state, self.market = proposal, state, market
        held = {own.answer: HeldShares(own.yes, own.no) for own in state.own if own.answer in market.pools}
        self.bankroll = KellyBankroll(cash=max(proposal.account.cash, 0.0), held=held)
        self.step = _FINE_PRICE_STEP if state.outcome_type == "PSEUDO_NUMERIC" else PRICE_PERCENT

    def is_held_against(self, answer: str, beliefs: Mapping[str, float]) -> bool:
        """Return whether shares are held that should be sold by the belief."""
        bet = self._bet_candidate(answer, beliefs)
        return (
            self._shares_held_against(bet) > MIN_SALE_SHARES
            and bet.worth - bet.side_price >= self.proposal.sizing.min_edge
        )

    def build_order(self, answer: str, beliefs: Mapping[str, float]) -> Order | str:
        """Return an order on that answer, or why there is none."""
        bet = self._bet_candidate(answer, beliefs)
        if self._shares_held_against(bet) > MIN_SALE_SHARES:
            return self._build_sale(bet)
        if why := self._purchase_objection(bet) or self._resting_order_objection(bet):
            return why
        sizing, belief, price = self.proposal.sizing, bet.belief, bet.price
        kelly = fractional_kelly_stake(
            self.market, answer, self.bankroll, rescale_beliefs(beliefs, answer, belief), share=sizing.kelly_fraction
        )
        if kelly.leg is not bet.leg or kelly.trade.stake <= 0.0:
            return f"the held shares are enough for a belief of {belief:.3f} at {price:.3f}"
        return self._build_limited_order(bet, min(kelly.trade.stake, sizing.max_cost, self.bankroll.cash))

    def _bet_candidate(self, answer: str, beliefs: Mapping[str, float]) -> _BetCandidate:
        price = self.market.probability(answer)
        belief = shrink_to_market(beliefs[answer], price, self.proposal.sizing.market_shrinkage)
        return _BetCandidate(answer, ContractSide.YES if belief > price else ContractSide.NO, belief, price)

    def _shares_held_against(self, bet: _BetCandidate) -> float:
        return self.bankroll.held.get(bet.answer, HeldShares()).of_side(OPPOSITE_SIDE[bet.leg])

    def _build_sale(self, bet: _BetCandidate) -> Order | str:
        """Sell shares held against the belief, for no less than their worth; this needs no cash and adds no risk."""
        leg, held, worth = OPPOSITE_SIDE[bet.leg], self._shares_held_against(bet), 1.0 - bet.worth
        if bet.worth - bet.side_price < self.proposal.sizing.min_edge:
            least = self.proposal.sizing.min_edge
            return f"{held:.2f} {leg} are held, and the belief {bet.belief:.3f} is within {least:g} of {bet.price:.3f}"
        if why := self._resting_order_objection(bet):
            return why
        shares = sellable_shares(self.market, bet.answer, leg, held, worth)
        if shares <= MIN_SALE_SHARES:
            return f"{held:.2f} {leg} are held, but selling brings less than their worth of {worth:.3f}"
        result = plan_sale(self.state, self.market, bet.answer, leg, shares, worth=worth)
        return result if isinstance(result, str) else replace(result, option=self._option(bet.answer))

    def _purchase_objection(self, bet: _BetCandidate) -> str | None:
        sizing = self.proposal.sizing
        low, high = sizing.price_band
        if not low <= bet.side_price <= high:
            return f"{bet.leg} is at {bet.side_price:.3f}, outside the band {low:g} to {high:g}"
        if bet.worth - bet.side_price < sizing.min_edge:
            return f"the belief {bet.belief:.3f} is within {sizing.min_edge:g} of the market's {bet.price:.3f}"
        if min(self.bankroll.cash, sizing.max_cost) < MIN_STAKE:
            return f"{min(self.bankroll.cash, sizing.max_cost):.2f} may be spent, less than the minimum bet"
        return None

    def _resting_order_objection(self, bet: _BetCandidate) -> str | None:
        contract = contract_name(self.state.market, bet.answer)
        same = [o.id for o in self.proposal.account.orders if o.contract == contract and o.leg is bet.leg]
        return f"our own order on {bet.leg} already rests: {same[0]}" if same else None

    def _build_limited_order(self, bet: _BetCandidate, stake: float) -> Order | str:
        """Set the limit of a stake, and cut it to what fills within limit and edge."""
        after = self.market.simulate_trade(
            bet.answer, PoolTakerOrder(leg=bet.leg, stake=stake, limit=bet.belief)
        ).marginal_price
        limit = limit_probability(bet.leg, after=after, belief=bet.belief, step=self.step)
        if limit is None or (float(limit) - bet.price) * (1.0 if bet.leg is ContractSide.YES else -1.0) <= 0.0:
            return f"no limit fits between the market's {bet.price:.3f} and the belief {bet.belief:.3f}"

        def trade(amount: float) -> SimulatedTrade:
            return self.market.simulate_trade(bet.answer, PoolTakerOrder(leg=bet.leg, stake=amount, limit=float(limit)))

        filled = trade(stake).stake
        least = self.proposal.sizing.min_edge
        affordable = find_root(lambda amount: bet.edge(trade(amount)) - least, 0.0, filled)
        amount = Decimal(repr(affordable)).quantize(_CENT, ROUND_FLOOR)
        if amount < MIN_STAKE:
            return f"a stake of {amount}, less than the minimum bet"
        final = trade(float(amount))
        if final.drains_pool:
            return "the pool is too small"
        return self._build_purchase(bet, final, amount, limit)

    def _build_purchase(self, bet: _BetCandidate, trade: SimulatedTrade, amount: Decimal, limit: Decimal) -> Order:
        contract = contract_name(self.state.market, bet.answer)
        against = [o.id for o in self.proposal.account.orders if o.contract == contract and o.leg is not bet.leg]
        return Order(
            contract=contract,
            leg=bet.leg,
            side=OrderSide.BUY,
            shares=trade.shares,
            limit=float(limit if bet.leg is ContractSide.YES else 1 - limit),
            cost=float(amount) + taker_fee(float(amount)),
            expected=trade.stake / trade.shares,
            currency=CURRENCY,
            option=self._option(bet.answer),
            fees=taker_fee(float(amount)),
            edge=bet.edge(trade),
            terms={
                "market": self.state.market,
                "answer": bet.answer,
                "limit_prob": str(limit),
                "type": self.state.outcome_type,
            },
            stake=float(amount),
            cancels=tuple(against),
        )

    def _option(self, answer: str) -> str:
        about_one = "answer" in self.proposal.question.facts
        return "" if self.state.answer(answer) is None or about_one else _option_name(self.state, answer)


def _option_name(state: ManifoldMarketState, answer: str) -> str:
    return next((name for name, a in state.answers_by_option.items() if a.id == answer and answer != WHOLE_MARKET), "")


def _describe_order(order: Order) -> str:
    of_option = f" of {order.option}" if order.option else ""
    if order.side is OrderSide.SELL:
        brings = order.shares * order.expected
        return f"sell {order.shares:.2f} {order.leg}{of_option} at {order.expected:.3f}, which brings {brings:.2f}"
    price = f"at {order.expected:.3f}, P(YES) to {order.terms['limit_prob']}"
    return f"{order.stake} on {order.leg}{of_option} {price}, edge {order.edge:.3f} per share"
