"""Where a request that is not on record first departs from the one that is: so one sees what changed since."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from bot.domain.prompt import Prompt
from bot.domain.step import Json
from bot.errors import ContractError, NotFound, StoreError
from bot.lab.chain import Call, chain_of
from bot.llm.record import prompt_of
from bot.store.codec import Form
from bot.store.forecasts import Trace
from bot.store.ledger import Ledger

PROMPT: Form[Prompt] = Form("prompt", Prompt)
# What is asked of a model, in the order in which a person would look for the change; ``stable`` is no part of it.
PARTS = ("messages", "tools", "only", "schema")

Found = tuple[str, Json, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A request to a model that is not on record; ``heard`` are the records of the answers that came before it."""

    role: str
    prompt: Prompt
    seed: int | None
    heard: frozenset[str]


async def prompt_differs(ledger: Ledger, trace: Trace, trial: int, sought: Sought) -> Found | None:
    """Return where a prompt departs from the first one on record that was not asked again yet.

    None where that cannot be recovered.
    """
    recorded = await _next_call(ledger, trace, trial, sought)
    if recorded is None or recorded.asked is None:
        return None
    try:
        known = PROMPT.plain(await prompt_of(recorded.asked, ledger.documents))
    except (NotFound, StoreError, ContractError):
        return None
    again = PROMPT.plain(sought.prompt)
    parts = (first_difference(f"prompt.{part}", known.get(part), again.get(part)) for part in PARTS)
    if (found := next((part for part in parts if part is not None), None)) is not None:
        return found
    return first_difference("seed", recorded.asked.sampling.seed, sought.seed)


async def _next_call(ledger: Ledger, trace: Trace, trial: int, sought: Sought) -> Call | None:
    chain = await chain_of(ledger, trace)
    calls = (call for call in chain.calls if call.trial == trial and call.role == sought.role)
    return next((call for call in calls if call.answer.document not in sought.heard), None)


def first_difference(path: str, recorded: Json, replayed: Json, *, within: float = 0.0) -> Found | None:
    """Return the first place where two JSON values differ, with both; numbers may do so by a little."""
    match recorded, replayed:
        case dict(), dict():
            keys: Iterable[str] = dict.fromkeys((*recorded, *replayed))
            parts = ((key, recorded.get(key), replayed.get(key)) for key in keys)
        case list(), list():
            pairs = enumerate(zip_longest(recorded, replayed), 1)
            parts = ((str(number), known, again) for number, (known, again) in pairs)
        case float(), float() if math.isclose(recorded, replayed, rel_tol=0.0, abs_tol=within):
            return None
        case _:
            return None if recorded == replayed else (path, recorded, replayed)
    below = (first_difference(f"{path}.{key}".lstrip("."), known, again, within=within) for key, known, again in parts)
    return next((found for found in below if found is not None), None)
