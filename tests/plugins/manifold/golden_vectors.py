"""The golden vectors of docs/facts/manifold.md#vectors, as values of the plugin."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bot.api import ContractSide
from plugins.manifold.book_walk import RestingLimitOrder
from plugins.manifold.cpmm import CpmmPool
from plugins.manifold.market_simulation import SimulatedMarket

# The vectors were made with a present-day clock: orders that expire in 1970 have expired.
NOW_MS = 1_790_000_000_000.0


class GoldenVector(NamedTuple):
    id: str
    fn: str
    input: Mapping[str, Any]
    output: Mapping[str, Any]


def vectors(shared: Path, *functions: str) -> Iterator[GoldenVector]:
    whole = json.loads((shared / "venues" / "manifold_cpmm_vectors.json").read_text())
    for raw in whole["vectors"]:
        if raw["fn"] in functions:
            yield GoldenVector(raw["id"], raw["fn"], raw["input"], raw["output"])


def functions(shared: Path) -> dict[str, int]:
    whole = json.loads((shared / "venues" / "manifold_cpmm_vectors.json").read_text())
    names = [raw["fn"] for raw in whole["vectors"]]
    return {name: names.count(name) for name in names}


def pool_of(raw: Mapping[str, Any]) -> CpmmPool:
    return CpmmPool(raw["YES"], raw["NO"], raw["p"])


def leg_of(raw: Mapping[str, Any]) -> ContractSide:
    return ContractSide(raw["outcome"].lower())


def board_of(vector: GoldenVector, *, linked: bool = False) -> SimulatedMarket:
    raw = vector.input
    pools = {a["id"]: CpmmPool(a["poolYes"], a["poolNo"]) for a in raw["answers"]} if "answers" in raw else None
    return SimulatedMarket(
        pools=pools or {"": pool_of(raw)},
        orders=tuple(resting(order, raw["balances"]) for order in raw.get("orders", ())),
        is_linked=linked,
        now_ms=NOW_MS,
    )


def resting(raw: Mapping[str, Any], balances: Mapping[str, float]) -> RestingLimitOrder:
    return RestingLimitOrder(
        id=raw["id"],
        user=raw["userId"],
        leg=leg_of(raw),
        limit=raw["limitProb"],
        remaining=raw["orderAmount"] - raw["amount"],
        created=raw.get("createdTime", 0.0),
        expires=raw.get("expiresAt"),
        balance=balances.get(raw["userId"]),
        answer=raw.get("answerId", ""),
    )
