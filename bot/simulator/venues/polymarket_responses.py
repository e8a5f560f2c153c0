"""The JSON records of the fake Polymarket's responses."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from bot.simulator.venues import polymarket_order_books as books
from bot.simulator.venues.polymarket_state import (
    UNSET_PRICE,
    FakePolymarketEvent,
    FakePolymarketMarket,
    FakePolymarketOrder,
    FakePolymarketState,
    FakePolymarketTrade,
    FakePolymarketUser,
    decimal_text,
)

MILLION = Decimal(1_000_000)


def iso_text(moment: int) -> str:
    """Return a moment as most fields have it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_millionths(value: Decimal) -> str:
    """Return dollars or shares in millionths."""
    return str(int(value * MILLION))


def market_row(state: FakePolymarketState, market: FakePolymarketMarket, *, nested: bool = False) -> dict[str, Any]:
    """Return a market as the describing interface has it; its prices are from that interface's own clock."""
    event = state.events.get(market.event)
    row: dict[str, Any] = {
        "id": market.id,
        "question": market.question,
        "conditionId": market.condition,
        "slug": market.slug,
        "version": market.version,
        "description": market.description,
        "resolutionSource": "",
        "startDate": iso_text(market.created),
        "createdAt": iso_text(market.created),
        "endDate": iso_text(market.end),
        "outcomes": json.dumps(list(market.outcomes)),
        "outcomePrices": json.dumps([decimal_text(price) for price in _outcome_prices(state, market)]),
        "active": market.active,
        "closed": market.closed,
        "archived": market.archived,
        "acceptingOrders": market.accepting,
        "enableOrderBook": market.has_book,
        "negRisk": market.neg_risk,
        "negRiskOther": market.is_other,
        "groupItemTitle": market.item,
        "questionID": f"0x{int(market.id):064x}",
        "orderMinSize": float(market.min_size) if market.min_size % 1 else int(market.min_size),
        "orderPriceMinTickSize": float(market.tick),
        "secondsDelay": float(market.delay_s) if market.delay_s % 1 else int(market.delay_s),
        "volume": decimal_text(market.volume),
        "volumeNum": float(market.volume),
        "volume24hr": float(market.volume_day),
        "liquidity": decimal_text(market.liquidity),
        "liquidityNum": float(market.liquidity),
        "takerBaseFee": 1000,
        "makerBaseFee": 1000,
        **_fee_fields(market),
        **_quote_fields(state, market),
        **_token_ids(market),
        **_end_fields(market),
    }
    if event is not None and event.neg_risk:
        row["negRiskMarketID"] = event.group
    if event is not None and not nested:
        row["events"] = [event_row(state, event, nested=True)]
    return row


def event_row(state: FakePolymarketState, event: FakePolymarketEvent, *, nested: bool = False) -> dict[str, Any]:
    """Return an event with all its markets, also closed ones and placeholders."""
    markets = [state.markets[condition] for condition in event.markets]
    row: dict[str, Any] = {
        "id": event.id,
        "slug": event.slug,
        "ticker": event.slug,
        "title": event.title,
        "description": event.description,
        "endDate": iso_text(event.end),
        "active": True,
        "closed": is_closed(state, event),
        "archived": False,
        "negRisk": event.neg_risk,
        "negRiskAugmented": event.augmented,
        "volume": float(sum(market.volume for market in markets)),
        "volume24hr": float(sum(market.volume_day for market in markets)),
        "liquidity": float(sum(market.liquidity for market in markets)),
        "tags": [tag_row(slug) for slug in event.tags],
    }
    if event.neg_risk:
        row["negRiskMarketID"] = event.group
    return row if nested else {**row, "markets": [market_row(state, market, nested=True) for market in markets]}


def is_closed(state: FakePolymarketState, event: FakePolymarketEvent) -> bool:
    """Return whether all markets of an event are closed."""
    return bool(event.markets) and all(state.markets[condition].closed for condition in event.markets)


def tag_row(slug: str) -> dict[str, str]:
    """Return a tag; its number comes from its name."""
    return {"id": tag_id(slug), "slug": slug, "label": slug.replace("-", " ").title()}


def tag_id(slug: str) -> str:
    """Return the number of a tag."""
    return str(1_000 + zlib.crc32(slug.encode()) % 1_000_000)


def short_row(market: FakePolymarketMarket) -> dict[str, Any]:
    """Return the terms of a market under the exchange's short names; false and free ones are omitted."""
    row: dict[str, Any] = {
        "c": market.condition,
        "t": [{"t": token, "o": name} for token, name in zip(market.tokens, market.outcomes, strict=True)],
        "mts": float(market.tick),
        "mos": float(market.min_size) if market.min_size % 1 else int(market.min_size),
        "ao": market.accepting,
        "mbf": 1000,
        "tbf": 1000,
        "v": market.version,
    }
    if market.neg_risk:
        row["nr"] = True
    if market.fees is not None:
        row["fd"] = {"r": float(market.fees.rate), "e": float(market.fees.exponent), "to": True}
    if market.is_delayed:
        row["itode"] = True
    if market.delay_s:
        row["sd"] = float(market.delay_s)
    return row


def long_row(state: FakePolymarketState, market: FakePolymarketMarket) -> dict[str, Any]:
    """Return a market as the exchange has it, with the winner."""
    payouts = market.payouts
    tokens = [
        {
            "token_id": token,
            "outcome": market.outcomes[index],
            "price": float(_outcome_prices(state, market)[index]),
            "winner": payouts is not None and payouts[index] == 1,
        }
        for index, token in enumerate(market.tokens)
    ]
    return {
        "condition_id": market.condition,
        "question": market.question,
        "description": market.description,
        "market_slug": market.slug,
        "end_date_iso": iso_text(market.end),
        "active": market.active,
        "closed": market.closed,
        "archived": market.archived,
        "accepting_orders": market.accepting,
        "enable_order_book": market.has_book,
        "minimum_order_size": float(market.min_size),
        "minimum_tick_size": float(market.tick),
        "neg_risk": market.neg_risk,
        "is_50_50_outcome": payouts is not None and payouts[0] == payouts[1] == Decimal("0.5"),
        "tokens": tokens,
    }


def resolution_row(market: FakePolymarketMarket) -> dict[str, Any]:
    """Return the state of a market at the oracle: payouts in millionths, 69 for a price that is not set."""
    price = UNSET_PRICE if market.settled is None else market.settled
    return {
        "question_id": f"0x{int(market.id):064x}",
        "condition_id": market.condition,
        "status": market.oracle,
        "payouts": None if market.payouts is None else [int(part * MILLION) for part in market.payouts],
        "price": decimal_text(price),
        "proposed_price": decimal_text(UNSET_PRICE if market.proposed is None else market.proposed),
        "reproposed_price": decimal_text(UNSET_PRICE if market.reproposed is None else market.reproposed),
        "was_disputed": market.was_disputed,
        "was_arbitrated": False,
        "new_version_q": market.new_version,
        "extended_review": False,
        "expected_settlement_time": None,
        "settlement_time_basis": None,
        "resolved_at": None if market.resolved_at is None else iso_text(market.resolved_at),
        "reporter": "UMA_OO",
        "resolution_source": None if market.payouts is None else "reported",
        "market_type": "INCREMENTAL_NEGRISK" if market.neg_risk else "BINARY",
        "transaction_hash": None,
        "log_index": None,
        "resolved_block": None,
        "last_update_timestamp": market.updated,
    }


def order_row(order: FakePolymarketOrder) -> dict[str, Any]:
    """Return an open order."""
    return {
        "id": order.id,
        "status": order.status,
        "owner": order.user.key,
        "maker_address": order.user.wallet,
        "market": order.market.condition,
        "asset_id": order.token,
        "side": order.side,
        "original_size": decimal_text(order.size),
        "size_matched": decimal_text(order.matched),
        "price": decimal_text(order.price),
        "outcome": order.market.outcomes[order.market.tokens.index(order.token)],
        "expiration": str(order.expires),
        "order_type": order.kind,
        "created_at": order.created_ms // 1000,
        "associate_trades": list(order.trades),
    }


def trade_row(trade: FakePolymarketTrade, user: FakePolymarketUser) -> dict[str, Any]:
    """Return a trade as one of its sides sees it."""
    market = trade.market
    is_taker = trade.taker is not None and trade.taker.user is user
    mine = next((maker.order for maker in trade.makers if maker.order and maker.order.user is user), None)
    return {
        "id": trade.id,
        "taker_order_id": "0x" + "00" * 32 if trade.taker is None else trade.taker.id,
        "market": market.condition,
        "asset_id": trade.token,
        "side": trade.side,
        "size": decimal_text(trade.size),
        "price": decimal_text(trade.price),
        "fee_rate_bps": "0",
        "status": trade.status,
        "match_time": str(trade.matched_ms // 1000),
        "last_update": str(trade.updated_ms // 1000),
        "outcome": market.outcomes[market.tokens.index(trade.token)],
        "bucket_index": 0,
        "owner": user.key if is_taker or mine is not None else "",
        "maker_address": user.wallet,
        "transaction_hash": trade.hash,
        "trader_side": "TAKER" if is_taker else "MAKER",
        "maker_orders": [_maker_row(trade, maker.order, maker.size) for maker in trade.makers],
    }


def _maker_row(trade: FakePolymarketTrade, order: FakePolymarketOrder | None, size: Decimal) -> dict[str, Any]:
    market = trade.market
    # The crowd is reported to have taken the other side of the same token.
    token = trade.token if order is None else order.token
    return {
        "order_id": "0x" + "11" * 32 if order is None else order.id,
        "owner": "" if order is None else order.user.key,
        "maker_address": "0x" + "11" * 20 if order is None else order.user.wallet,
        "matched_amount": decimal_text(size),
        "price": decimal_text(market.mirrored(token, trade.level)),
        "fee_rate_bps": "0",
        "asset_id": token,
        "outcome": market.outcomes[market.tokens.index(token)],
        "outcome_index": market.tokens.index(token),
        "side": ("SELL" if trade.side == "BUY" else "BUY") if order is None else order.side,
    }


def _outcome_prices(state: FakePolymarketState, market: FakePolymarketMarket) -> tuple[Decimal, Decimal]:
    if market.payouts is not None:
        return market.payouts
    middle = books.mid_price(state, market, market.tokens[0])
    price = market.last if middle is None else middle
    price = Decimal("0.5") if price is None else price
    return price, 1 - price


def _quote_fields(state: FakePolymarketState, market: FakePolymarketMarket) -> dict[str, Any]:
    bid, ask = books.best_bid_and_ask(state, market, market.tokens[0])
    fields = {"bestBid": bid, "bestAsk": ask, "lastTradePrice": market.last}
    row = {name: float(value) for name, value in fields.items() if value is not None}
    return row | ({"spread": float(ask - bid)} if bid is not None and ask is not None else {})


def _fee_fields(market: FakePolymarketMarket) -> dict[str, Any]:
    if market.fees is None:
        return {"feesEnabled": False, "feeType": None, "feeSchedule": None}
    schedule = {
        "rate": float(market.fees.rate),
        "exponent": float(market.fees.exponent) if market.fees.exponent % 1 else int(market.fees.exponent),
        "takerOnly": True,
        "rebateRate": float(market.fees.rebate),
    }
    return {"feesEnabled": True, "feeType": market.fees.kind, "feeSchedule": schedule}


def _token_ids(market: FakePolymarketMarket) -> dict[str, Any]:
    """Return the token ids: text that holds a list for the first protocol, a list for the second."""
    tokens = list(market.tokens) if market.is_minted else []
    return {"clobTokenIds": json.dumps(tokens)} if market.version == "v1" else {"positionIds": tokens}


def _end_fields(market: FakePolymarketMarket) -> dict[str, Any]:
    row: dict[str, Any] = {} if market.uma is None else {"umaResolutionStatus": market.uma}
    if market.closed_at is not None:
        row["closedTime"] = datetime.fromtimestamp(market.closed_at, UTC).strftime("%Y-%m-%d %H:%M:%S+00")
    return row | ({"resolvedBy": "0x" + "22" * 20} if market.has_ended else {})
