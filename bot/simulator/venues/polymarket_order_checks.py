"""Which orders the fake Polymarket accepts.

Their form, signature, price, size and money, in the words of the venue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.simulator.venues import polymarket_signatures as signing
from bot.simulator.venues.polymarket_order_books import round_to_tick
from bot.simulator.venues.polymarket_queries import PolymarketRefusal
from bot.simulator.venues.polymarket_responses import MILLION
from bot.simulator.venues.polymarket_service import PolymarketService
from bot.simulator.venues.polymarket_state import (
    FakePolymarketMarket,
    FakePolymarketOrder,
    FakePolymarketUser,
    decimal_text,
)

KINDS = frozenset({"GTC", "GTD", "FOK", "FAK"})
FOK_UNFILLED = "order couldn't be fully filled. FOK orders are fully filled or killed."
FAK_UNFILLED = (
    "no orders found to match with FAK order. FAK orders are partially filled or killed if no match is found."
)
ORDER_CROSSES_BOOK = "invalid post-only order: order crosses book"
INVALID_EXPIRATION = "invalid expiration"
MARKET_NOT_READY = "the market is not yet ready to process new orders"
_MIN_DOLLARS = Decimal(1)
_MIN_GTD_S = 180
_CENT = Decimal("0.01")

_TEXTS = ("builder", "expiration", "maker", "makerAmount", "metadata", "side", "signature", "signer", "takerAmount")
_FIELDS = {*_TEXTS, "timestamp", "tokenId", "salt", "signatureType"}
_NUMBERS = ("expiration", "makerAmount", "takerAmount", "timestamp", "tokenId")
_ADDRESS, _WORD, _BYTES = (re.compile(form) for form in (r"0x[0-9a-fA-F]{40}", r"0x[0-9a-fA-F]{64}", r"0x[0-9a-fA-F]+"))


class OrderRefusal(PolymarketRefusal):
    """A refusal that is sent with status 200."""

    def __init__(self, message: str) -> None:
        super().__init__(200, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedOrder:
    """A posted order of the right form."""

    order: Mapping[str, Any]
    kind: str
    post_only: bool

    @property
    def token(self) -> str:
        """What is to be traded."""
        return str(self.order["tokenId"])

    @property
    def expires(self) -> int:
        """Its last second, 0 where it has none."""
        return int(self.order["expiration"])

    @property
    def amounts(self) -> tuple[Decimal, Decimal]:
        """What the maker gives and takes, in dollars and shares."""
        return Decimal(self.order["makerAmount"]) / MILLION, Decimal(self.order["takerAmount"]) / MILLION


def read_order(body: object, user: FakePolymarketUser) -> PostedOrder:
    """Check the form of a posted order; raises PolymarketRefusal."""
    if not isinstance(body, dict) or not isinstance(order := body.get("order"), dict):
        raise PolymarketRefusal(400, "Invalid order payload")
    known = {"order", "orderType", "owner", "deferExec", "postOnly"}
    right = (
        set(body) <= known
        and body.get("orderType") in KINDS
        and isinstance(body.get("deferExec"), bool)
        and isinstance(body.get("postOnly", False), bool)
        and _has_order_form(order)
    )
    if not right:
        raise PolymarketRefusal(400, "Invalid order payload")
    if body.get("owner") != user.key:
        raise PolymarketRefusal(400, "the order owner has to be the owner of the API KEY")
    kind, post_only = body["orderType"], body.get("postOnly", False)
    if post_only and kind not in {"GTC", "GTD"}:
        raise PolymarketRefusal(400, "invalid post-only order: only GTC and GTD order types are allowed")
    return PostedOrder(order=order, kind=kind, post_only=post_only)


def _has_order_form(order: Mapping[str, Any]) -> bool:
    forms = ((_ADDRESS, ("maker", "signer")), (_WORD, ("metadata", "builder")), (_BYTES, ("signature",)))
    return (
        set(order) == _FIELDS
        and all(isinstance(order[name], str) for name in (*_TEXTS, "timestamp", "tokenId"))
        and all(order[name].isdecimal() for name in _NUMBERS)
        and order["side"] in {"BUY", "SELL"}
        and all(
            isinstance(order[name], int) and not isinstance(order[name], bool) for name in ("salt", "signatureType")
        )
        and all(form.fullmatch(order[name]) for form, names in forms for name in names)
    )


class OrderChecks:
    """The checks before an order is accepted; the first that fails gives the reason."""

    def __init__(self, venue: PolymarketService) -> None:
        self._venue = venue

    def require_trading(self, *, post_only: bool) -> None:
        """Refuse where the engine or the region accepts no new orders."""
        venue = self._venue
        if venue.is_blocked:
            message = (
                "Trading restricted in your region, please refer to available regions - https://docs.example/geoblock"
            )
            raise PolymarketRefusal(403, message)
        if venue.mode == "restarting":
            raise PolymarketRefusal(425, "service not ready")
        if venue.mode == "cancel_only":
            raise PolymarketRefusal(
                503, "Trading is currently cancel-only. New orders are not accepted, but cancels are allowed."
            )
        if venue.mode == "post_only" and not post_only:
            message = "post-only mode: only post-only orders and cancels are allowed"
            raise PolymarketRefusal(503, message, code="post_only_mode")

    def check_order(self, asked: PostedOrder, user: FakePolymarketUser) -> FakePolymarketOrder:
        """Return the requested order, if it may be placed; raises PolymarketRefusal."""
        market = self._find_market(asked.token)
        digest = self._check_signature(asked, user, market)
        if digest in self._venue.state.orders:
            raise PolymarketRefusal(400, f"order {digest} is invalid. Duplicated.")
        gives, takes = asked.amounts
        if gives <= 0 or takes <= 0:
            raise PolymarketRefusal(400, "Invalid order payload")
        dollars, shares = (gives, takes) if asked.order["side"] == "BUY" else (takes, gives)
        order = FakePolymarketOrder(
            id=digest,
            user=user,
            market=market,
            token=asked.token,
            side=asked.order["side"],
            price=self._check_price(asked, market, dollars, shares),
            size=shares,
            spend=dollars,
            kind=asked.kind,
            created_ms=self._venue.now_ms(),
            expires=asked.expires,
            post_only=asked.post_only,
        )
        self._check_expiry(asked)
        self._check_size(order)
        self._check_money(order)
        self._check_book(order)
        return order

    def _find_market(self, token: str) -> FakePolymarketMarket:
        market = self._venue.state.tokens.get(token)
        if market is None or not market.is_minted or not market.has_book:
            raise PolymarketRefusal(400, "market not found")
        if market.closed or market.uma is not None:
            raise PolymarketRefusal(400, f"the orderbook {token} does not exist")
        if not market.accepting or not market.active:
            raise OrderRefusal(MARKET_NOT_READY)
        return market

    def _check_signature(self, asked: PostedOrder, user: FakePolymarketUser, market: FakePolymarketMarket) -> str:
        order = asked.order
        maker, signer = order["maker"].lower(), order["signer"].lower()
        owner = user.wallet.lower()
        if order["signatureType"] != user.kind or maker != owner:
            message = "maker address not allowed, please use the deposit wallet flow"
            raise PolymarketRefusal(400, message)
        # A deposit wallet signs by itself, other wallets through the key of their owner.
        by = owner if user.kind == signing.DEPOSIT_WALLET else user.address.lower()
        digest = signing.OrderDigest(order, signing.token_domain(asked.token, neg_risk=market.neg_risk))
        try:
            signed_by = digest.signer().lower()
        except ValueError:
            signed_by = ""
        if signer != by or signed_by != user.address.lower():
            raise PolymarketRefusal(400, "invalid signature")
        return digest.id

    def _check_price(
        self, asked: PostedOrder, market: FakePolymarketMarket, dollars: Decimal, shares: Decimal
    ) -> Decimal:
        """Return the price that two amounts mean, which is on the grid."""
        price = round_to_tick(dollars / shares, market.tick)
        if asked.kind in {"FAK", "FOK"}:
            self._check_amounts(asked)
            # Amounts of an order for dollars are rounded where they do not divide.
            is_on_grid = abs(dollars - price * shares) <= max(_CENT, shares / 10_000)
        else:
            is_on_grid = dollars == price * shares
        if not is_on_grid:
            raise PolymarketRefusal(
                400, f"order is invalid. Price breaks minimum tick size rule: {decimal_text(market.tick)}"
            )
        if not market.tick <= price <= 1 - market.tick:
            limits = f"min: {decimal_text(market.tick)} - max: {decimal_text(1 - market.tick)}"
            raise PolymarketRefusal(400, f"invalid price ({decimal_text(price)}), {limits}")
        return price

    def _check_amounts(self, asked: PostedOrder) -> None:
        if not self._venue.has_amount_rules:
            return
        gives, takes = asked.amounts
        if asked.order["side"] == "BUY" and (gives % _CENT or takes % (_CENT * _CENT)):
            message = "invalid amounts: dollars support a max accuracy of 2 decimals, shares a max of 4 decimals"
            raise PolymarketRefusal(400, message)
        # The official clients round sold shares down to hundredths, whatever the tick.
        if asked.order["side"] == "SELL" and gives % _CENT:
            message = "invalid amounts, the market sell orders maker amount supports a max accuracy of 2 decimals"
            raise PolymarketRefusal(400, message)

    def _check_expiry(self, asked: PostedOrder) -> None:
        if asked.kind != "GTD":
            if asked.expires:
                raise OrderRefusal(INVALID_EXPIRATION)
        elif asked.expires < self._venue.world.now_s + _MIN_GTD_S:
            raise OrderRefusal(INVALID_EXPIRATION)

    def _check_size(self, order: FakePolymarketOrder) -> None:
        crosses = self._venue.world.exchange.crosses(order)
        if order.kind in {"GTC", "GTD"}:
            if order.size % _CENT:
                raise PolymarketRefusal(400, "Invalid order payload")
            if order.size < order.market.min_size:
                least = decimal_text(order.market.min_size)
                raise PolymarketRefusal(
                    400,
                    f"order {order.id} is invalid. Size ({decimal_text(order.size)}) lower than the minimum: {least}",
                )
        if crosses and order.side == "BUY" and order.spend < _MIN_DOLLARS:
            raise PolymarketRefusal(
                400, f"invalid amount for a marketable BUY order (${decimal_text(order.spend)}), min size: $1"
            )

    def _check_money(self, order: FakePolymarketOrder) -> None:
        user, state = order.user, self._venue.state
        if order.side == "BUY" and user.closed_only:
            raise PolymarketRefusal(400, f"address {user.wallet} is in closed only mode")
        token = None if order.side == "BUY" else order.token
        has = user.cash if token is None else user.shares.get(token, Decimal(0))
        needs = order.spend if token is None else order.size
        if has - state.tied_up(user, token) < needs:
            reason = f"the balance is not enough -> balance: {decimal_text(has)}, order amount: {decimal_text(needs)}"
            raise PolymarketRefusal(400, f"not enough balance / allowance: {reason}")
        if user.allowance < needs:
            allowed = decimal_text(user.allowance)
            reason = f"the allowance is not enough -> allowance: {allowed}, order amount: {decimal_text(needs)}"
            raise PolymarketRefusal(400, f"not enough balance / allowance: {reason}")

    def _check_book(self, order: FakePolymarketOrder) -> None:
        exchange = self._venue.world.exchange
        if order.post_only and exchange.crosses(order):
            raise OrderRefusal(ORDER_CROSSES_BOOK)
        if self._draw_delay(order) > 0:
            return
        if order.kind == "FAK" and not exchange.crosses(order):
            raise PolymarketRefusal(400, FAK_UNFILLED)
        if order.kind == "FOK" and not exchange.fills_whole(order):
            raise OrderRefusal(FOK_UNFILLED)

    def _draw_delay(self, order: FakePolymarketOrder) -> float:
        return taker_delay(order.market) if self._venue.world.exchange.crosses(order) else 0.0


def taker_delay(market: FakePolymarketMarket) -> float:
    """Return for how many seconds takers are held."""
    return float(market.delay_s) if market.delay_s else 0.25 if market.is_delayed else 0.0
