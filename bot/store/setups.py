"""The setups of forecasters, as documents: many forecasts share one."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache

from sqlite_utils import Database

from bot.domain.setup import Setup
from bot.store.codec import SETUP, listed
from bot.store.documents import Packed, get, pack, put

_SETUP = "select setup from forecast where id = ?"
_ADJUST = "update forecast set setup = ? where id = ?"
_USED = "select distinct setup from forecast where forecaster in (select value from json_each(?))"
_MEDIA_TYPE = "application/json"


def keep_setup(database: Database, setup: Setup | None) -> str | None:
    """Write the setup within the caller's transaction and return its digest."""
    if setup is None:
        return None
    document = _packed(SETUP.encode(setup))
    put(database, document)
    return document.digest


def setup_at(database: Database, digest: str | None) -> Setup | None:
    """Read a setup within the caller's snapshot; None stands for a forecast that does not say."""
    return None if digest is None else SETUP.decode(get(database, digest).content.decode())


def foreseeing(database: Database, digests: Iterable[str | None]) -> frozenset[str]:
    """Return those of the setups that let a forecaster see the future, each read once."""
    read = {digest: setup_at(database, digest) for digest in set(digests) if digest is not None}
    return frozenset(digest for digest, setup in read.items() if setup is not None and setup.clairvoyant)


def foreseeing_of(database: Database, forecasters: Collection[str]) -> str:
    """Return as a JSON list, for queries, the setups by which these forecasters were let see the future."""
    used = (setup for (setup,) in database.execute(_USED, [listed(forecasters)]).fetchall())
    return listed(sorted(foreseeing(database, used)))


def unfit(database: Database, forecast_id: str, setup: Setup | None) -> str | None:
    """Say why an unfinished forecast cannot go on with the setup; None where it can, which is then its setup.

    How many trials there are and how they become one answer may change until the end. One that does not say what it was
    begun with goes on, and says nothing.
    """
    ((digest,),) = database.execute(_SETUP, [forecast_id]).fetchall()
    begun = setup_at(database, digest)
    if begun is None or setup is None:
        return None
    if SETUP.encode(replace(begun, trials=setup.trials, aggregate=setup.aggregate)) != SETUP.encode(setup):
        return "the settings of the forecaster changed while it was at work"
    database.execute(_ADJUST, [keep_setup(database, setup), forecast_id])
    return None


@lru_cache(maxsize=64)
def _packed(text: str) -> Packed:
    return pack(text.encode(), _MEDIA_TYPE)
