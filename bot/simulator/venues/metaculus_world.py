"""The world behind the fake Metaculus, moved by tests and simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.simulator.faults import RequestFault
from bot.simulator.venues.metaculus_forecast_rules import ForecastItem, change_options, check_items, store_forecast
from bot.simulator.venues.metaculus_state import (
    FIRST_MOMENT,
    ConditionalPair,
    FakeMetaculusGroup,
    FakeMetaculusPost,
    FakeMetaculusQuestion,
    FakeMetaculusState,
    FakeMetaculusUser,
    FakeTournament,
    QuestionScaling,
)

_FIRST_POST, _FIRST_QUESTION, _FIRST_TOURNAMENT = 40_001, 50_001, 32_002
_GRACE_S = 2 * 86_400.0
_YEAR = timedelta(days=365)


class MetaculusWorld:
    """Users, tournaments, questions of every kind, and their events."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.state = FakeMetaculusState()
        self._now = now
        self.benchmark_tournament = self.add_tournament("sample-aib", "Sample AI Benchmark")

    # Users, tournaments and questions

    def add_user(self, username: str, *, token: str = "", **fields: Any) -> FakeMetaculusUser:  # noqa: ANN401 - fields of User
        """Open an account: a primary bot that may forecast, unless the fields of FakeMetaculusUser say otherwise."""
        number = len(self.state.users) + 3
        user = FakeMetaculusUser(
            id=number, username=username, token=token or f"{number:040x}", joined=self._now(), **fields
        )
        self.state.users[user.id] = user
        return user

    def add_tournament(self, slug: str, name: str, **fields: Any) -> FakeTournament:  # noqa: ANN401 - fields
        """Begin a tournament of three months where everybody may forecast."""
        now = self._now()
        terms = {"created": now, "start": now, "close": now + timedelta(days=90), **fields}
        tournament = FakeTournament(id=_FIRST_TOURNAMENT + len(self.state.tournaments), slug=slug, name=name, **terms)
        self.state.tournaments[tournament.id] = tournament
        return tournament

    def add_question(self, title: str = "Will it rain tomorrow?", **fields: Any) -> FakeMetaculusQuestion:  # noqa: ANN401 - fields
        """Publish a post with one question: binary, open for a week, unless its fields say otherwise.

        ``post`` gives fields of FakeMetaculusPost.
        """
        post = self._add_post(title, **fields.pop("post", {}))
        return self._add_question(post, title, **fields)

    def add_group(self, title: str, labels: Sequence[str], **fields: Any) -> FakeMetaculusPost:  # noqa: ANN401 - fields
        """Publish a group of questions of one kind; its texts belong to the group."""
        group = FakeMetaculusGroup(
            id=len(self.state.posts) + 1,
            description=fields.pop("description", "Background."),
            criteria=fields.pop("criteria", "Resolves by the stated source."),
            fine_print=fields.pop("fine_print", ""),
            variable=fields.pop("group_variable", ""),
        )
        post = self._add_post(title, group=group, **fields.pop("post", {}))
        for label in labels:
            self._add_question(post, f"{title} ({label})", **{"description": "", "criteria": "", **fields}, label=label)
        return post

    def add_conditional(
        self,
        condition: FakeMetaculusQuestion,
        child: FakeMetaculusQuestion,
        **fields: Any,  # noqa: ANN401 - fields
    ) -> ConditionalPair:
        """Publish a question of a child under either outcome of a condition."""
        post = self._add_post(f"{condition.title} \u2192 {child.title}", **fields)
        branches = [
            self._add_question(
                post,
                f"{condition.title} ({word}) \u2192 {child.title}",
                type=child.type,
                options=child.options,
                scaling=child.scaling,
                open=child.open,
                scheduled_close=min(condition.scheduled_close, child.scheduled_close),
                scheduled_resolve=child.scheduled_resolve,
                description=child.description,
                criteria=child.criteria,
            )
            for word in ("Yes", "No")
        ]
        post.conditional = ConditionalPair(
            id=post.id, condition=condition, child=child, yes=branches[0], no=branches[1]
        )
        return post.conditional

    def add_notebook(self, title: str) -> FakeMetaculusPost:
        """Publish a text without a question."""
        return self._add_post(title)

    def _add_post(self, title: str, **fields: Any) -> FakeMetaculusPost:  # noqa: ANN401 - fields
        now, number = self._now(), _FIRST_POST + len(self.state.posts)
        terms = {"published": now, "edited": now, "tournaments": [self.benchmark_tournament], **fields}
        slug = "-".join(title.lower().split())
        post = FakeMetaculusPost(id=number, title=title, slug=slug, author=1, created=now, questions=[], **terms)
        self.state.posts[post.id] = post
        return post

    def _add_question(self, post: FakeMetaculusPost, title: str, **fields: Any) -> FakeMetaculusQuestion:  # noqa: ANN401 - fields
        now = self._now()
        options = fields.get("options")
        terms = {
            "type": "binary",
            "open": now,
            "scheduled_close": now + timedelta(days=7),
            "scheduled_resolve": now + timedelta(days=14),
            "description": "Background text.",
            "criteria": "Resolves by the stated source.",
            "options_history": [] if options is None else [(FIRST_MOMENT, list(options))],
            **fields,
        }
        number = _FIRST_QUESTION + len(self.state.questions)
        question = FakeMetaculusQuestion(id=number, post=post.id, title=title, created=now, **terms)
        self.state.questions[question.id] = question
        post.questions.append(question)
        return question

    # Events

    def forecast(self, user: FakeMetaculusUser, question: FakeMetaculusQuestion, value: object) -> None:
        """Forecast as somebody, under the rules of the interface."""
        kinds = {"binary": "probability_yes", "multiple_choice": "probability_yes_per_category"}
        body = [{"question": question.id, kinds.get(question.type, "continuous_cdf"): value}]
        [item] = check_items(self.state, body, self._now())
        self.store_forecast(item, user)

    def store_forecast(self, item: ForecastItem, user: FakeMetaculusUser) -> None:
        """Store a checked forecast."""
        store_forecast(item, user.id, self._now())

    def edit(self, question: FakeMetaculusQuestion, **fields: object) -> None:
        """Change fields of a question (title, criteria, scheduled_close)."""
        question.edits.append((self._now(), question.terms))
        for name, value in fields.items():
            setattr(question, name, value)
        self.state.posts[question.post].edited = self._now()

    def change_options(
        self, question: FakeMetaculusQuestion, options: Sequence[str], *, grace_s: float = _GRACE_S
    ) -> None:
        """Add options: forecasts must name them at once, and present forecasts end with the grace period."""
        question.edits.append((self._now(), question.terms))
        change_options(question, options, self._now(), grace_s)

    def close(self, question: FakeMetaculusQuestion) -> None:
        """Close a question now."""
        self.edit(question, closed=self._now())

    def resolve(self, question: FakeMetaculusQuestion, resolution: str, *, known: datetime | None = None) -> None:
        """Resolve a question, and those that depend on it.

        It may have been ``known`` before, which closes it at that time.
        """
        now = self._now()
        question.resolution, question.resolution_set = resolution, now
        question.resolved = known or now
        question.closed = min(question.close, question.resolved)
        self.state.posts[question.post].edited = now
        for post in self.state.posts.values():
            if post.conditional is not None:
                self._update_conditionals(post.conditional, now)

    def unresolve(self, question: FakeMetaculusQuestion) -> None:
        """Undo a resolution: the question is open again where its time is not over."""
        question.resolution = question.resolved = question.resolution_set = question.closed = None
        self.state.posts[question.post].edited = self._now()

    def _update_conditionals(self, parts: ConditionalPair, now: datetime) -> None:
        """Let the branches of a conditional follow its condition and its child."""
        condition = parts.condition.resolution
        if condition is None:
            return
        dead = {"yes": [parts.no], "no": [parts.yes]}.get(condition, [parts.yes, parts.no])
        for branch in (parts.yes, parts.no):
            branch.closed = min(branch.close, now)
            outcome = "annulled" if branch in dead else parts.child.resolution
            if outcome is not None and branch.resolution is None:
                branch.resolution, branch.resolved, branch.resolution_set = outcome, now, now

    def apply_fault(self, fault: RequestFault, question: FakeMetaculusQuestion) -> bool:
        """Apply a fault of the world to a question while a request about it is under way.

        Return whether it had an effect.

        Nothing is bought here, so nothing is filled in part.
        """
        if fault is RequestFault.CLOSING:
            self.close(question)
        elif fault is RequestFault.EDITED:
            self._edit_somehow(question)
        elif fault is RequestFault.RESOLVED:
            outcomes: Mapping[str, str] = {"binary": "yes", "multiple_choice": (question.options or [""])[0]}
            self.resolve(question, outcomes.get(question.type, "above_upper_bound"))
        else:
            return False
        return True

    def _edit_somehow(self, question: FakeMetaculusQuestion) -> None:
        """Edit one field of a question, which depends on the question and on how often it was edited."""
        scaling, resolves = question.scaling, question.scheduled_resolve
        edits: list[dict[str, object]] = [
            {"criteria": f"{question.criteria} Clarified."},
            {"title": f"{question.title} (edited)"},
            {"description": f"{question.description} More of it."},
            {"fine_print": f"{question.fine_print} But not on Sundays."},
            {"scheduled_close": question.scheduled_close + _YEAR, "scheduled_resolve": resolves + _YEAR},
        ]
        if scaling is not None:
            wider, below = 2.0 * scaling.high - scaling.low, scaling.low - (scaling.high - scaling.low) / 9.0
            bounds: tuple[dict[str, Any], ...] = (
                {"high": wider},
                {"open_upper": not scaling.open_upper},
                {"zero_point": below},
            )
            edits[:0] = [{"scaling": replace(scaling, **change)} for change in bounds]
        place = (question.id - _FIRST_QUESTION + len(question.edits)) % len(edits)
        if question.options is not None and place % 2 == 0:
            new = f"Something else {len(question.edits)}".removesuffix(" 0")
            self.change_options(question, [*question.options[:-1], new, question.options[-1]])
        else:
            self.edit(question, **edits[place])


def question_scaling(low: float, high: float, **fields: Any) -> QuestionScaling:  # noqa: ANN401 - fields of Scaling
    """Return a scale; with ``count`` a discrete one over that many whole numbers from low to high."""
    if fields.get("count") is None:
        return QuestionScaling(low=low, high=high, **fields)
    half = (high - low) / (fields["count"] - 1) / 2.0
    return QuestionScaling(low=low - half, high=high + half, nominal=(low, high), **fields)
