"""The rows of the fake Metaculus that are no questions: accounts, tournaments, comments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from bot.testing.venues.metaculus_state import CONTINUOUS, Comment, Forecast, Question, State, Tournament, User

Row = dict[str, Any]


def iso(moment: datetime | None) -> str | None:
    """Return a moment as the server writes it."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def user_row(user: User) -> Row:
    """The account that asks."""
    absent = (
        *("website", "formerly_known_as", "twitter", "linkedin", "facebook", "github", "good_judgement_open", "kalshi"),
        *("manifold", "infer", "hypermind", "occupation", "location", "profile_picture", "metadata", "app_theme"),
        "language",
    )
    return {
        "id": user.id,
        "username": user.username,
        "date_joined": iso(user.joined),
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
        "username_set_at": iso(user.joined),
        "metaculus_news_subscription": False,
        "automatically_follow_on_predict": True,
        "follow_notify_cp_change_threshold": 0.25,
        "follow_notify_comments_frequency": 10,
        "follow_notify_milestone_step": 0.2,
        "follow_notify_on_status_change": True,
    }


def tournament_row(tournament: Tournament, now: datetime) -> Row:
    """A tournament as posts name it."""
    return {
        "id": tournament.id,
        "type": "tournament",
        "name": tournament.name,
        "slug": tournament.slug,
        "header_image": None,
        "prize_pool": tournament.prize,
        "start_date": iso(tournament.start),
        "close_date": iso(tournament.close),
        "forecasting_end_date": iso(tournament.close),
        "html_metadata_json": None,
        "is_ongoing": tournament.close is None or now < tournament.close,
        "user_permission": None,
        "order": 0,
        "created_at": iso(tournament.created),
        "edited_at": iso(tournament.created),
        "score_type": tournament.score_type,
        "default_permission": tournament.permission,
        "visibility": "not_in_main_feed",
        "show_on_homepage": False,
        "is_current_content_translated": False,
        "bot_leaderboard_status": tournament.bot_status,
        "description_preview": "",
    }


def tournament_page(state: State, tournament: Tournament, now: datetime) -> Row:
    """A tournament in a list of them."""
    posts = [post for post in state.posts.values() if tournament in post.tournaments]
    questions = [question for post in posts for question in post.questions]
    authors = {forecast.author for question in questions for forecast in question.forecasts}
    timeline = {
        "last_spot_scoring_time": iso(max((question.spot_time for question in questions), default=None)),
        "latest_actual_resolve_time": iso(max((q.resolved for q in questions if q.resolved), default=None)),
        "latest_scheduled_resolve_time": iso(max((q.scheduled_resolve for q in questions), default=None)),
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


def comment_row(state: State, comment: Comment) -> Row:
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
        "created_at": iso(comment.created),
        "text_edited_at": iso(comment.edited),
        "is_soft_deleted": comment.deleted,
        "text": comment.text,
        "on_post": post.id,
        "on_post_data": {"id": post.id, "title": post.title},
        "included_forecast": None if comment.forecast is None else _included(*comment.forecast),
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


def _included(question: Question, forecast: Forecast) -> Row:
    scaling = question.scaling
    named = dict(zip(question.all_options_ever or (), forecast.values, strict=False))
    return {
        "start_time": iso(datetime.fromtimestamp(forecast.start, UTC)),
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
