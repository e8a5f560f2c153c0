"""Questions from markets and groups, with crowd forecasts from their books.

Only the books of YES are read: those of NO mirror them. Facts are documented in the docstring of the plugin; a question
is forecast again whenever one changes, so none of them moves with the market.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bot.api import (
    SINGLE_TARGET,
    BinaryPrediction,
    BinaryShape,
    ChoicePrediction,
    ChoiceShape,
    CrowdForecast,
    MalformedDataError,
    Question,
    QuestionRef,
    Target,
)
from plugins.polymarket.event_groups import EventGroup
from plugins.polymarket.market_parser import ParentEvent, PolymarketContract, PolymarketMarket
from plugins.polymarket.order_books import ONE, PolymarketOrderBook

VENUE = "polymarket"
RULES_CHANGED = "The venue says that the rules of this question were updated after it was asked."
# The allowed sum of the prices of all options; outside it, something is missing.
_MIN_PRICE_SUM, _MAX_PRICE_SUM = 0.80, 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class BooksSnapshot:
    """What was read in addition to the descriptions: books by token, and markets with updated rules."""

    books: Mapping[str, PolymarketOrderBook]
    at: datetime
    spread_max: Decimal
    updated_rules: frozenset[str] = frozenset()

    def yes_book(self, contract: PolymarketContract) -> PolymarketOrderBook | None:
        """Return the book of YES: its own, or the mirror of that of NO."""
        book = self.books.get(contract.yes)
        if book is None and (opposite := self.books.get(contract.no)) is not None:
            book = opposite.mirrored(contract.yes)
        return book


def question_ref(key: str) -> QuestionRef:
    """Return the name of a question of this venue."""
    return QuestionRef(VENUE, key)


def book_price(book: PolymarketOrderBook | None, *, spread_max: Decimal) -> float | None:
    """Return the midpoint of a book of YES, None if it is missing, empty, crossed or too wide."""
    return None if book is None else mid_price(book.best_bid, book.best_ask, spread_max=spread_max)


def mid_price(bid: Decimal | None, ask: Decimal | None, *, spread_max: Decimal) -> float | None:
    """Return the midpoint of best bid and best ask; None if both are missing, cross, or are too far apart.

    Without bids, as for very unlikely outcomes, the bid is 0; without asks, the ask is 1.
    """
    if bid is None and ask is None:
        return None
    low, high = bid or Decimal(0), ONE if ask is None else ask
    return float((low + high) / 2) if low < high and high - low <= spread_max else None


def choice_from_prices(prices: Mapping[str, float | None], other: str) -> ChoicePrediction | None:
    """Return the crowd forecast of a group: prices in proportion, and the rest to 1 for Other.

    None if an option has no price, or if their sum is too far from 1.
    """
    known = {option: price for option, price in prices.items() if price is not None}
    total = sum(known.values())
    if len(known) < len(prices) or not known or total > _MAX_PRICE_SUM:
        return None
    if other:
        known[other] = max(0.0, 1.0 - total)
    elif total < _MIN_PRICE_SUM:
        return None
    total_with_other = sum(known.values())
    return ChoicePrediction({option: price / total_with_other for option, price in known.items()})


def market_question(market: PolymarketMarket, snapshot: BooksSnapshot) -> Question:
    """Return the question of one market; raises MalformedDataError if it cannot be asked as written."""
    contract = market.contract
    book = snapshot.yes_book(contract)
    price = book_price(book, spread_max=snapshot.spread_max)
    title = market.title
    if not market.is_yes_no:
        title = f'{title} (Yes means "{market.labels[0]}", No means "{market.labels[1]}")'
    facts = {
        "contracts": _contracts_text({"": contract}),
        "gamma": market.id,
        "version": market.version,
        "group": market.group,
        "tokens": " ".join(market.tokens),
        "outcomes": json.dumps(market.labels, ensure_ascii=False),
        "delay_s": str(market.delay_s),
        "fees": json.dumps(contract.to_map()["fees"]),
        "rules": _text_digest(market.rules),
    }
    updated = market.condition in snapshot.updated_rules
    draft = _QuestionDraft(
        title=title,
        shape=BinaryShape(),
        background=market.event.background if market.event.background != market.rules else "",
        criteria=_criteria_text(market.rules, updated),
        url=market_url(market),
        opens_at=market.starts_at,
        closes_at=market.ends_at,
        crowd=None
        if price is None
        else CrowdForecast(
            prediction=BinaryPrediction(price),
            at=snapshot.at,
            explanation=_describe_book(book),
            spread=_book_spread(book),
            liquidity=None if market.liquidity is None else float(market.liquidity),
        ),
        market=market.condition,
        source_id=market.condition,
        slug=market.slug,
        event=market.event,
        facts=facts,
    )
    return draft.question(market.condition)


def group_question(group: EventGroup, snapshot: BooksSnapshot) -> Question:
    """Return the question of a whole event; raises MalformedDataError if it cannot be asked as written."""
    contracts = {option: market.contract for option, market in group.members.items() if market.tokens}
    prices = {
        option: book_price(
            snapshot.yes_book(market.contract) if market.tokens else None, spread_max=snapshot.spread_max
        )
        for option, market in group.members.items()
    }
    choice = choice_from_prices(prices, group.other)
    total = sum(price for price in prices.values() if price is not None)
    rules = {option: market.rules for option, market in group.members.items()}
    updated = any(market.condition in snapshot.updated_rules for market in group.members.values())
    members = list(group.members.values())
    facts = {
        "contracts": _contracts_text(contracts),
        "version": members[0].version,
        "group": group.id,
        "rules": _text_digest(json.dumps(rules, sort_keys=True)),
    }
    draft = _QuestionDraft(
        title=group.event.title or members[0].title,
        shape=ChoiceShape(options=group.options),
        background=group.event.background,
        criteria=_criteria_text(_rules_of_group(group), updated),
        url=f"https://polymarket.com/event/{group.event.slug}" if group.event.slug else None,
        opens_at=None,
        closes_at=group.ends_at,
        crowd=None
        if choice is None
        else CrowdForecast(prediction=choice, at=snapshot.at, explanation=f"prices of the options sum to {total:.3f}"),
        market=group.id,
        slug=group.event.slug,
        event=group.event,
        facts=facts,
    )
    return draft.question(group.key)


def market_url(market: PolymarketMarket) -> str | None:
    """Return the page of a market for people, None if it has no name."""
    if not market.slug:
        return None
    event_slug = market.event.slug
    path = f"event/{event_slug}/{market.slug}" if event_slug else f"market/{market.slug}"
    return f"https://polymarket.com/{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _QuestionDraft:
    """The parts of a question."""

    title: str
    shape: BinaryShape | ChoiceShape
    background: str
    criteria: str
    url: str | None
    opens_at: datetime | None
    closes_at: datetime | None
    crowd: CrowdForecast | None
    event: ParentEvent
    market: str
    slug: str
    source_id: str = ""
    facts: Mapping[str, str]

    def question(self, key: str) -> Question:
        """Return the question; raises MalformedDataError if the parts contradict each other."""
        closes_at = self.closes_at
        in_order = self.opens_at is None or closes_at is None or self.opens_at < closes_at
        try:
            return Question(
                ref=question_ref(key),
                title=self.title,
                shape=self.shape,
                targets=(Target(key=SINGLE_TARGET, resolves_at=closes_at),),
                background=self.background,
                criteria=self.criteria,
                url=self.url,
                opens_at=self.opens_at if in_order else None,
                closes_at=closes_at,
                crowd=self.crowd,
                event=self.event.id,
                category=self.event.category,
                market=self.market,
                slug=self.slug,
                source_id=self.source_id,
                facts={name: text for name, text in self.facts.items() if text},
                tags=self.event.tags,
            )
        except ValueError as error:
            message = f"{key}: {error}"
            raise MalformedDataError(message) from error


def _contracts_text(contracts: Mapping[str, PolymarketContract]) -> str:
    contract_maps = {option: contract.to_map() for option, contract in contracts.items()}
    return json.dumps(contract_maps, ensure_ascii=False, separators=(",", ":"))


def _rules_of_group(group: EventGroup) -> str:
    """Return the rules of all options, only once if they are the same."""
    rules: dict[str, list[str]] = {}
    for option, market in group.members.items():
        rules.setdefault(market.rules, []).append(option)
    if len(rules) == 1:
        return next(iter(rules))
    return "\n\n".join(f"{', '.join(options)}: {text}" for text, options in rules.items())


def _criteria_text(rules: str, updated: bool) -> str:  # noqa: FBT001 - two parts of one text
    return f"{rules}\n\n{RULES_CHANGED}".strip() if updated else rules


def _describe_book(book: PolymarketOrderBook | None) -> str:
    """Describe the book of a price, so that it can be found again."""
    if book is None:
        return ""
    bid, ask = (f"{level[0].size} at {level[0].price}" if level else "none" for level in (book.bids, book.asks))
    return f"book {book.hash} of {book.at.isoformat()}: bid {bid}, ask {ask}"


def _book_spread(book: PolymarketOrderBook | None) -> float | None:
    """Return the difference between the best prices, None where one side has none."""
    if book is None or not book.bids or not book.asks:
        return None
    return float(book.asks[0].price - book.bids[0].price)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
