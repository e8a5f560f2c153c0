"""The leaderboard of a tournament on the fake Metaculus, after the sample of it and section 9 of its document."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bot.testing.venues.metaculus_people import Row, iso
from bot.testing.venues.metaculus_score import scores
from bot.testing.venues.metaculus_state import State, Tournament, User

_RULES = {"spot_peer_tournament": "spot_peer_score", "peer_tournament": "peer_score"}


def leaderboard(state: State, tournament: Tournament, user: User | None, now: datetime) -> Row:
    """Return it; who forecast nothing that resolved has no entry."""
    entries = [entry for one in state.users.values() if (entry := _entry(state, tournament, one, now)) is not None]
    entries.sort(key=lambda entry: -entry["score"])
    for place, entry in enumerate(entries, 1):
        entry["rank"] = place
    board: dict[str, Any] = {
        "id": tournament.id - 32_001,
        "project_id": tournament.id,
        "project_type": "tournament",
        "project_name": tournament.name,
        "project_slug": tournament.slug,
        "is_primary_leaderboard": True,
        "score_type": tournament.score_type,
        "name": None,
        "start_time": None,
        "end_time": None,
        "finalize_time": None,
        "finalized": False,
        "prize_pool": None if tournament.prize is None else float(tournament.prize),
        "max_coverage": float(len(entries)),
        "display_config": None,
        "entries": entries,
    }
    own = next((entry for entry in entries if user is not None and entry["user"]["id"] == user.id), None)
    return board if own is None else {**board, "userEntry": own}


def _entry(state: State, tournament: Tournament, user: User, now: datetime) -> Row | None:
    questions = [one for post in state.posts.values() if tournament in post.tournaments for one in post.questions]
    told = [(one, scores(one, user.id, state.users)) for one in questions]
    rule = _RULES[tournament.score_type]
    counted = [(one, found) for one, found in told if rule in found]
    if not counted:
        return None
    total = sum(found[rule] * one.weight for one, found in counted)
    covered = sum(1.0 if rule.startswith("spot") else found["coverage"] for _, found in counted)
    return {
        "user": {
            "id": user.id,
            "username": user.username,
            "is_bot": user.is_bot,
            "is_staff": False,
            "metadata": None,
        },
        "aggregation_method": None,
        "score": total,
        "ci_lower": None,
        "ci_upper": None,
        "rank": 1,
        "excluded": False,
        "show_when_excluded": False,
        "exclusion_status": 2,
        "medal": None,
        "prize": None,
        "coverage": covered,
        "contribution_count": len(counted),
        "calculated_on": iso(now),
        "take": max(total, 0.0) ** 2,
        "percent_prize": 0.0,
    }
