"""The questions that are asked for outcomes, found from the few that may wait, are those that every forecast says."""

import asyncio
import random
from datetime import timedelta
from pathlib import Path

import pytest
from sqlite_utils import Database

from bot.store.ledger import LEDGER_FILE, open_ledger
from bot.store.schema_views import IS_WITHDRAWN
from bot.store.serialization import format_timestamp
from tests.grown_ledger import NOW, grow_ledger

OF_EVERY_FORECAST = f"""
select distinct f.ref
from forecast f join question q on q.ref = f.ref join target t on t.version = f.version
where q.venue = :venue and f.state = 'done'
  and not exists (
    select 1 from current_resolution r
    where r.ref = t.ref and r.target = t.target and r.seen_at < :since and not {IS_WITHDRAWN})
order by f.ref
"""  # noqa: S608 - made of constants
_ADD = "insert into resolution (ref, target, kind, value, body, resolved_at, seen_at) select ref, target"
CHANGES = (
    f"""{_ADD}, 'void', null, '{{"reason":"withdrawn","kind":"void"}}', resolved_at, :at
      from resolution where ref = :ref limit 1""",
    f"""{_ADD}, 'happened', 1.0, '{{"value":1.0,"kind":"happened"}}', resolved_at, :at
      from resolution where ref = :ref limit 1""",
    "update prediction set scored_against = (select max(id) from resolution where ref = :ref) where ref = :ref",
    "update forecast set state = 'failed', made_at = null where ref = :ref",
)


@pytest.mark.parametrize("seed", range(3))
async def test_those_that_wait_are_those_of_every_forecast(tmp_path: Path, seed: int) -> None:
    path, rng = tmp_path / "paper" / LEDGER_FILE, random.Random(seed)
    path.parent.mkdir(mode=0o700)
    await asyncio.to_thread(grow_ledger, path, 500)
    chosen = [(rng.choice(CHANGES), f"lantern:q{rng.randrange(500)}") for _ in range(60)]

    def change(database: Database) -> None:
        for sql, ref in chosen:
            database.execute(sql, {"ref": ref, "at": format_timestamp(NOW)})

    async with open_ledger(path, now=NOW) as ledger:
        await ledger.permissions.write(change)
        for days in (59, 30, -40, -4000):
            since = NOW + timedelta(days=days)
            values = {"venue": "lantern", "since": format_timestamp(since)}
            expected = await ledger.permissions.read(
                lambda database, values=values: [ref for (ref,) in database.execute(OF_EVERY_FORECAST, values)]  # type: ignore[misc]
            )
            found = await ledger.questions.awaiting_outcome("lantern", since=since)
            assert [str(ref) for ref in found] == expected
            assert expected
