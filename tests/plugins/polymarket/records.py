"""Records in the forms of docs/facts/polymarket.md, with what a test wants changed."""

import json
from typing import Any

# Golden vectors, docs/facts/polymarket.md#order-digests.
T1 = "71321045679252212594626385532706912750332728571942532289631379312455583992563"
T2 = "755628523515574437047200361729489104557184628977942975970487228992894009601"
ENDS = "2026-12-31T12:00:00Z"
FEES = {"rate": 0.04, "exponent": 1, "takerOnly": True, "rebateRate": 0.25}


def condition(number: int) -> str:
    return f"0xc0ffee{number:058x}"


def token(number: int, index: int = 0) -> str:
    """A v1 id: 77 digits, and bits 40 to 103 are not zero."""
    return str(7 * 10**76 + number * 2 * 10**20 + 12345678901234567890 + index)


def tokens(number: int) -> list[str]:
    return [token(number, 0), token(number, 1)]


def market(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A market that can be traded, as Gamma lists it: three fields are JSON inside the JSON."""
    record: dict[str, Any] = {
        "id": str(500_000 + number),
        "conditionId": condition(number),
        "version": "v1",
        "slug": f"market-{number}",
        "question": f"Will event {number} happen?",
        "description": f"This market resolves to Yes if event {number} happens.",
        "resolutionSource": "",
        "clobTokenIds": json.dumps(tokens(number)),
        "outcomes": json.dumps(["Yes", "No"]),
        "outcomePrices": json.dumps(["0.365", "0.635"]),
        "groupItemTitle": "",
        "negRisk": False,
        "negRiskOther": False,
        "active": True,
        "closed": False,
        "archived": False,
        "acceptingOrders": True,
        "enableOrderBook": True,
        "startDate": "2025-12-05T10:11:12.123456Z",
        "endDate": ENDS,
        "orderMinSize": 5,
        "orderPriceMinTickSize": 0.01,
        "secondsDelay": 0,
        "feesEnabled": True,
        "feeType": "politics_fees",
        "feeSchedule": FEES,
        "takerBaseFee": 1000,
        "makerBaseFee": 1000,
        "bestBid": 0.11,
        "bestAsk": 0.13,
        "volumeNum": 250_000.5,
        "liquidityNum": 9000,
        "volume24hr": 1000,
        "events": [
            {
                "id": str(9000 + number),
                "slug": f"event-{number}",
                "title": f"Event {number}",
                "description": "What it is about.",
                "tags": [{"id": "1", "slug": "all"}, {"id": "2", "slug": "politics"}],
            }
        ],
    }
    return {**record, **changes}


def member(number: int, name: str, **changes: Any) -> dict[str, Any]:
    """A market of a group."""
    fixed = {"groupItemTitle": name, "negRisk": True, "negRiskMarketID": condition(0xE0)}
    record = market(number, **{**fixed, **changes})
    record.pop("events")
    return record


def event(*markets: dict[str, Any], number: int = 77, **changes: Any) -> dict[str, Any]:
    nested = [{name: value for name, value in record.items() if name != "events"} for record in markets]
    record: dict[str, Any] = {
        "id": str(number),
        "slug": f"event-{number}",
        "title": "Who will win?",
        "description": "The race.",
        "endDate": ENDS,
        "active": True,
        "closed": False,
        "negRisk": any(child["negRisk"] for child in markets),
        "negRiskAugmented": False,
        "tags": [{"id": "1", "slug": "all"}, {"id": "2", "slug": "politics"}],
        "markets": nested,
    }
    return {**record, **changes}


def single(number: int = 1, **changes: Any) -> dict[str, Any]:
    """An event of one market."""
    return event(market(number, **changes), number=number, title=f"Event {number}")


def book(asset: str, bid: str | None = "0.36", ask: str | None = "0.38", **changes: Any) -> dict[str, Any]:
    """A book with three levels a side, the best of each last."""
    bids = [] if bid is None else [("0.10", "900"), ("0.11", "50.5"), (bid, "120")]
    asks = [] if ask is None else [("0.99", "9000"), ("0.90", "100"), (ask, "30.25")]
    record: dict[str, Any] = {
        "market": condition(1),
        "asset_id": asset,
        "timestamp": "1767225600000",
        "hash": "0xbook",
        "bids": [{"price": price, "size": size} for price, size in bids],
        "asks": [{"price": price, "size": size} for price, size in asks],
        "min_order_size": "5",
        "tick_size": "0.01",
        "neg_risk": False,
        "last_trade_price": "0.370",
    }
    return {**record, **changes}


def row(number: int, **changes: Any) -> dict[str, Any]:
    """How a market stands with the oracle, as the Data API says."""
    record: dict[str, Any] = {
        "question_id": condition(7000 + number),
        "condition_id": condition(number),
        "status": "posed",
        "extended_review": False,
        "was_disputed": False,
        "new_version_q": False,
        "proposed_price": 69,
        "reproposed_price": 69,
        "price": 69,
        "payouts": None,
        "last_update_timestamp": 1767224000,
        "resolved_at": None,
    }
    return {**record, **changes}


def resolved(number: int, yes: int = 1_000_000, no: int = 0, **changes: Any) -> dict[str, Any]:
    fixed = {"status": "resolved", "payouts": [yes, no], "price": yes / 1e6, "resolved_at": 1767225000}
    return row(number, **{**fixed, **changes})
