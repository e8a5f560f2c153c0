"""Records in the documented form: the samples of docs/facts/kalshi.md#samples, with fields replaced."""

import json
from typing import Any

MARKET = json.loads("""
{"ticker":"KXDEMO-26DEC31-A","event_ticker":"KXDEMO-26DEC31","market_type":"binary","title":"Who will win?",
"subtitle":"","yes_sub_title":"Alpha","no_sub_title":"Alpha","status":"active","result":"",
"created_time":"2025-11-01T14:00:00.123456Z","open_time":"2025-11-01T15:00:00Z","close_time":"2026-06-30T15:00:00Z",
"expiration_time":"2026-07-14T15:00:00Z","latest_expiration_time":"2026-07-14T15:00:00Z","settlement_timer_seconds":300,
"previous_yes_bid_dollars":"0.4600","previous_yes_ask_dollars":"0.5300","previous_price_dollars":"0.9900",
"liquidity_dollars":"0.0000",
"yes_bid_dollars":"0.4700","yes_bid_size_fp":"3.00","yes_ask_dollars":"0.5200","yes_ask_size_fp":"3.00",
"no_bid_dollars":"0.4800","no_ask_dollars":"0.5300","last_price_dollars":"0.9900","volume_fp":"2000.00",
"volume_24h_fp":"1.00","open_interest_fp":"2.00","notional_value_dollars":"1.0000","can_close_early":true,
"expiration_value":"","rules_primary":"If Alpha wins, then the market resolves to Yes.","rules_secondary":"",
"price_level_structure":"linear_cent","price_ranges":[{"start":"0.0000","end":"1.0000","step":"0.0100"}],
"exchange_index":0,"a_field_of_tomorrow":{"x":[1]}}
""")
EVENT = json.loads("""
{"event_ticker":"KXDEMO-26DEC31","series_ticker":"KXDEMO","title":"Who will win?","sub_title":"In 2026",
"mutually_exclusive":false,"collateral_return_type":"","settlement_sources":[{"name":"The Times","url":"https://t.example"}],
"strike_date":"2026-06-30T15:00:00Z","last_updated_ts":"2025-12-01T00:00:00Z","fee_type_override":null,"fee_multiplier_override":null,"exchange_index":0}
""")
SERIES = json.loads("""
{"ticker":"KXDEMO","frequency":"custom","title":"Demo","category":"Politics","categories":["Politics"],"tags":["Elections"],
"settlement_sources":[{"name":"The Times","url":"https://t.example"}],"contract_url":"","contract_terms_url":"",
"fee_type":"quadratic","fee_multiplier":1,"additional_prohibitions":[],"exchange_index":0}
""")
# The books of docs/facts/kalshi.md#books, one best first and one best last.
BOOK = {
    "yes_dollars": [["0.4600", "50.00"], ["0.4700", "3.00"]],
    "no_dollars": [["0.4700", "10.00"], ["0.4800", "3.00"]],
}
WALK_BOOK = {
    "yes_dollars": [["0.5500", "40.00"]],
    "no_dollars": [["0.4300", "12.00"], ["0.4200", "30.00"], ["0.4000", "100.00"], ["0.0100", "9000.00"]],
}


def series(ticker: str = "KXDEMO", **changes: Any) -> dict[str, Any]:
    return {**SERIES, "ticker": ticker, **changes}


def market(letter: str = "A", event: str = "KXDEMO-26DEC31", **changes: Any) -> dict[str, Any]:
    label = {"yes_sub_title": f"Candidate {letter}"}
    return {**MARKET, **label, "ticker": f"{event}-{letter}", "event_ticker": event, **changes}


def event(*markets: dict[str, Any], number: int = 31, **changes: Any) -> dict[str, Any]:
    """An event with these markets, which are given its ticker."""
    ticker = f"KXDEMO-26DEC{number}"
    named = [
        one | {"event_ticker": ticker, "ticker": f"{ticker}-{one['ticker'].rpartition('-')[2]}"} for one in markets
    ]
    return {**EVENT, "event_ticker": ticker, "markets": named, **changes}


def quoted(letter: str, bid: str, ask: str, **changes: Any) -> dict[str, Any]:
    prices = {"yes_bid_dollars": bid, "yes_ask_dollars": ask, "yes_bid_size_fp": "9.00", "yes_ask_size_fp": "9.00"}
    return market(letter, **prices, **changes)


def settled(record: dict[str, Any], result: str, value: str) -> dict[str, Any]:
    """The same market with a final outcome."""
    times = {"settlement_ts": "2026-01-01T12:00:00.123456Z"}
    return {**record, "status": "finalized", "result": result, "settlement_value_dollars": value, **times}
