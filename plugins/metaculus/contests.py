"""Tournaments: what is near a name that is none, and how our account stands in those that we forecast.

Source: venue document, sections 4.7 and 9: a leaderboard has the entry of the account that asks beside the others.
"""

from collections.abc import Sequence

import structlog

from bot.api import ContestStanding, ContractError, FoxcastError, NotFound, Rejected, nearest_names
from plugins.metaculus.client import Client
from plugins.metaculus.raw import RawLeaderboard, RawTournament, parsed
from plugins.metaculus.terms import TABLE

log = structlog.get_logger(__name__)


async def why_refused(client: Client, name: str | int, error: Rejected) -> str:
    """Return what to say where the open questions of a tournament were refused: mostly it is not there."""
    try:
        await client.tournament(name)
    except NotFound:
        return await unknown_tournament(client, name)
    except FoxcastError as other:
        log.info("a tournament cannot be read", tournament=name, error=str(other))
    return f"tournament {name!r} cannot be read, see {TABLE}: {error}"


async def unknown_tournament(client: Client, name: str | int) -> str:
    """Return what to say of a tournament that is not there: with those whose slug or title looks like its name."""
    told = f"tournament {name!r} is not there; see tournaments in {TABLE}"
    try:
        listed = [parsed(RawTournament, raw, "a tournament") for raw in await client.tournaments()]
    except FoxcastError as error:
        log.info("tournaments cannot be listed", error=str(error))
        return told
    titles = {word: one for one in listed for word in (one.slug or "", one.name, str(one.id)) if word}
    near = dict.fromkeys(titles[word].slug or str(titles[word].id) for word in nearest_names(str(name), titles))
    titled = {one.slug or str(one.id): one.name for one in listed}
    return f"{told}; near it: {', '.join(f'{slug} ({titled[slug]})' for slug in near)}" if near else told


async def standings_of(client: Client, tournaments: Sequence[str | int]) -> list[ContestStanding]:
    """Return how the account stands in each of the tournaments that has a leaderboard with it; errors as reading."""
    found: dict[int, ContestStanding] = {}
    for name in tournaments:
        try:
            tournament = parsed(RawTournament, await client.tournament(name), f"tournament {name}")
            boards = await client.leaderboards(tournament.id) if tournament.id not in found else ()
        except NotFound:
            continue
        if standing := _standing(tournament, boards):
            found[tournament.id] = standing
    return list(found.values())


def _standing(tournament: RawTournament, boards: Sequence[object]) -> ContestStanding | None:
    """Return our place on the first board that counts, else on any; one that is odd is left out, and logged."""
    read: list[RawLeaderboard] = []
    for raw in boards:
        try:
            read.append(parsed(RawLeaderboard, raw, f"the leaderboard of tournament {tournament.id}"))
        except ContractError as error:
            log.warning("a leaderboard is left out", error=str(error))
    for board in sorted(read, key=lambda one: one.is_primary_leaderboard is not True):
        if (entry := board.user_entry) is not None:
            return ContestStanding(
                contest=tournament.slug or str(tournament.id),
                name=tournament.name,
                rule=board.score_type.replace("_", " "),
                points=entry.score,
                rank=None if entry.excluded else entry.rank,
                entrants=_entrants(board),
                questions=entry.contribution_count,
                coverage=entry.coverage,
                prize=entry.prize,
            )
    return None


def _entrants(board: RawLeaderboard) -> int:
    """Count the accounts that have a place: neither aggregates of all, nor who is excluded."""
    rows = [row for row in board.entries if isinstance(row, dict)]
    return sum(row.get("user") is not None and not row.get("excluded") for row in rows)
