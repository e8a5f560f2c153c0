"""The rows of the fake Metaculus's answers, key by key as the recorded samples have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.testing.venues.metaculus_people import Row, iso, tournament_row
from bot.testing.venues.metaculus_score import scores
from bot.testing.venues.metaculus_state import CONTINUOUS, Forecast, Post, Question, Scaling, State, User, quantile

_NO_RANGE = {"range_min": None, "range_max": None, "nominal_min": None, "nominal_max": None, "zero_point": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Who looks, when, and what is shown: community predictions, own forecasts, texts of what is closed."""

    state: State
    user: User | None
    now: datetime
    hides: bool
    with_own: bool = True
    in_list: bool = False

    def question(self, question: Question, *, detail: bool = False) -> Row:
        """A question; ``detail`` is the page of the question alone, which has no own forecasts."""
        post = self.state.posts[question.post]
        row = {**_question(question, post, self.now), "aggregations": self._aggregations(question)}
        row["average_coverage"] = None
        if self._is_hidden(question):
            row.update(description="", resolution_criteria="", fine_print="", resolution=None)
        if self.with_own and not detail:
            row["my_forecasts"] = self._own(question)
        return row

    def post(self, post: Post) -> Row:
        """A post, in a list or alone."""
        row = {**_post(post, self.now), **self._content(post)}
        row["user_permission"] = post.user_permission()
        row["vote"] = {"score": 0, "user_vote": None}
        row["forecasts_count"] = sum(len(question.forecasts) for question in post.questions)
        if not self.in_list:
            row.update(subscriptions=[], unread_comment_count=0, last_viewed_at=iso(self.now), private_note=None)
        row.update(key_factors=[], is_current_content_translated=False)
        return row

    def _content(self, post: Post) -> Row:
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

    def _is_hidden(self, question: Question) -> bool:
        """Tell whether production shows no text and outcome: of what is closed and was not forecast."""
        closed = question.status(self.now) in {"closed", "resolved"}
        mine = self.user is not None and bool(question.of(self.user.id))
        return self.hides and closed and not mine

    def _own(self, question: Question) -> Row:
        if self.user is None:
            return {"history": [], "latest": None, "score_data": {}}
        now = self.now.timestamp()
        own = question.of(self.user.id)
        rows = [forecast_row(question, forecast, now) for forecast in own]
        begun = [row for row in rows if row["start_time"] <= now]
        score = scores(question, self.user.id, self.state.users)
        return {"history": begun, "latest": rows[-1] if rows else None, "score_data": score}

    def _aggregations(self, question: Question) -> Row:
        shown = question.status(self.now) == "resolved" or self.now >= question.reveal
        counted = counting(question, self.state.users.values(), self.now.timestamp())
        latest = _aggregate(question, counted) if shown and not self.hides and counted else None
        brief = ("start_time", "end_time", "forecaster_count", "interval_lower_bounds", "centers")
        history = [] if latest is None else [{key: latest[key] for key in (*brief, "interval_upper_bounds")}]
        return {question.method: {"history": history, "latest": latest, "score_data": {}, "movement": None}}


def counting(question: Question, users: Iterable[User], at: float) -> list[Forecast]:
    """Return the standing forecasts that count: of primary bots where bots count, and of people."""
    known = {user.id: user for user in users}
    return [
        forecast
        for forecast in question.forecasts
        if forecast.stands(at)
        and (not known[forecast.author].is_bot or (question.counts_bots and known[forecast.author].is_primary))
    ]


def forecast_row(question: Question, forecast: Forecast, now: float) -> Row:
    """A forecast of one's own."""
    quartiles: Sequence[list[float] | None] = (None, None, None)
    if question.type in CONTINUOUS:
        values = [value for value in forecast.values if value is not None]
        quartiles = [[quantile(values, level)] for level in (0.25, 0.5, 0.75)]
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


def _aggregate(question: Question, counted: Sequence[Forecast]) -> Row:
    """The community's forecast: the middle one, all of the same weight."""
    columns = list(zip(*(forecast.values for forecast in counted), strict=True))
    low, middle, high = ([_middle(column, level) for column in columns] for level in (0.25, 0.5, 0.75))
    if question.type in CONTINUOUS:
        whole = [value for value in middle if value is not None]
        shown = [[quantile(whole, level)] for level in (0.25, 0.5, 0.75)]
    else:
        part = slice(1, None) if question.type == "binary" else slice(None)
        shown = [low[part], middle[part], high[part]]  # type: ignore[list-item] # options that are no more are null
    means = [None if None in column else sum(column) / len(column) for column in columns]
    return {
        "start_time": max(forecast.start for forecast in counted),
        "end_time": None,
        "forecaster_count": len(counted),
        "interval_lower_bounds": shown[0],
        "centers": shown[1],
        "interval_upper_bounds": shown[2],
        "forecast_values": middle,
        "means": None if question.type in CONTINUOUS else means,
        "histogram": None,
    }


def _middle(column: Sequence[float | None], level: float) -> float | None:
    values = sorted(value for value in column if value is not None)
    if not values:
        return None
    place = level * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def _question(question: Question, post: Post, now: datetime) -> Row:
    scaling = question.scaling
    bounds = {
        "open_upper_bound": scaling is not None and scaling.open_upper,
        "open_lower_bound": scaling is not None and scaling.open_lower,
        "inbound_outcome_count": None if scaling is None else scaling.count,
    }
    return {
        "id": question.id,
        "title": question.title,
        "created_at": iso(question.created),
        "open_time": iso(question.open),
        "cp_reveal_time": iso(question.reveal),
        "spot_scoring_time": iso(question.spot_time),
        "scheduled_resolve_time": iso(question.scheduled_resolve),
        "actual_resolve_time": iso(question.resolved),
        "resolution_set_time": iso(question.resolution_set),
        "scheduled_close_time": iso(question.scheduled_close),
        "actual_close_time": iso(question.close),
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
        "scaling": {**_scaling(question, scaling), **bounds},
        "group_rank": None,
        "coherence_links": None,
        "coherence_link_aggregations": None,
        "description": question.description,
        "resolution_criteria": question.criteria,
        "fine_print": question.fine_print,
        "short_title": post.title,
        "post_id": post.id,
    }


def _scaling(question: Question, scaling: Scaling | None) -> Row:
    if scaling is None:
        return {**_NO_RANGE, "continuous_range": None}
    nominal = scaling.nominal or (scaling.low, scaling.high)
    grid: list[Any] = [scaling.at(step / scaling.buckets) for step in range(scaling.buckets + 1)]
    if question.type == "date":
        grid = [iso(datetime.fromtimestamp(value, UTC)) for value in grid]
    return {
        "range_min": scaling.low,
        "range_max": scaling.high,
        "nominal_min": nominal[0],
        "nominal_max": nominal[1],
        "zero_point": scaling.zero_point,
        "continuous_range": grid,
    }


def _post(post: Post, now: datetime) -> Row:
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
        "created_at": iso(post.created),
        "published_at": iso(post.published),
        "edited_at": iso(post.edited),
        "curation_status": "draft" if post.is_draft else "approved",
        "curation_status_updated_at": iso(post.created),
        "comment_count": 0,
        "status": status,
        "resolved": status == "resolved",
        "actual_close_time": iso(max(question.close for question in questions)) if ended else None,
        "scheduled_close_time": iso(max((q.scheduled_close for q in questions), default=None)),
        "scheduled_resolve_time": iso(max((q.scheduled_resolve for q in questions), default=None)),
        "actual_resolve_time": iso(max((q.resolved for q in questions if q.resolved), default=None)),
        "open_time": iso(min((question.open for question in questions), default=None)),
        "nr_forecasters": len({forecast.author for q in questions for forecast in q.forecasts}),
        "html_metadata_json": None,
        "projects": {
            "tournament": [tournament_row(each, now) for each in post.tournaments],
            "default_project": tournament_row(post.tournaments[0], now),
        },
    }
