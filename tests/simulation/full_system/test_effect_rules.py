"""The further rules of the referee, on facts written by hand: each accepts what may be and names what may not."""

import hashlib
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.simulation.full_system.effect_rules import (
    ROWS,
    EffectReferee,
    incomplete_sets,
    round_outcomes,
    untold_outcomes,
)

Fact = dict[str, Any]
NOON, NOON_S, SHIP, ROW = datetime(2026, 3, 1, 12, tzinfo=UTC), 43_200.0, "0x01", "0x02"
REF, BENCH = f"polymarket:{SHIP}", "forecastbench:2026-03-01/fred/dgs10"


def moment(after_s: float = 0.0) -> Fact:
    return {"at_s": NOON_S + after_s, "clock": NOON + timedelta(seconds=after_s)}


def judge(
    rows: Fact | None = None,
    *,
    files: Fact | None = None,
    venue: Fact | None = None,
    config: Fact | None = None,
    **facts: Any,
) -> list[str]:
    """Return what is said of a world in which nothing happened but this."""
    tables = {"venues": {"polymarket": {"mode": "live", **(venue or {})}}, **(config or {})}
    world: Fact = {"eras": [{"from_s": 0.0, **moment(-NOON_S), "config": tables}]}
    world |= {name: [] for name in ("acts", "writes", "orders", "accounts", "calls")} | {"books": {}}
    ledger: Fact = {**dict.fromkeys([*ROWS, "refunds"], ()), **(rows or {})}
    return [*EffectReferee({**world, **facts}, ledger, files or {}).violations()]


@pytest.mark.parametrize(("cash", "wrong"), [(4.1, 0), (3.9, 1)])
def test_what_is_sold_brings_its_worth_after_fees(cash: float, wrong: int) -> None:
    row = {"id": "i", "mode": "live", "ref": REF, "shares": 10.0, "cash": cash}
    row |= {"order_body": json.dumps({"leg": "no"}), "predictions": json.dumps({"": {"probability": 0.6}})}
    assert len(judge({"sales": [row]})) == wrong


def readings(bid: float) -> list[Fact]:
    position = {"contract": SHIP, "leg": "no", "shares": 10.0, "bid": bid, "has_book": True, "pays": None, "paid": 5.0}
    return [{**moment(-s), "venue": "polymarket", "faults": 0, "positions": [position]} for s in (60, 50, 40)]


@pytest.mark.parametrize(("bid", "tried", "wrong"), [(0.3, 0, 1), (0.3, 1, 0), (0.4, 0, 0), (0.6, 0, 0)])
def test_nothing_is_bought_while_a_position_is_to_be_sold(bid: float, tried: int, wrong: int) -> None:
    order = {**moment(), "venue": "polymarket", "side": "buy", "leg": "yes", "contract": ROW}
    row = {"contract": SHIP, "ref": REF, "side": "buy", "closing": ""}
    row |= {"closes_at": (NOON + timedelta(days=2)).isoformat(), "planned_at": (NOON - timedelta(days=1)).isoformat()}
    sale = {**row, "side": "sell", "closing": "stop-loss: it lost", "planned_at": NOON.isoformat()}
    rows = {"traded": [row, *([sale] if tried else [])]}
    found = judge(rows, venue={"trading": {"stop_loss": 0.3}}, orders=[order], accounts=readings(bid))
    assert len(found) == wrong


@pytest.mark.parametrize(
    ("dollars", "answers", "requests", "wrong"),
    [(4.0, 1, 1, 0), (4.1, 1, 1, 0), (4.2, 1, 1, 1), (4.0, 1, 2, 1), (4.2, 2, 2, 2)],
)
def test_each_request_to_buy_has_an_approval_of_its_own_up_to_its_limit(
    dollars: float, answers: int, requests: int, wrong: int
) -> None:
    signed = {"side": "BUY", "tokenId": "7", "makerAmount": f"{dollars * 1e6:.0f}", "takerAmount": "10000000"}
    write = {**moment(), "venue": "polymarket", "kind": "write", "path": "/order", "body": {"order": signed}}
    shown = {"order": f"buy no {SHIP}", "limit": "0.4000"}
    answer = {**moment(-9), "kind": "answer", "approved": True, "shown": shown}
    books = {(SHIP, "no"): [{"token": "7"}]}
    found = judge(venue={"mode": "approve"}, writes=[write] * requests, acts=[answer] * answers, books=books)
    assert len(found) == wrong


def test_the_limit_of_a_bet_on_no_is_one_less_that_of_yes() -> None:
    body = {"contractId": "market1", "outcome": "NO", "limitProb": 0.7, "amount": 5}
    write = {**moment(), "venue": "manifold", "kind": "write", "path": "/v0/bet", "body": body}
    for limit, wrong in (("0.3000", 0), ("0.2800", 1)):
        answer = {
            **moment(-9),
            "kind": "answer",
            "approved": True,
            "shown": {"order": "buy no market1", "limit": limit},
        }
        found = judge(config={"venues": {"manifold": {"mode": "approve"}}}, writes=[write], acts=[answer])
        assert len(found) == wrong


@pytest.mark.parametrize(("slips", "wrong"), [(1, 0), (2, 0), (3, 1), (4, 1)])
def test_a_forecast_has_enough_trials(slips: int, wrong: int) -> None:
    call = {"question": REF, "cutoff": NOON.isoformat(), "forecaster": 1}
    calls = [{**call, "trial": number, "slips": number <= slips} for number in (1, 2, 3, 4)]
    row = {"id": "f", "ref": REF, "forecaster": "drifter", "cutoff": "2026-03-01T12:00:00Z"}
    assert len(judge({"forecasts": [row]}, calls=calls)) == wrong


@pytest.mark.parametrize(("usd", "wrong"), [(0.1, 0), (0.11, 1)])
def test_a_forecast_stays_within_its_budget(usd: float, wrong: int) -> None:
    config = {"llm": {"budget": {"question_usd": 0.1}}}
    assert len(judge({"spending": [{"scope": "f", "ref": REF, "usd": usd}]}, config=config)) == wrong


@pytest.mark.parametrize(("hours", "wrong"), [(73.5, 0), (72.5, 1)])
def test_a_stale_forecast_has_time_to_be_renewed(hours: float, wrong: int) -> None:
    row = {"id": "w", "ref": REF, "made_at": NOON.isoformat()}
    row["planned_at"] = (NOON + timedelta(hours=hours)).isoformat()
    assert len(judge({"withdrawals": [row]})) == wrong


@pytest.mark.parametrize(("late", "wrong"), [(0.6, 0), (0.4, 1)])
def test_each_date_of_a_file_has_its_own_answer(late: float, wrong: int) -> None:
    meant = {"2026-03-08": {"probability": 0.4}, "2026-04-01": {"probability": 0.6}}
    lines = [
        {"id": "dgs10", "source": "fred", "resolution_date": date, "forecast": forecast}
        for date, forecast in (("2026-03-08", 0.4), ("2026-04-01", late))
    ]
    rows = {"filed": [{"ref": BENCH, "predictions": json.dumps(meant)}]}
    assert len(judge(rows, files={"2026-03-01.us.1.json": {"forecasts": lines}})) == wrong


@pytest.mark.parametrize(
    ("cash", "refund", "wrong"),
    # All is given back; what was taken out before is kept; too much, too little, and a gift on top of a gain.
    [(0, 5e6, 0), (2e6, 0, 0), (1e6, 6e6, 1), (-1e6, 4e6, 1), (3e6, 1e6, 1)],
)
def test_a_void_question_gives_back_what_was_put_in(cash: float, refund: float, wrong: int) -> None:
    assert len(judge({"refunds": [{"contract": SHIP, "cash": cash, "refund": refund}]})) == wrong


# The order comes at noon.
@pytest.mark.parametrize(("since", "until", "wrong"), [(-60, None, 0), (-60, 60, 0), (-60, -30, 1), (60, None, 1)])
def test_what_its_venue_closed_is_not_to_be_sold(since: int, until: int | None, wrong: int) -> None:
    order = {**moment(), "venue": "polymarket", "side": "buy", "leg": "yes", "contract": ROW}
    row = {"contract": SHIP, "ref": REF, "side": "buy", "closing": "", "closes_at": None}
    rows = {"traded": [{**row, "planned_at": (NOON - timedelta(days=1)).isoformat()}]}
    closed = {REF: [[NOON + timedelta(seconds=since), None if until is None else NOON + timedelta(seconds=until)]]}
    venue = {"trading": {"stop_loss": 0.3}}
    assert len(judge(rows, venue=venue, orders=[order], accounts=readings(0.3), closed=closed)) == wrong


# At a price of a quarter, 3 to 1, and moved by 0.9 times its lean, which is in the first bytes of a digest.
@pytest.mark.parametrize(("shift", "wrong"), [(0.0, 0), (0.01, 1)])
def test_a_forecast_is_an_answer_of_its_forecaster(shift: float, wrong: int) -> None:
    lean = 2.0 * int(hashlib.sha256(REF.encode()).hexdigest()[:8], 16) / 2**32 - 1.0
    answer = 1.0 / (1.0 + 3.0 * math.exp(-0.9 * lean))
    row = {"ref": REF, "forecaster": "drifter", "cutoff": NOON.isoformat(), "probability": answer + shift}
    assert len(judge({"beliefs": [{**row, "crowd": 0.25}]})) == wrong


# Cut short, a trial says what it believed before; the whole of it is the last of three steps.
@pytest.mark.parametrize(("step", "is_whole", "wrong"), [(3, 1, 0), (1, 0, 0), (1, 1, 1), (2, 1, 1)])
def test_a_whole_trial_says_what_it_believed_last(step: int, is_whole: int, wrong: int) -> None:
    lean = 2.0 * int(hashlib.sha256(REF.encode()).hexdigest()[:8], 16) / 2**32 - 1.0
    answer = 1.0 / (1.0 + 3.0 * math.exp(-0.3 * lean * step))
    row = {"ref": REF, "forecaster": "drifter", "cutoff": NOON.isoformat(), "probability": answer, "crowd": 0.25}
    assert len(judge({"beliefs": [{**row, "is_whole": is_whole}]})) == wrong


# A million tokens cost two dollars.
@pytest.mark.parametrize(
    ("usd", "most", "wrong"), [(2.0, 2.0, 0), (0.0, 3.0, 0), (1.0, 1.0, 1), (2.5, 2.5, 1), (0.0, 1.5, 1)]
)
def test_calls_count_for_what_they_are_billed(usd: float, most: float, wrong: int) -> None:
    bill = {"true_time": NOON, "prompt_tokens": 1_000_000, "completion_tokens": 0}
    bill |= {"prompt_tokens_details": {"cached_tokens": 0}}
    llm = {"llm": {"models": {"m": {"price_in": 2.0}}}}
    assert len(judge({"costs": [{"usd": usd, "most": most}]}, config=llm, bills=[bill])) == wrong


SERIES = {"id": "dgs10", "resolution_date": "2026-03-08", "resolved": True, "resolved_to": 1.0}
OTHER = {**SERIES, "id": "cpi", "resolved_to": 0.0}


@pytest.mark.parametrize(
    ("published", "kind", "value", "wrong"),
    [
        ([SERIES, OTHER], "happened", 1.0, 0),
        ([SERIES, OTHER], "happened", 0.0, 1),
        ([SERIES, OTHER], "void", None, 1),
        ([OTHER], "happened", 1.0, 1),
        ([OTHER], "void", None, 0),
        ([{**SERIES, "resolved": False}, OTHER], "happened", 1.0, 1),
        # A file without any outcome may not have been read.
        ([], "happened", 1.0, 0),
    ],
)
def test_outcomes_of_a_round_are_those_of_its_newest_file(
    published: list[Fact], kind: str, value: float | None, wrong: int
) -> None:
    row = {"ref": BENCH, "target": "2026-03-08", "kind": kind, "value": value}
    files = {"2026-03-01_resolution_set.json": {"resolutions": published}}
    assert len([*round_outcomes(files, [row])]) == wrong


ASKED = {
    "2026-03-01-llm.json": {
        "questions": [
            {"source": "fred", "id": "dgs10", "resolution_dates": ["2026-03-08", "2026-03-31"]},
            {"source": "manifold", "id": "lamp", "resolution_dates": "N/A"},
        ]
    }
}
FILED = [("fred", "dgs10", "2026-03-08"), ("fred", "dgs10", "2026-03-31"), ("manifold", "lamp", None)]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (FILED, ""),
        (FILED[:2], "lacks 1 rows"),
        ([*FILED, FILED[0]], "has 1 more"),
        ([*FILED[:2], ("manifold", "lamp", "2026-03-08")], "lacks 1 rows"),
    ],
)
def test_a_forecast_file_has_each_row_once(rows: list[tuple[str, str, str | None]], words: str) -> None:
    lines = [{"source": source, "id": name, "resolution_date": date} for source, name, date in rows]
    found = [*incomplete_sets({"2026-03-01.foxcast.1.json": {"forecasts": lines}}, ASKED)]
    assert [words in one for one in found] == [True] * bool(words)


@pytest.mark.parametrize(
    ("told", "target", "kind", "wrong"),
    [
        (("dgs10", "2026-03-08"), "2026-03-08", "happened", 0),
        (("dgs10", "2026-03-08"), "2026-03-31", "happened", 1),
        (("dgs10", "2026-03-08"), "outcome", "happened", 0),
        (("other", "2026-03-08"), "outcome", "happened", 1),
        (("other", "2026-03-08"), "outcome", "void", 0),
    ],
)
def test_a_price_of_a_round_is_no_outcome(told: tuple[str, str], target: str, kind: str, wrong: int) -> None:
    row = {"ref": BENCH, "target": target, "kind": kind, "value": 0.4}
    assert len([*untold_outcomes({told}, [row])]) == wrong


FLAT = [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("meant", "said", "wrong"),
    [
        ({"probability": 0.3}, {"probability_yes": 0.3}, 0),
        ({"probability": 0.0002}, {"probability_yes": 0.001}, 0),
        ({"probability": 0.004}, {"probability_yes": 0.01}, 1),
        ({"probability": 0.3}, {"probability_yes": 0.7}, 1),
        ({"probabilities": {"a": 0.3, "b": 0.7}}, {"probability_yes_per_category": {"a": 0.3, "b": 0.7}}, 0),
        ({"probabilities": {"a": 0.0, "b": 1.0}}, {"probability_yes_per_category": {"a": 0.001, "b": 0.999}}, 0),
        ({"probabilities": {"a": 0.3, "b": 0.7}}, {"probability_yes_per_category": {"a": 0.7, "b": 0.3}}, 1),
        ({"probabilities": {"a": 0.3, "b": 0.7}}, {"probability_yes_per_category": {"a": 0.31, "b": 0.69}}, 1),
        ({"cdf": FLAT}, {"continuous_cdf": [0.001, 0.505, 0.999]}, 0),
        ({"cdf": FLAT}, {"continuous_cdf": [0.0, 0.45, 1.0]}, 1),
        ({"cdf": FLAT}, {"continuous_cdf": [0.0, 1.0]}, 1),
    ],
)
def test_a_venue_gets_what_was_forecast(meant: Fact, said: Fact, wrong: int) -> None:
    row = {"ref": "metaculus:1:2", "predictions": json.dumps({"t": meant})}
    sent = {**moment(), "venue": "metaculus", "path": "/api/questions/forecast/", "kind": "write"}
    sent |= {"body": [{"question": 2, **said}]}
    venues = {"venues": {"metaculus": {"mode": "live"}, "polymarket": {"mode": "live"}}}
    assert len(judge({"said": [row]}, config=venues, writes=[sent])) == wrong


@pytest.mark.parametrize(
    ("paths", "disturbed", "wrong"),
    [
        (("forecast", "withdraw", "withdraw"), (), 1),
        (("forecast", "withdraw", "withdraw"), (1,), 0),
        (("withdraw", "forecast", "withdraw"), (), 0),
    ],
)
def test_a_forecast_is_withdrawn_once(paths: tuple[str, ...], disturbed: tuple[int, ...], wrong: int) -> None:
    writes = [
        {
            **moment(60.0 * number),
            "venue": "metaculus",
            "kind": "write",
            "number": number,
            "path": f"/api/questions/{path}/",
            "body": [{"question": 7, **({"probability_yes": 0.5} if path == "forecast" else {})}],
        }
        for number, path in enumerate(paths)
    ]
    tables = {"venues": {"metaculus": {"mode": "live"}}}
    said = {"ref": "metaculus:1:7", "predictions": json.dumps({"t": {"probability": 0.5}})}
    assert len(judge({"said": [said]}, writes=writes, disturbed={"metaculus": {*disturbed}}, config=tables)) == wrong


@pytest.mark.parametrize(("ahead_s", "since_s", "count"), [(0.0, 900.0, 0), (3600.0, 900.0, 1), (3600.0, 60.0, 0)])
def test_nothing_is_sent_while_the_clock_is_wrong(ahead_s: float, since_s: float, count: int) -> None:
    sent = {"venue": "polymarket", "kind": "write", "path": "/order", "body": {}, "number": 1, **moment()}
    sent["clock"] = NOON + timedelta(seconds=ahead_s)
    moved = {"kind": "clock moved", "venue": None, **moment(-since_s)}
    found = judge(acts=[moved], writes=[sent])
    assert [f"ahead since {NOON_S - since_s:.0f} s" in one for one in found] == [True] * count


@pytest.mark.parametrize(
    ("name", "lasts_s", "count"),
    [
        ("manifold", 600.0, 0),
        ("manifold", 490.0, 0),
        ("manifold", 700.0, 1),
        ("manifold", 400.0, 1),
        ("polymarket", 660.0, 0),
        ("polymarket", 720.0, 1),
        ("polymarket", 400.0, 1),
    ],
)
def test_an_order_rests_for_as_long_as_is_set(name: str, lasts_s: float, count: int) -> None:
    ends_s = NOON.timestamp() + lasts_s
    body: Fact = {"orderType": "GTD", "order": {"expiration": str(ends_s)}}
    body = body if name == "polymarket" else {"expiresAt": 1000.0 * ends_s}
    settings = {"venues": {name: {"mode": "live", "settings": {"order_lifetime_s": 600.0}}}}
    sent = {"venue": name, "kind": "write", "path": "/order", "body": body, "number": 1, **moment()}
    found = judge(config=settings, writes=[sent])
    assert ["it would rest for" in one for one in found] == [True] * count


@pytest.mark.parametrize(
    ("said", "state", "wrong"), [((0.4, 0.7), "acked", 0), ((0.4,), "acked", 1), ((0.4,), "superseded", 0)]
)
def test_what_was_acknowledged_of_a_round_stays_in_its_file(said: tuple[float, ...], state: str, wrong: int) -> None:
    rows = [
        {
            "id": f"i{number}",
            "ref": f"forecastbench:2026-03-01/fred/dgs{number}",
            "batch": "2026-03-01",
            "state": state,
            "predictions": json.dumps({"2026-03-08": {"probability": value}}),
        }
        for number, value in enumerate((0.4, 0.7))
    ]
    lines = [
        {"source": "fred", "id": f"dgs{number}", "forecast": value, "resolution_date": "2026-03-08"}
        for number, value in enumerate(said)
    ]
    found = judge({"filed": rows}, files={"2026-03-01.org.1.json": {"forecasts": lines}})
    assert len(found) == wrong
