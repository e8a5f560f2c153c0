"""Questions from markets and groups, and what the crowd says of them by their books.

The books of YES are all that is read: those of NO mirror them. Facts are documented in the plugin's own docstring; a
question is asked again whenever one changes, so nothing that moves with the market is among them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bot.api import (
    SINGLE_TARGET,
    Binary,
    BinaryShape,
    Choice,
    ChoiceShape,
    ContractError,
    Crowd,
    Prediction,
    Question,
    QuestionRef,
    Target,
)
from plugins.polymarket.books import ONE, Book
from plugins.polymarket.groups import Group
from plugins.polymarket.parse import Contract, Market

VENUE = "polymarket"
RULES_CHANGED = "The venue says that the rules of this question were updated after it was asked."
# The prices of all options together; further off, something is missing.
_LEAST, _MOST = 0.80, 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read beside the descriptions: books by token, and markets whose rules were updated."""

    books: Mapping[str, Book]
    at: datetime
    spread_max: Decimal
    updated: frozenset[str] = frozenset()

    def book(self, contract: Contract) -> Book | None:
        """Return the book of YES: its own, or the mirror of that of NO."""
        book = self.books.get(contract.yes)
        if book is None and (opposite := self.books.get(contract.no)) is not None:
            book = opposite.mirrored(contract.yes)
        return book


def ref_of(key: str) -> QuestionRef:
    """Return the name of a question of this venue."""
    return QuestionRef(VENUE, key)


def price_of(book: Book | None, *, spread_max: Decimal) -> float | None:
    """Return the middle of a book of YES, None for one that is missing, empty, crossed or too wide."""
    return None if book is None else middle_of(book.best_bid, book.best_ask, spread_max=spread_max)


def middle_of(bid: Decimal | None, ask: Decimal | None, *, spread_max: Decimal) -> float | None:
    """Return the middle of best bid and best ask; None where both are missing, cross, or are too far apart.

    Where nobody buys, as of what hardly anybody believes in, the bid is 0; where nobody sells, the ask is 1.
    """
    if bid is None and ask is None:
        return None
    low, high = bid or Decimal(0), ONE if ask is None else ask
    return float((low + high) / 2) if low < high and high - low <= spread_max else None


def choice_of(prices: Mapping[str, float | None], other: str) -> Choice | None:
    """Return the crowd of a group: prices in proportion, and what is missing to 1 for Other.

    None where an option has no price, or all of them are too far from 1 together.
    """
    known = {option: price for option, price in prices.items() if price is not None}
    total = sum(known.values())
    if len(known) < len(prices) or not known or total > _MOST:
        return None
    if other:
        known[other] = max(0.0, 1.0 - total)
    elif total < _LEAST:
        return None
    whole = sum(known.values())
    return Choice({option: price / whole for option, price in known.items()})


def question_of_market(market: Market, seen: Seen) -> Question:
    """Return the question of one market; raises ContractError for one that cannot be asked as it is written."""
    contract = market.contract
    book = seen.book(contract)
    price = price_of(book, spread_max=seen.spread_max)
    title = market.title
    if not market.is_yes_no:
        title = f'{title} (Yes means "{market.labels[0]}", No means "{market.labels[1]}")'
    facts = {
        **_facts(market.home.id, market.home.category, {"": contract}),
        "market": market.condition,
        "id": market.condition,
        "gamma": market.id,
        "version": market.version,
        "slug": market.slug,
        "group": market.group,
        "tokens": " ".join(market.tokens),
        "outcomes": json.dumps(market.labels, ensure_ascii=False),
        "delay_s": str(market.delay_s),
        "fees": json.dumps(contract.to_map()["fees"]),
        "rules": _digest(market.rules),
    }
    updated = market.condition in seen.updated
    draft = _Draft(
        title=title,
        shape=BinaryShape(),
        background=market.home.background if market.home.background != market.rules else "",
        criteria=_ruled(market.rules, updated),
        url=url_of(market),
        opens_at=market.starts_at,
        closes_at=market.ends_at,
        crowd=None if price is None else _crowd(Binary(price), seen.at, _told(book)),
        facts=facts,
        tags=market.home.tags,
    )
    return draft.question(market.condition)


def question_of_group(group: Group, seen: Seen) -> Question:
    """Return the question of a whole event; raises ContractError for one that cannot be asked as it is written."""
    contracts = {option: market.contract for option, market in group.members.items() if market.tokens}
    prices = {
        option: price_of(seen.book(market.contract) if market.tokens else None, spread_max=seen.spread_max)
        for option, market in group.members.items()
    }
    choice = choice_of(prices, group.other)
    total = sum(price for price in prices.values() if price is not None)
    rules = {option: market.rules for option, market in group.members.items()}
    updated = any(market.condition in seen.updated for market in group.members.values())
    members = list(group.members.values())
    facts = {
        **_facts(group.home.id, group.home.category, contracts),
        "market": group.id,
        "version": members[0].version,
        "slug": group.home.slug,
        "group": group.id,
        "rules": _digest(json.dumps(rules, sort_keys=True)),
    }
    draft = _Draft(
        title=group.home.title or members[0].title,
        shape=ChoiceShape(options=group.options),
        background=group.home.background,
        criteria=_ruled(_rules_of_group(group), updated),
        url=f"https://polymarket.com/event/{group.home.slug}" if group.home.slug else None,
        opens_at=None,
        closes_at=group.ends_at,
        crowd=None if choice is None else _crowd(choice, seen.at, f"prices of the options sum to {total:.3f}"),
        facts=facts,
        tags=group.home.tags,
    )
    return draft.question(group.key)


def url_of(market: Market) -> str | None:
    """Return the address of a market for people, None where it has no name."""
    if not market.slug:
        return None
    home = market.home.slug
    path = f"event/{home}/{market.slug}" if home else f"market/{market.slug}"
    return f"https://polymarket.com/{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The parts of a question."""

    title: str
    shape: BinaryShape | ChoiceShape
    background: str
    criteria: str
    url: str | None
    opens_at: datetime | None
    closes_at: datetime | None
    crowd: Crowd | None
    facts: Mapping[str, str]
    tags: tuple[str, ...]

    def question(self, key: str) -> Question:
        """Return the question; raises ContractError where the parts do not go together."""
        closes_at = self.closes_at
        in_order = self.opens_at is None or closes_at is None or self.opens_at < closes_at
        try:
            return Question(
                ref=ref_of(key),
                title=self.title,
                shape=self.shape,
                targets=(Target(key=SINGLE_TARGET, resolves_at=closes_at),),
                background=self.background,
                criteria=self.criteria,
                url=self.url,
                opens_at=self.opens_at if in_order else None,
                closes_at=closes_at,
                crowd=self.crowd,
                facts={name: text for name, text in self.facts.items() if text},
                tags=self.tags,
            )
        except ValueError as error:
            message = f"{key}: {error}"
            raise ContractError(message) from error


def _facts(event: str, category: str, contracts: Mapping[str, Contract]) -> dict[str, str]:
    kept = {option: contract.to_map() for option, contract in contracts.items()}
    return {
        "event": event,
        "category": category,
        "contracts": json.dumps(kept, ensure_ascii=False, separators=(",", ":")),
    }


def _rules_of_group(group: Group) -> str:
    """Return the rules of all options, once where they are the same but for the name."""
    rules: dict[str, list[str]] = {}
    for option, market in group.members.items():
        rules.setdefault(market.rules, []).append(option)
    if len(rules) == 1:
        return next(iter(rules))
    return "\n\n".join(f"{', '.join(options)}: {text}" for text, options in rules.items())


def _ruled(rules: str, updated: bool) -> str:  # noqa: FBT001 - two parts of one text
    return f"{rules}\n\n{RULES_CHANGED}".strip() if updated else rules


def _crowd(prediction: Prediction, at: datetime, explanation: str) -> Crowd:
    return Crowd(prediction=prediction, at=at, explanation=explanation)


def _told(book: Book | None) -> str:
    """Say which book a price is from, so that it can be found again."""
    if book is None:
        return ""
    bid, ask = (f"{level[0].size} at {level[0].price}" if level else "none" for level in (book.bids, book.asks))
    return f"book {book.hash} of {book.at.isoformat()}: bid {bid}, ask {ask}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
