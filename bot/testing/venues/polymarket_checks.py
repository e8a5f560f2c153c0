"""Which orders the fake Polymarket takes: their form, signature, price, size and money, in the words of the venue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bot.testing.venues import polymarket_signing as signing
from bot.testing.venues.polymarket_books import rounded_to
from bot.testing.venues.polymarket_door import Door
from bot.testing.venues.polymarket_lists import Refusal
from bot.testing.venues.polymarket_rows import MILLION
from bot.testing.venues.polymarket_state import Market, Order, User, plain

KINDS = frozenset({"GTC", "GTD", "FOK", "FAK"})
FOK_UNFILLED = "order couldn't be fully filled. FOK orders are fully filled or killed."
FAK_UNFILLED = (
    "no orders found to match with FAK order. FAK orders are partially filled or killed if no match is found."
)
CROSSES = "invalid post-only order: order crosses book"
EXPIRY = "invalid expiration"
NOT_READY = "the market is not yet ready to process new orders"
_LEAST_DOLLARS = Decimal(1)
_GTD_LEAST_S = 180
_CENT = Decimal("0.01")

_TEXTS = ("builder", "expiration", "maker", "makerAmount", "metadata", "side", "signature", "signer", "takerAmount")
_FIELDS = {*_TEXTS, "timestamp", "tokenId", "salt", "signatureType"}
_NUMBERS = ("expiration", "makerAmount", "takerAmount", "timestamp", "tokenId")
_ADDRESS, _WORD, _BYTES = (re.compile(form) for form in (r"0x[0-9a-fA-F]{40}", r"0x[0-9a-fA-F]{64}", r"0x[0-9a-fA-F]+"))


class Quiet(Refusal):
    """A refusal that comes under status 200."""

    def __init__(self, message: str) -> None:
        super().__init__(200, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A posted order whose form is right."""

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


def read(body: object, user: User) -> Asked:
    """Check the form of a posted order; raises Refusal."""
    if not isinstance(body, dict) or not isinstance(order := body.get("order"), dict):
        raise Refusal(400, "Invalid order payload")
    known = {"order", "orderType", "owner", "deferExec", "postOnly"}
    right = (
        set(body) <= known
        and body.get("orderType") in KINDS
        and isinstance(body.get("deferExec"), bool)
        and isinstance(body.get("postOnly", False), bool)
        and _is_order(order)
    )
    if not right:
        raise Refusal(400, "Invalid order payload")
    if body.get("owner") != user.key:
        raise Refusal(400, "the order owner has to be the owner of the API KEY")
    kind, post_only = body["orderType"], body.get("postOnly", False)
    if post_only and kind not in {"GTC", "GTD"}:
        raise Refusal(400, "invalid post-only order: only GTC and GTD order types are allowed")
    return Asked(order=order, kind=kind, post_only=post_only)


def _is_order(order: Mapping[str, Any]) -> bool:
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


class Checks:
    """What is looked at before an order is taken; the first that fails says so."""

    def __init__(self, venue: Door) -> None:
        self._venue = venue

    def may_trade(self, *, post_only: bool) -> None:
        """Refuse where the engine or the region takes no new orders."""
        venue = self._venue
        if venue.is_blocked:
            message = (
                "Trading restricted in your region, please refer to available regions - https://docs.example/geoblock"
            )
            raise Refusal(403, message)
        if venue.mode == "restarting":
            raise Refusal(425, "service not ready")
        if venue.mode == "cancel_only":
            raise Refusal(
                503, "Trading is currently cancel-only. New orders are not accepted, but cancels are allowed."
            )
        if venue.mode == "post_only" and not post_only:
            message = "post-only mode: only post-only orders and cancels are allowed"
            raise Refusal(503, message, code="post_only_mode")

    def order(self, asked: Asked, user: User) -> Order:
        """Return the order that was asked for, if it may be placed; raises Refusal."""
        market = self._market(asked.token)
        digest = self._signature(asked, user, market)
        if digest in self._venue.state.orders:
            raise Refusal(400, f"order {digest} is invalid. Duplicated.")
        gives, takes = asked.amounts
        if gives <= 0 or takes <= 0:
            raise Refusal(400, "Invalid order payload")
        dollars, shares = (gives, takes) if asked.order["side"] == "BUY" else (takes, gives)
        order = Order(
            id=digest,
            user=user,
            market=market,
            token=asked.token,
            side=asked.order["side"],
            price=self._price(asked, market, dollars, shares),
            size=shares,
            spend=dollars,
            kind=asked.kind,
            created_ms=self._venue.now_ms(),
            expires=asked.expires,
            post_only=asked.post_only,
        )
        self._expiry(asked)
        self._size(order)
        self._money(order)
        self._book(order)
        return order

    def _market(self, token: str) -> Market:
        market = self._venue.state.tokens.get(token)
        if market is None or not market.is_minted or not market.has_book:
            raise Refusal(400, "market not found")
        if market.closed or market.uma is not None:
            raise Refusal(400, f"the orderbook {token} does not exist")
        if not market.accepting or not market.active:
            raise Quiet(NOT_READY)
        return market

    def _signature(self, asked: Asked, user: User, market: Market) -> str:
        order = asked.order
        maker, signer = order["maker"].lower(), order["signer"].lower()
        owner = user.wallet.lower()
        if order["signatureType"] != user.kind or maker != owner:
            message = "maker address not allowed, please use the deposit wallet flow"
            raise Refusal(400, message)
        # A deposit wallet signs by itself, other wallets through the key of their owner.
        by = owner if user.kind == signing.DEPOSIT_WALLET else user.address.lower()
        digest = signing.Digest(order, signing.domain_for(asked.token, neg_risk=market.neg_risk))
        try:
            signed_by = digest.signer().lower()
        except ValueError:
            signed_by = ""
        if signer != by or signed_by != user.address.lower():
            raise Refusal(400, "invalid signature")
        return digest.id

    def _price(self, asked: Asked, market: Market, dollars: Decimal, shares: Decimal) -> Decimal:
        """Return the price that two amounts mean, which is on the grid."""
        price = rounded_to(dollars / shares, market.tick)
        if asked.kind in {"FAK", "FOK"}:
            self._amounts(asked)
            # Amounts of an order for dollars are rounded to where they do not divide.
            is_on_grid = abs(dollars - price * shares) <= max(_CENT, shares / 10_000)
        else:
            is_on_grid = dollars == price * shares
        if not is_on_grid:
            raise Refusal(400, f"order is invalid. Price breaks minimum tick size rule: {plain(market.tick)}")
        if not market.tick <= price <= 1 - market.tick:
            limits = f"min: {plain(market.tick)} - max: {plain(1 - market.tick)}"
            raise Refusal(400, f"invalid price ({plain(price)}), {limits}")
        return price

    def _amounts(self, asked: Asked) -> None:
        if not self._venue.has_amount_rules:
            return
        gives, takes = asked.amounts
        if asked.order["side"] == "BUY" and (gives % _CENT or takes % (_CENT * _CENT)):
            message = "invalid amounts: dollars support a max accuracy of 2 decimals, shares a max of 4 decimals"
            raise Refusal(400, message)
        # The official clients cut what is sold to hundredths, whatever the tick.
        if asked.order["side"] == "SELL" and gives % _CENT:
            message = "invalid amounts, the market sell orders maker amount supports a max accuracy of 2 decimals"
            raise Refusal(400, message)

    def _expiry(self, asked: Asked) -> None:
        if asked.kind != "GTD":
            if asked.expires:
                raise Quiet(EXPIRY)
        elif asked.expires < self._venue.world.now_s + _GTD_LEAST_S:
            raise Quiet(EXPIRY)

    def _size(self, order: Order) -> None:
        crosses = self._venue.world.exchange.crosses(order)
        if order.kind in {"GTC", "GTD"}:
            if order.size % _CENT:
                raise Refusal(400, "Invalid order payload")
            if order.size < order.market.min_size:
                least = plain(order.market.min_size)
                raise Refusal(
                    400, f"order {order.id} is invalid. Size ({plain(order.size)}) lower than the minimum: {least}"
                )
        if crosses and order.side == "BUY" and order.spend < _LEAST_DOLLARS:
            raise Refusal(400, f"invalid amount for a marketable BUY order (${plain(order.spend)}), min size: $1")

    def _money(self, order: Order) -> None:
        user, state = order.user, self._venue.state
        if order.side == "BUY" and user.closed_only:
            raise Refusal(400, f"address {user.wallet} is in closed only mode")
        token = None if order.side == "BUY" else order.token
        has = user.cash if token is None else user.shares.get(token, Decimal(0))
        needs = order.spend if token is None else order.size
        if has - state.tied_up(user, token) < needs:
            told = f"the balance is not enough -> balance: {plain(has)}, order amount: {plain(needs)}"
            raise Refusal(400, f"not enough balance / allowance: {told}")
        if user.allowance < needs:
            told = f"the allowance is not enough -> allowance: {plain(user.allowance)}, order amount: {plain(needs)}"
            raise Refusal(400, f"not enough balance / allowance: {told}")

    def _book(self, order: Order) -> None:
        exchange = self._venue.world.exchange
        if order.post_only and exchange.crosses(order):
            raise Quiet(CROSSES)
        if self._delay(order) > 0:
            return
        if order.kind == "FAK" and not exchange.crosses(order):
            raise Refusal(400, FAK_UNFILLED)
        if order.kind == "FOK" and not exchange.fills_whole(order):
            raise Quiet(FOK_UNFILLED)

    def _delay(self, order: Order) -> float:
        return delay_of(order.market) if self._venue.world.exchange.crosses(order) else 0.0


def delay_of(market: Market) -> float:
    """Return for how many seconds takers are held."""
    return float(market.delay_s) if market.delay_s else 0.25 if market.is_delayed else 0.0
