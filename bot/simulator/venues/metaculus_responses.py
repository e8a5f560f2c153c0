"""The JSON rows of the fake Metaculus's responses.

Accounts, tournaments, comments, questions, posts and leaderboards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from bot.core.light_dataclass import dataclass
from bot.simulator.venues.metaculus_scores import account_scores
from bot.simulator.venues.metaculus_state import (
    CONTINUOUS,
    FakeMetaculusComment,
    FakeMetaculusForecast,
    FakeMetaculusPost,
    FakeMetaculusQuestion,
    FakeMetaculusState,
    FakeMetaculusUser,
    FakeTournament,
    QuestionScaling,
    cdf_quantile,
)

ResponseRow = dict[str, Any]


def iso_text(moment: datetime | None) -> str | None:
    """Return a moment as the server writes it."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def user_row(user: FakeMetaculusUser) -> ResponseRow:
    """The account of the request."""
    absent = (
        *("website", "formerly_known_as", "twitter", "linkedin", "facebook", "github", "good_judgement_open", "kalshi"),
        *("manifold", "infer", "hypermind", "occupation", "location", "profile_picture", "metadata", "app_theme"),
        "language",
    )
    return {
        "id": user.id,
        "username": user.username,
        "date_joined": iso_text(user.joined),
        "bio": "",
        **dict.fromkeys(absent),
        "is_active": True,
        "is_spam": False,
        "is_bot": user.is_bot,
        "email": "",
        "is_superuser": False,
        "is_staff": False,
        "unsubscribed_mailing_tags": [],
        "hide_community_prediction": False,
        "is_onboarding_complete": False,
        "registered_campaigns": [],
        "should_suggest_keyfactors": False,
        "prediction_expiration_percent": 10,
        "interface_type": "forecaster_view",
        "api_access_tier": user.tier,
        "api_forecasting_access": user.access,
        "is_primary_bot": user.is_bot and user.is_primary,
        "has_password": False,
        "username_set_at": iso_text(user.joined),
        "metaculus_news_subscription": False,
        "automatically_follow_on_predict": True,
        "follow_notify_cp_change_threshold": 0.25,
        "follow_notify_comments_frequency": 10,
        "follow_notify_milestone_step": 0.2,
        "follow_notify_on_status_change": True,
    }


def tournament_row(tournament: FakeTournament, now: datetime) -> ResponseRow:
    """A tournament as posts name it."""
    return {
        "id": tournament.id,
        "type": "tournament",
        "name": tournament.name,
        "slug": tournament.slug,
        "header_image": None,
        "prize_pool": tournament.prize,
        "start_date": iso_text(tournament.start),
        "close_date": iso_text(tournament.close),
        "forecasting_end_date": iso_text(tournament.close),
        "html_metadata_json": None,
        "is_ongoing": tournament.close is None or now < tournament.close,
        "user_permission": None,
        "order": 0,
        "created_at": iso_text(tournament.created),
        "edited_at": iso_text(tournament.created),
        "score_type": tournament.score_type,
        "default_permission": tournament.permission,
        "visibility": "not_in_main_feed",
        "show_on_homepage": False,
        "is_current_content_translated": False,
        "bot_leaderboard_status": tournament.bot_status,
        "description_preview": "",
    }


def tournament_page(state: FakeMetaculusState, tournament: FakeTournament, now: datetime) -> ResponseRow:
    """A tournament in a list of them."""
    posts = [post for post in state.posts.values() if tournament in post.tournaments]
    questions = [question for post in posts for question in post.questions]
    authors = {forecast.author for question in questions for forecast in question.forecasts}
    timeline = {
        "last_spot_scoring_time": iso_text(max((question.spot_time for question in questions), default=None)),
        "latest_actual_resolve_time": iso_text(max((q.resolved for q in questions if q.resolved), default=None)),
        "latest_scheduled_resolve_time": iso_text(max((q.scheduled_resolve for q in questions), default=None)),
        "all_questions_resolved": all(question.resolution is not None for question in questions),
        "all_questions_closed": all(question.status(now) != "open" for question in questions),
    }
    return {
        **tournament_row(tournament, now),
        "user_permission": tournament.permission,
        "questions_count": len(posts),
        "questions_count_including_subquestions": len(questions),
        "forecasts_count": sum(len(question.forecasts) for question in questions),
        "forecasters_count": len(authors),
        "timeline": timeline if questions else None,
    }


def comment_row(state: FakeMetaculusState, comment: FakeMetaculusComment) -> ResponseRow:
    """A comment."""
    author, post = state.users[comment.author], state.posts[comment.post]
    return {
        "id": comment.id,
        "author": {
            "id": author.id,
            "username": author.username,
            "is_bot": author.is_bot,
            "is_staff": False,
            "metadata": None,
        },
        "parent_id": comment.parent,
        "root_id": comment.parent,
        "created_at": iso_text(comment.created),
        "text_edited_at": iso_text(comment.edited),
        "is_soft_deleted": comment.deleted,
        "text": comment.text,
        "on_post": post.id,
        "on_post_data": {"id": post.id, "title": post.title},
        "included_forecast": None if comment.forecast is None else _included_forecast(*comment.forecast),
        "is_private": comment.is_private,
        "vote_score": 0,
        "changed_my_mind": {"count": 0, "for_this_user": False},
        "is_pinned": False,
        "key_factor_votes_score": 0.0,
        "mentioned_users": [],
        "user_vote": 0,
        "author_staff_permission": None,
        "is_current_content_translated": False,
        "key_factors": [],
    }


def _included_forecast(question: FakeMetaculusQuestion, forecast: FakeMetaculusForecast) -> ResponseRow:
    scaling = question.scaling
    named = dict(zip(question.all_options_ever or (), forecast.values, strict=False))
    return {
        "start_time": iso_text(datetime.fromtimestamp(forecast.start, UTC)),
        "probability_yes": forecast.values[1] if question.type == "binary" else None,
        "probability_yes_per_category": named or None,
        "continuous_cdf": list(forecast.values) if question.type in CONTINUOUS else None,
        "quartiles": None,
        "scaling": {
            "range_max": None if scaling is None else scaling.high,
            "range_min": None if scaling is None else scaling.low,
            "zero_point": None if scaling is None else scaling.zero_point,
        },
        "options": question.options,
        "question_type": question.type,
        "question_unit": question.unit,
    }


_NO_RANGE = {"range_min": None, "range_max": None, "nominal_min": None, "nominal_max": None, "zero_point": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseView:
    """The viewer, the time, and what is shown: community predictions, own forecasts, texts of closed questions."""

    state: FakeMetaculusState
    user: FakeMetaculusUser | None
    now: datetime
    hides_closed: bool
    with_own: bool = True
    in_list: bool = False

    def question(self, question: FakeMetaculusQuestion, *, detail: bool = False) -> ResponseRow:
        """A question; ``detail`` is the page of the question alone, which has no own forecasts."""
        post = self.state.posts[question.post]
        row = {**_question_fields(question, post, self.now), "aggregations": self._aggregations(question)}
        row["average_coverage"] = None
        if self._is_hidden(question):
            row.update(description="", resolution_criteria="", fine_print="", resolution=None)
        if self.with_own and not detail:
            row["my_forecasts"] = self._own_forecasts(question)
        return row

    def post(self, post: FakeMetaculusPost) -> ResponseRow:
        """A post, in a list or alone."""
        row = {**_post_fields(post, self.now), **self._content_fields(post)}
        row["user_permission"] = post.user_permission()
        row["vote"] = {"score": 0, "user_vote": None}
        row["forecasts_count"] = sum(len(question.forecasts) for question in post.questions)
        if not self.in_list:
            row.update(subscriptions=[], unread_comment_count=0, last_viewed_at=iso_text(self.now), private_note=None)
        row.update(key_factors=[], is_current_content_translated=False)
        return row

    def _content_fields(self, post: FakeMetaculusPost) -> ResponseRow:
        if post.conditional is not None:
            parts = post.conditional
            return {
                "conditional": {
                    "id": parts.id,
                    "condition": self.question(parts.condition),
                    "condition_child": self.question(parts.child),
                    "question_yes": self.question(parts.yes),
                    "question_no": self.question(parts.no),
                }
            }
        if post.group is not None:
            return {
                "group_of_questions": {
                    "id": post.group.id,
                    "group_variable": post.group.variable,
                    "graph_type": "multiple_choice_graph",
                    "subquestions_order": "CP_DESC",
                    "description": post.group.description,
                    "resolution_criteria": post.group.criteria,
                    "fine_print": post.group.fine_print,
                    "questions": [self.question(question) for question in post.questions],
                }
            }
        if post.questions:
            return {"question": self.question(post.questions[0])}
        return {"notebook": {"id": post.id, "type": "discussion", "markdown": post.title}}

    def _is_hidden(self, question: FakeMetaculusQuestion) -> bool:
        """Return whether production hides text and outcome: those of closed questions that were not forecast."""
        closed = question.status(self.now) in {"closed", "resolved"}
        mine = self.user is not None and bool(question.forecasts_of(self.user.id))
        return self.hides_closed and closed and not mine

    def _own_forecasts(self, question: FakeMetaculusQuestion) -> ResponseRow:
        if self.user is None:
            return {"history": [], "latest": None, "score_data": {}}
        now = self.now.timestamp()
        own = question.forecasts_of(self.user.id)
        rows = [forecast_row(question, forecast, now) for forecast in own]
        begun = [row for row in rows if row["start_time"] <= now]
        score = account_scores(question, self.user.id, self.state.users)
        return {"history": begun, "latest": rows[-1] if rows else None, "score_data": score}

    def _aggregations(self, question: FakeMetaculusQuestion) -> ResponseRow:
        shown = question.status(self.now) == "resolved" or self.now >= question.reveal
        counted = counted_forecasts(question, self.state.users.values(), self.now.timestamp())
        latest = _community_forecast(question, counted) if shown and not self.hides_closed and counted else None
        brief = ("start_time", "end_time", "forecaster_count", "interval_lower_bounds", "centers")
        history = [] if latest is None else [{key: latest[key] for key in (*brief, "interval_upper_bounds")}]
        return {question.method: {"history": history, "latest": latest, "score_data": {}, "movement": None}}


def counted_forecasts(
    question: FakeMetaculusQuestion, users: Iterable[FakeMetaculusUser], at: float
) -> list[FakeMetaculusForecast]:
    """Return the forecasts in force that count: of primary bots where bots count, and of people."""
    known = {user.id: user for user in users}
    return [
        forecast
        for forecast in question.forecasts
        if forecast.is_standing(at)
        and (not known[forecast.author].is_bot or (question.counts_bots and known[forecast.author].is_primary))
    ]


def forecast_row(question: FakeMetaculusQuestion, forecast: FakeMetaculusForecast, now: float) -> ResponseRow:
    """One of the viewer's own forecasts."""
    quartiles: Sequence[list[float] | None] = (None, None, None)
    if question.type in CONTINUOUS:
        values = [value for value in forecast.values if value is not None]
        quartiles = [[cdf_quantile(values, level)] for level in (0.25, 0.5, 0.75)]
    return {
        "question_id": question.id,
        "author_id": forecast.author,
        "start_time": forecast.start,
        "end_time": forecast.shown_end(now),
        "forecast_values": list(forecast.values),
        "interval_lower_bounds": quartiles[0],
        "centers": quartiles[1],
        "interval_upper_bounds": quartiles[2],
        "distribution_input": forecast.distribution_input,
    }


def _community_forecast(question: FakeMetaculusQuestion, counted: Sequence[FakeMetaculusForecast]) -> ResponseRow:
    """The community's forecast: the median, all of the same weight."""
    columns = list(zip(*(forecast.values for forecast in counted), strict=True))
    low, middle, high = ([_weighted_middle(column, level) for column in columns] for level in (0.25, 0.5, 0.75))
    if question.type in CONTINUOUS:
        whole = [value for value in middle if value is not None]
        shown = [[cdf_quantile(whole, level)] for level in (0.25, 0.5, 0.75)]
    else:
        part = slice(1, None) if question.type == "binary" else slice(None)
        shown = [low[part], middle[part], high[part]]  # type: ignore[list-item] # options that are no more are null
    forecast_context = [None if None in column else sum(column) / len(column) for column in columns]
    return {
        "start_time": max(forecast.start for forecast in counted),
        "end_time": None,
        "forecaster_count": len(counted),
        "interval_lower_bounds": shown[0],
        "centers": shown[1],
        "interval_upper_bounds": shown[2],
        "forecast_values": middle,
        "means": None if question.type in CONTINUOUS else forecast_context,
        "histogram": None,
    }


def _weighted_middle(column: Sequence[float | None], level: float) -> float | None:
    values = sorted(value for value in column if value is not None)
    if not values:
        return None
    place = level * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def _question_fields(question: FakeMetaculusQuestion, post: FakeMetaculusPost, now: datetime) -> ResponseRow:
    scaling = question.scaling
    bounds = {
        "open_upper_bound": scaling is not None and scaling.open_upper,
        "open_lower_bound": scaling is not None and scaling.open_lower,
        "inbound_outcome_count": None if scaling is None else scaling.count,
    }
    return {
        "id": question.id,
        "title": question.title,
        "created_at": iso_text(question.created),
        "open_time": iso_text(question.open),
        "cp_reveal_time": iso_text(question.reveal),
        "spot_scoring_time": iso_text(question.spot_time),
        "scheduled_resolve_time": iso_text(question.scheduled_resolve),
        "actual_resolve_time": iso_text(question.resolved),
        "resolution_set_time": iso_text(question.resolution_set),
        "scheduled_close_time": iso_text(question.scheduled_close),
        "actual_close_time": iso_text(question.close),
        "type": question.type,
        "options": question.options,
        "all_options_ever": question.all_options_ever,
        "options_history": [[since, list(names)] for since, names in question.options_history] or None,
        "options_order": "DEFAULT",
        "group_variable": question.group_variable,
        "status": question.status(now),
        "possibilities": None,
        "resolution": question.resolution,
        "include_bots_in_aggregates": question.counts_bots,
        "question_weight": question.weight,
        "default_score_type": question.score_type,
        "default_aggregation_method": question.method,
        "label": question.label,
        "unit": question.unit,
        **bounds,
        "scaling": {**_scaling_fields(question, scaling), **bounds},
        "group_rank": None,
        "coherence_links": None,
        "coherence_link_aggregations": None,
        "description": question.description,
        "resolution_criteria": question.criteria,
        "fine_print": question.fine_print,
        "short_title": post.title,
        "post_id": post.id,
    }


def _scaling_fields(question: FakeMetaculusQuestion, scaling: QuestionScaling | None) -> ResponseRow:
    if scaling is None:
        return {**_NO_RANGE, "continuous_range": None}
    nominal = scaling.nominal or (scaling.low, scaling.high)
    grid: list[Any] = [scaling.at(step / scaling.buckets) for step in range(scaling.buckets + 1)]
    if question.type == "date":
        grid = [iso_text(datetime.fromtimestamp(value, UTC)) for value in grid]
    return {
        "range_min": scaling.low,
        "range_max": scaling.high,
        "nominal_min": nominal[0],
        "nominal_max": nominal[1],
        "zero_point": scaling.zero_point,
        "continuous_range": grid,
    }


def _post_fields(post: FakeMetaculusPost, now: datetime) -> ResponseRow:
    status = post.status(now)
    questions = post.questions
    ended = bool(questions) and status in {"closed", "resolved"}
    return {
        "id": post.id,
        "title": post.title,
        "short_title": post.title,
        "url_title": post.title,
        "slug": post.slug,
        "author_id": post.author,
        "author_username": "site_admin",
        "coauthors": [],
        "created_at": iso_text(post.created),
        "published_at": iso_text(post.published),
        "edited_at": iso_text(post.edited),
        "curation_status": "draft" if post.is_draft else "approved",
        "curation_status_updated_at": iso_text(post.created),
        "comment_count": 0,
        "status": status,
        "resolved": status == "resolved",
        "actual_close_time": iso_text(max(question.close for question in questions)) if ended else None,
        "scheduled_close_time": iso_text(max((q.scheduled_close for q in questions), default=None)),
        "scheduled_resolve_time": iso_text(max((q.scheduled_resolve for q in questions), default=None)),
        "actual_resolve_time": iso_text(max((q.resolved for q in questions if q.resolved), default=None)),
        "open_time": iso_text(min((question.open for question in questions), default=None)),
        "nr_forecasters": len({forecast.author for q in questions for forecast in q.forecasts}),
        "html_metadata_json": None,
        "projects": {
            "tournament": [tournament_row(each, now) for each in post.tournaments],
            "default_project": tournament_row(post.tournaments[0], now),
        },
    }


_SCORE_OF_RULE = {"spot_peer_tournament": "spot_peer_score", "peer_tournament": "peer_score"}


def leaderboard_row(
    state: FakeMetaculusState, tournament: FakeTournament, user: FakeMetaculusUser | None, now: datetime
) -> ResponseRow:
    """Return the entry; an account without resolved forecasts has none."""
    entries = [
        entry for one in state.users.values() if (entry := _leaderboard_entry(state, tournament, one, now)) is not None
    ]
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


def _leaderboard_entry(
    state: FakeMetaculusState, tournament: FakeTournament, user: FakeMetaculusUser, now: datetime
) -> ResponseRow | None:
    questions = [one for post in state.posts.values() if tournament in post.tournaments for one in post.questions]
    scores_by_question = [(one, account_scores(one, user.id, state.users)) for one in questions]
    rule = _SCORE_OF_RULE[tournament.score_type]
    counted = [(one, found) for one, found in scores_by_question if rule in found]
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
        "calculated_on": iso_text(now),
        "take": max(total, 0.0) ** 2,
        "percent_prize": 0.0,
    }
