"""The world behind the fake Metaculus, moved by tests and simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bot.testing.venues.faults import Fault
from bot.testing.venues.metaculus_rules import Item, change_options, check_items, store
from bot.testing.venues.metaculus_state import (
    EVER,
    Conditional,
    Group,
    Post,
    Question,
    Scaling,
    State,
    Tournament,
    User,
)

_FIRST_POST, _FIRST_QUESTION, _FIRST_TOURNAMENT = 40_001, 50_001, 32_002
_GRACE_S = 2 * 86_400.0
_YEAR = timedelta(days=365)


class World:
    """Users, tournaments, questions of every kind, and what becomes of them."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.state = State()
        self._now = now
        self.aib = self.add_tournament("sample-aib", "Sample AI Benchmark")

    # Who and what there is

    def add_user(self, username: str, *, token: str = "", **fields: Any) -> User:  # noqa: ANN401 - fields of User
        """Open an account: a primary bot that may forecast, unless the fields of User say otherwise."""
        number = len(self.state.users) + 3
        user = User(id=number, username=username, token=token or f"{number:040x}", joined=self._now(), **fields)
        self.state.users[user.id] = user
        return user

    def add_tournament(self, slug: str, name: str, **fields: Any) -> Tournament:  # noqa: ANN401 - fields
        """Begin a tournament of three months where everybody may forecast."""
        now = self._now()
        terms = {"created": now, "start": now, "close": now + timedelta(days=90), **fields}
        tournament = Tournament(id=_FIRST_TOURNAMENT + len(self.state.tournaments), slug=slug, name=name, **terms)
        self.state.tournaments[tournament.id] = tournament
        return tournament

    def add_question(self, title: str = "Will it rain tomorrow?", **fields: Any) -> Question:  # noqa: ANN401 - fields
        """Publish a post with one question: binary, open for a week, unless the fields of Question say otherwise.

        ``post`` gives fields of Post.
        """
        post = self._add_post(title, **fields.pop("post", {}))
        return self._put(post, title, **fields)

    def add_group(self, title: str, labels: Sequence[str], **fields: Any) -> Post:  # noqa: ANN401 - fields
        """Publish a group of questions of one kind; its texts stand on the group."""
        group = Group(
            id=len(self.state.posts) + 1,
            description=fields.pop("description", "Background."),
            criteria=fields.pop("criteria", "Resolves by the stated source."),
            fine_print=fields.pop("fine_print", ""),
            variable=fields.pop("group_variable", ""),
        )
        post = self._add_post(title, group=group, **fields.pop("post", {}))
        for label in labels:
            self._put(post, f"{title} ({label})", **{"description": "", "criteria": "", **fields}, label=label)
        return post

    def add_conditional(self, condition: Question, child: Question, **fields: Any) -> Conditional:  # noqa: ANN401
        """Publish a question of a child under either outcome of a condition."""
        post = self._add_post(f"{condition.title} \u2192 {child.title}", **fields)
        branches = [
            self._put(
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
        post.conditional = Conditional(id=post.id, condition=condition, child=child, yes=branches[0], no=branches[1])
        return post.conditional

    def add_notebook(self, title: str) -> Post:
        """Publish a text without a question."""
        return self._add_post(title)

    def _add_post(self, title: str, **fields: Any) -> Post:  # noqa: ANN401 - fields
        now, number = self._now(), _FIRST_POST + len(self.state.posts)
        terms = {"published": now, "edited": now, "tournaments": [self.aib], **fields}
        slug = "-".join(title.lower().split())
        post = Post(id=number, title=title, slug=slug, author=1, created=now, questions=[], **terms)
        self.state.posts[post.id] = post
        return post

    def _put(self, post: Post, title: str, **fields: Any) -> Question:  # noqa: ANN401 - fields
        now = self._now()
        options = fields.get("options")
        terms = {
            "type": "binary",
            "open": now,
            "scheduled_close": now + timedelta(days=7),
            "scheduled_resolve": now + timedelta(days=14),
            "description": "Background text.",
            "criteria": "Resolves by the stated source.",
            "options_history": [] if options is None else [(EVER, list(options))],
            **fields,
        }
        number = _FIRST_QUESTION + len(self.state.questions)
        question = Question(id=number, post=post.id, title=title, created=now, **terms)
        self.state.questions[question.id] = question
        post.questions.append(question)
        return question

    # What becomes of it

    def forecast(self, user: User, question: Question, value: object) -> None:
        """Forecast as somebody, under the rules of the interface."""
        kinds = {"binary": "probability_yes", "multiple_choice": "probability_yes_per_category"}
        body = [{"question": question.id, kinds.get(question.type, "continuous_cdf"): value}]
        [item] = check_items(self.state, body, self._now())
        self.store(item, user)

    def store(self, item: Item, user: User) -> None:
        """Keep a checked forecast."""
        store(item, user.id, self._now())

    def edit(self, question: Question, **fields: object) -> None:
        """Change fields of a question (title, criteria, scheduled_close)."""
        question.edits.append((self._now(), question.asks))
        for name, value in fields.items():
            setattr(question, name, value)
        self.state.posts[question.post].edited = self._now()

    def change_options(self, question: Question, options: Sequence[str], *, grace_s: float = _GRACE_S) -> None:
        """Add options: forecasts must name them at once, and those that stand end with the grace period."""
        question.edits.append((self._now(), question.asks))
        change_options(question, options, self._now(), grace_s)

    def close(self, question: Question) -> None:
        """Close a question now."""
        self.edit(question, closed=self._now())

    def resolve(self, question: Question, resolution: str, *, known: datetime | None = None) -> None:
        """Resolve a question, and what hangs on it; the truth may have been ``known`` before, which closes it then."""
        now = self._now()
        question.resolution, question.resolution_set = resolution, now
        question.resolved = known or now
        question.closed = min(question.close, question.resolved)
        self.state.posts[question.post].edited = now
        for post in self.state.posts.values():
            if post.conditional is not None:
                self._carry(post.conditional, now)

    def unresolve(self, question: Question) -> None:
        """Undo a resolution: the question is open again where its time is not over."""
        question.resolution = question.resolved = question.resolution_set = question.closed = None
        self.state.posts[question.post].edited = self._now()

    def _carry(self, parts: Conditional, now: datetime) -> None:
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

    def disturb(self, fault: Fault, question: Question) -> bool:
        """Let a fault of the world befall a question while a request about it is under way; say whether it did.

        Nothing is bought here, so nothing is filled in part.
        """
        if fault is Fault.CLOSING:
            self.close(question)
        elif fault is Fault.EDITED:
            self._edit_somehow(question)
        elif fault is Fault.RESOLVED:
            outcomes: Mapping[str, str] = {"binary": "yes", "multiple_choice": (question.options or [""])[0]}
            self.resolve(question, outcomes.get(question.type, "above_upper_bound"))
        else:
            return False
        return True

    def _edit_somehow(self, question: Question) -> None:
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


def grid(low: float, high: float, **fields: Any) -> Scaling:  # noqa: ANN401 - fields of Scaling
    """Return a scale; with ``count`` a discrete one over that many whole numbers from low to high."""
    if fields.get("count") is None:
        return Scaling(low=low, high=high, **fields)
    half = (high - low) / (fields["count"] - 1) / 2.0
    return Scaling(low=low - half, high=high + half, nominal=(low, high), **fields)
