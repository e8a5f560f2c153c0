"""Questions of an event, their crowd forecasts, and their outcomes.

An event with at most one winner is one question; nothing says that one of its markets must win, so it always has an
option for none. Source: docs/facts/kalshi.md#questions.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from bot.api import (
    SINGLE_TARGET,
    BinaryOutcome,
    BinaryPrediction,
    BinaryShape,
    ChoiceOutcome,
    ChoicePrediction,
    ChoiceShape,
    CrowdForecast,
    MalformedDataError,
    Outcome,
    Question,
    QuestionRef,
    RequestRejectedError,
    Target,
    VoidOutcome,
)
from plugins.kalshi.market_parser import FINALIZED, KalshiEvent, KalshiMarket, KalshiSeries
from plugins.kalshi.order_books import fee_rate

VENUE = "kalshi"
EVENT_PREFIX = "event:"
NONE_OPTION = "Other (none of these)"
SCALAR_REASON = "settled between yes and no"
WITHOUT_RESULT = "finalized without a result"
# The allowed sum of the prices of all options; outside it, something is missing.
_MIN_PRICE_SUM, _MAX_PRICE_SUM = 0.80, 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReading:
    """An event as it was read at a moment, with its series."""

    event: KalshiEvent
    series: KalshiSeries | None
    at: datetime
    max_spread: Decimal

    @property
    def is_choice(self) -> bool:
        """Whether its markets can be the options of one question."""
        return self.event.is_exclusive and len(self.event.markets) + len(self.event.complaints) > 1

    def choice_question(self) -> Question:
        """Return the question of the whole event; raises MalformedDataError if a part of it cannot be read."""
        event = self.event
        if event.complaints:
            message = f"{event.ticker}: {event.complaints[0]}"
            raise MalformedDataError(message)
        options = option_names(event.markets)
        members = {options[market.ticker]: market for market in event.markets if market.is_open}
        prices = {option: market.mid_price(self.max_spread) for option, market in members.items()}
        rules = "\n\n".join(f"{option}: {market.rules}" for option, market in members.items())
        choice = choice_from_prices(prices)
        return self._question(
            key=f"{EVENT_PREFIX}{event.ticker}",
            title=event.title,
            shape=ChoiceShape(options=(*members, NONE_OPTION)),
            rules=rules,
            members=members,
            crowd=None if choice is None else self._crowd(choice, members.values()),
        )

    def market_question(self, market: KalshiMarket) -> Question:
        """Return the question of one market; raises MalformedDataError if it cannot be asked as written."""
        event = self.event
        price = market.mid_price(self.max_spread)
        title = f"{event.title}: {market.label}" if market.label else market.title or event.title
        return self._question(
            key=market.ticker,
            title=title,
            shape=BinaryShape(),
            rules=market.rules,
            members={"": market},
            crowd=None if price is None else self._crowd(BinaryPrediction(price), (market,)),
        )

    def _crowd(self, prediction: BinaryPrediction | ChoicePrediction, markets: Iterable[KalshiMarket]) -> CrowdForecast:
        quotes = [(market.bid or Decimal(0), market.ask or Decimal(0), market.ticker) for market in markets]
        explanation = "; ".join(f"{ticker}: bid {bid}, ask {ask}" for bid, ask, ticker in quotes)
        spread = float(quotes[0][1] - quotes[0][0]) if len(quotes) == 1 else None
        return CrowdForecast(prediction=prediction, at=self.at, explanation=explanation, spread=spread)

    def _fee_rate(self) -> str:
        """Return the rate of the fees, "" if it is unknown: then the market is forecast, and not traded."""
        try:
            return "" if self.series is None else str(fee_rate(self.event.fees(self.series)))
        except RequestRejectedError:
            return ""

    def _question(
        self,
        *,
        key: str,
        title: str,
        shape: BinaryShape | ChoiceShape,
        rules: str,
        members: Mapping[str, KalshiMarket],
        crowd: CrowdForecast | None,
    ) -> Question:
        event, series = self.event, self.series
        sources = event.sources or (series.sources if series else ())
        source_text = f"Settlement sources: {'; '.join(sources)}" if sources else ""
        terms = f"Contract terms: {series.terms_url}" if series and series.terms_url else ""
        strikes = [f"{option} {market.strike}".strip() for option, market in members.items() if market.strike]
        closes_at = max(market.closes_at for market in members.values())
        opens = [market.opens_at for market in members.values() if market.opens_at]
        opens_at = min(opens) if opens and min(opens) < closes_at else None
        category = series.category if series else ""
        facts = {
            "tickers": json.dumps({option: market.ticker for option, market in members.items()}, ensure_ascii=False),
            "series": event.series,
            "fee_rate": self._fee_rate(),
        }
        resolves_at = max(market.resolves_at for market in members.values())
        try:
            return Question(
                ref=QuestionRef(VENUE, key),
                title=title,
                shape=shape,
                targets=(Target(key=SINGLE_TARGET, resolves_at=resolves_at),),
                background="\n\n".join(part for part in (event.sub_title, "; ".join(strikes), terms) if part),
                criteria="\n\n".join(part for part in (rules, source_text) if part),
                url=f"https://kalshi.com/markets/{event.series}/event/{event.ticker}".lower(),
                family=event.ticker,
                opens_at=opens_at,
                closes_at=closes_at,
                crowd=crowd,
                event=event.ticker,
                market=key,
                category=category,
                facts={name: text for name, text in facts.items() if text},
                tags=(category,) if category else (),
            )
        except ValueError as error:
            message = f"{key}: {error}"
            raise MalformedDataError(message) from error


def option_names(markets: Iterable[KalshiMarket]) -> dict[str, str]:
    """Return the option of each ticker: the name of YES, with the ticker where two have the same or none."""
    listed = list(markets)
    count = Counter(market.label for market in listed)
    return {
        one.ticker: one.label
        if one.label and one.label != NONE_OPTION and count[one.label] == 1
        else f"{one.label} {one.ticker}".strip()
        for one in listed
    }


def choice_from_prices(prices: Mapping[str, float | None]) -> ChoicePrediction | None:
    """Return the crowd forecast of an event: prices, the rest to 1 for none of them, in proportion.

    None if an option has no price, or if their sum is too far from 1.
    """
    known = {option: price for option, price in prices.items() if price is not None}
    total = sum(known.values())
    if len(known) < len(prices) or not _MIN_PRICE_SUM <= total <= _MAX_PRICE_SUM:
        return None
    known[NONE_OPTION] = max(0.0, 1.0 - total)
    whole = sum(known.values())
    return ChoicePrediction({option: price / whole for option, price in known.items()})


def market_outcome(market: KalshiMarket) -> Outcome | None:
    """Return the outcome of a market, None until it is final: determined, disputed and amended results are not."""
    if market.status != FINALIZED:
        return None
    match market.result:
        case "yes":
            return BinaryOutcome(1.0)
        case "no":
            return BinaryOutcome(0.0)
        case "scalar" if market.value is not None:
            return VoidOutcome(f"{SCALAR_REASON}, at {market.value}", _shares({"": market.value}))
    return VoidOutcome(WITHOUT_RESULT)


def event_outcome(event: KalshiEvent) -> Outcome | None:
    """Return the outcome of an event whose markets can all be read, None until it is final.

    Options can be renamed, so that the ticker of the winner is its first other name, and shares of a void event are by
    ticker.
    """
    final = {market.ticker: market for market in event.markets if market.status == FINALIZED}
    options = option_names(event.markets)
    won = [ticker for ticker, market in final.items() if market.result == "yes"]
    if not event.markets or (not won and len(final) < len(event.markets)):
        return None
    if len(won) == 1 and all(market.result in {"yes", "no"} for market in final.values()):
        return ChoiceOutcome(options[won[0]], otherwise=(won[0], NONE_OPTION))
    if not won and all(market.result == "no" for market in final.values()):
        return ChoiceOutcome(NONE_OPTION)
    if len(final) < len(event.markets):
        return None
    if any(market.result == "" for market in final.values()):
        return VoidOutcome(WITHOUT_RESULT)
    paid = {
        ticker: Decimal(1) if market.result == "yes" else market.value or Decimal(0) for ticker, market in final.items()
    }
    return VoidOutcome(f"{len(won)} outcomes won" if len(won) > 1 else SCALAR_REASON, _shares(paid))


def contract_tickers(question: Question) -> dict[str, str]:
    """Return the market of each option; raises RequestRejectedError for a question that names none."""
    try:
        tickers = json.loads(question.facts["tickers"])
        return {str(option): str(ticker) for option, ticker in tickers.items()}
    except (KeyError, ValueError, AttributeError) as error:
        message = f"{question.ref} names no markets that can be traded"
        raise RequestRejectedError(message) from error


def winning_ticker(outcome: ChoiceOutcome) -> str | None:
    """Return the ticker of the market that won, "" if none did, None if the outcome does not say."""
    if outcome.option == NONE_OPTION:
        return ""
    return outcome.otherwise[0] if len(outcome.otherwise) > 1 else None


def _shares(paid: Mapping[str, Decimal]) -> dict[str, float]:
    return {option: float(share) for option, share in paid.items() if 0 < share <= 1}
