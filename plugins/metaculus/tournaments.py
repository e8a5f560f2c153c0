"""Tournaments: similar names for an unknown one, and the standings of our account.

Source: docs/facts/metaculus.md#other and #scores. A leaderboard also has the entry of the requesting account.
"""

import re
from collections.abc import Sequence

import structlog

from bot.api import (
    ContestStanding,
    FoxcastError,
    MalformedDataError,
    NotFoundError,
    RequestRejectedError,
    nearest_names,
)
from plugins.metaculus.api_client import MetaculusClient
from plugins.metaculus.api_records import MetaculusLeaderboardRecord, MetaculusTournamentRecord, parse_record
from plugins.metaculus.question_names import SETTINGS_TABLE

_SEASON = re.compile(r"spring|summer|fall|autumn|winter|q[1-4]|\d+|[a-z]{1,3}\d{2,4}")
log = structlog.get_logger(__name__)


async def tournament_refusal_reason(client: MetaculusClient, name: str | int, error: RequestRejectedError) -> str:
    """Return why the open questions of a tournament were refused: usually it does not exist."""
    try:
        await client.tournament(name)
    except NotFoundError:
        return await unknown_tournament_reason(client, name)
    except FoxcastError as other:
        log.info("a tournament cannot be read", tournament=name, error=str(other))
    return f"tournament {name!r} cannot be read, see {SETTINGS_TABLE}: {error}"


async def unknown_tournament_reason(client: MetaculusClient, name: str | int) -> str:
    """Return the message for an unknown tournament, with tournaments of a similar slug or title."""
    message = f"tournament {name!r} does not exist; see tournaments in {SETTINGS_TABLE}"
    try:
        listed = [parse_record(MetaculusTournamentRecord, raw, "a tournament") for raw in await client.tournaments()]
    except FoxcastError as error:
        log.info("tournaments cannot be listed", error=str(error))
        return message
    if found := find_successors(str(name), listed):
        return f"{message}; its successor may be {' or '.join(f'{one.slug} ({one.name})' for one in found)}"
    titles = {word: one for one in listed for word in (one.slug or "", one.name, str(one.id)) if word}
    similar = dict.fromkeys(titles[word].slug or str(titles[word].id) for word in nearest_names(str(name), titles))
    names = {one.slug or str(one.id): one.name for one in listed}
    return (
        f"{message}; similar names: {', '.join(f'{slug} ({names[slug]})' for slug in similar)}" if similar else message
    )


def find_successors(name: str, listed: Sequence[MetaculusTournamentRecord]) -> tuple[MetaculusTournamentRecord, ...]:
    """Return the tournaments under way whose slugs differ from the name in season and year alone, newest first."""
    stem = _season_stem(name)
    found = [
        one for one in listed if one.is_ongoing and one.slug not in {None, name} and _season_stem(one.slug) == stem
    ]
    return tuple(sorted(found, key=lambda one: one.id, reverse=True)) if stem else ()


async def describe_successors(client: MetaculusClient, name: str) -> str:
    """Return the successors of a tournament that has ended, for a person; "" if the site lists none, or nothing."""
    try:
        listed = [parse_record(MetaculusTournamentRecord, raw, "a tournament") for raw in await client.tournaments()]
    except FoxcastError as error:
        log.info("tournaments cannot be listed", error=str(error))
        return ""
    found = find_successors(name, listed)
    return f"its successor is {' or '.join(f'{one.slug} ({one.name})' for one in found)}" if found else ""


def _season_stem(slug: str | None) -> str:
    """Return a slug without seasons, quarters and numbers."""
    return "-".join(part for part in (slug or "").lower().split("-") if not _SEASON.fullmatch(part))


async def read_contest_standings(client: MetaculusClient, tournaments: Sequence[str | int]) -> list[ContestStanding]:
    """Return the standing of the account in each tournament that lists it on a leaderboard. Raises as reading does."""
    found: dict[int, ContestStanding] = {}
    for name in tournaments:
        try:
            tournament = parse_record(MetaculusTournamentRecord, await client.tournament(name), f"tournament {name}")
            boards = await client.leaderboards(tournament.id) if tournament.id not in found else ()
        except NotFoundError:
            continue
        if found_standing := _contest_standing(tournament, boards):
            found[tournament.id] = found_standing
    return list(found.values())


def _contest_standing(tournament: MetaculusTournamentRecord, boards: Sequence[object]) -> ContestStanding | None:
    """Return our standing on the primary board, else on any; an invalid board is logged and skipped."""
    parsed: list[MetaculusLeaderboardRecord] = []
    for raw in boards:
        try:
            parsed.append(
                parse_record(MetaculusLeaderboardRecord, raw, f"the leaderboard of tournament {tournament.id}")
            )
        except MalformedDataError as error:
            log.warning("a leaderboard is skipped", error=str(error))
    for board in sorted(parsed, key=lambda one: one.is_primary_leaderboard is not True):
        if (entry := board.user_entry) is not None:
            return ContestStanding(
                contest=tournament.slug or str(tournament.id),
                name=tournament.name,
                rule=board.score_type.replace("_", " "),
                points=entry.score,
                rank=None if entry.excluded else entry.rank,
                entrants=_count_entrants(board),
                questions=entry.contribution_count,
                coverage=entry.coverage,
                prize=entry.prize,
            )
    return None


def _count_entrants(board: MetaculusLeaderboardRecord) -> int:
    """Count the ranked accounts: neither aggregates nor excluded accounts."""
    rows = [row for row in board.entries if isinstance(row, dict)]
    return sum(row.get("user") is not None and not row.get("excluded") for row in rows)
