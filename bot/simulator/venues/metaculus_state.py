"""What the fake Metaculus stores: users, tournaments, posts with their questions, forecasts, comments."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from bot.core.light_dataclass import dataclass

FIRST_MOMENT = "0001-01-01T00:00:00"
CONTINUOUS = frozenset({"numeric", "discrete", "date"})
FULL_GRID = 200
RANKS = ("viewer", "forecaster", "curator", "admin")


@dataclass(slots=True, kw_only=True)
class FakeMetaculusUser:
    """An account. ``access`` is whether it may forecast over the interface: enabled, disabled or pending."""

    id: int
    username: str
    token: str
    joined: datetime
    is_bot: bool = True
    is_primary: bool = True
    access: str = "enabled"
    tier: str = "restricted"


@dataclass(slots=True, kw_only=True)
class FakeTournament:
    """A project. ``permission`` is what everybody may do in it, None for nothing."""

    id: int
    slug: str
    name: str
    created: datetime
    start: datetime | None
    close: datetime | None
    permission: str | None = "forecaster"
    score_type: str = "spot_peer_tournament"
    bot_status: str = "bots_only"
    prize: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionScaling:
    """The scale of a continuous question; the range of a discrete one lies half a step outside the nominal bounds."""

    low: float
    high: float
    zero_point: float | None = None
    open_lower: bool = False
    open_upper: bool = False
    count: int | None = None
    nominal: tuple[float, float] | None = None

    @property
    def buckets(self) -> int:
        """How many steps the grid has."""
        return FULL_GRID if self.count is None else self.count

    def at(self, place: float) -> float:
        """Return the value at a place between 0 and 1."""
        if self.zero_point is None:
            return self.low + (self.high - self.low) * place
        ratio = (self.high - self.zero_point) / (self.low - self.zero_point)
        return float(self.low + (self.high - self.low) * (ratio**place - 1.0) / (ratio - 1.0))


@dataclass(slots=True)
class FakeMetaculusForecast:
    """A forecast in force from ``start`` to ``end``, in unix seconds; ``shown_end`` hides a future end."""

    author: int
    start: float
    values: list[float | None]
    end: float | None = None
    distribution_input: Any = None
    hides_end: bool = False

    def is_standing(self, at: float) -> bool:
        """Return whether it is in force at a moment."""
        return self.start <= at and (self.end is None or self.end > at)

    def shown_end(self, now: float) -> float | None:
        """Return the end that is shown; that of a grace period is hidden until then."""
        return None if self.hides_end and self.end is not None and self.end > now else self.end


# Title and texts, options, scale, and when it closes.
QuestionTerms = tuple[tuple[str, ...], tuple[str, ...], QuestionScaling | None, datetime]


@dataclass(slots=True, kw_only=True)
class FakeMetaculusQuestion:
    """A question; its texts are empty where it is a part of a group."""

    id: int
    post: int
    title: str
    type: str
    created: datetime
    open: datetime
    scheduled_close: datetime
    scheduled_resolve: datetime
    cp_reveal: datetime | None = None
    spot: datetime | None = None
    closed: datetime | None = None
    resolved: datetime | None = None
    resolution_set: datetime | None = None
    resolution: str | None = None
    options: list[str] | None = None
    options_history: list[tuple[str, list[str]]] = field(default_factory=list)
    scaling: QuestionScaling | None = None
    label: str = ""
    unit: str = ""
    group_variable: str = ""
    description: str = ""
    criteria: str = ""
    fine_print: str = ""
    counts_bots: bool = False
    weight: float = 1.0
    score_type: str = "peer"
    method: str = "recency_weighted"
    forecasts: list[FakeMetaculusForecast] = field(default_factory=list)
    # Its texts before each edit, and when that was.
    edits: list[tuple[datetime, QuestionTerms]] = field(default_factory=list)

    @property
    def terms(self) -> QuestionTerms:
        """Its present texts."""
        texts = (self.title, self.description, self.criteria, self.fine_print)
        return texts, tuple(self.options or ()), self.scaling, self.scheduled_close

    @property
    def close(self) -> datetime:
        """When it closes, or closed."""
        return self.scheduled_close if self.closed is None else min(self.closed, self.scheduled_close)

    @property
    def reveal(self) -> datetime:
        """When the community's forecast is shown."""
        return self.open if self.cp_reveal is None else self.cp_reveal

    @property
    def spot_time(self) -> datetime:
        """When spot scores are taken: the set time, else the reveal, else the close."""
        if self.spot is not None:
            return self.spot
        return self.reveal if self.reveal > self.open else self.close

    @property
    def all_options_ever(self) -> list[str] | None:
        """Every option that ever existed, the catch-all last."""
        if self.options is None:
            return None
        dropped = [name for _, names in self.options_history for name in names if name not in self.options]
        return [*self.options[:-1], *dict.fromkeys(dropped), *self.options[-1:]]

    def status(self, now: datetime) -> str:
        """Return upcoming, open, closed or resolved."""
        if self.resolution is not None:
            return "resolved"
        if now < self.open:
            return "upcoming"
        return "open" if now < self.close else "closed"

    def forecasts_of(self, author: int) -> list[FakeMetaculusForecast]:
        """Return the forecasts of an account, oldest first."""
        return [forecast for forecast in self.forecasts if forecast.author == author]

    def grace_until(self, now: datetime) -> datetime | None:
        """Return when the newest options come into force, where that is in the future."""
        if not self.options_history:
            return None
        since = datetime.fromisoformat(self.options_history[-1][0])
        since = since if since.tzinfo else since.replace(tzinfo=UTC)
        return since if since > now else None


@dataclass(slots=True, kw_only=True)
class ConditionalPair:
    """A question under one outcome of another one."""

    id: int
    condition: FakeMetaculusQuestion
    child: FakeMetaculusQuestion
    yes: FakeMetaculusQuestion
    no: FakeMetaculusQuestion


@dataclass(slots=True, kw_only=True)
class FakeMetaculusGroup:
    """The common data of a group's questions."""

    id: int
    description: str = ""
    criteria: str = ""
    fine_print: str = ""
    variable: str = ""


@dataclass(slots=True, kw_only=True)
class FakeMetaculusPost:
    """A page with one question, a group of them, a conditional, or a text (a notebook).

    ``permission`` None is that of its tournament; ``is_private`` hides it, ``is_draft`` too.
    """

    id: int
    title: str
    slug: str
    author: int
    created: datetime
    published: datetime
    edited: datetime
    questions: list[FakeMetaculusQuestion]
    tournaments: list[FakeTournament]
    group: FakeMetaculusGroup | None = None
    conditional: ConditionalPair | None = None
    permission: str | None = None
    is_draft: bool = False
    is_private: bool = False

    @property
    def kind(self) -> str:
        """The type by which lists name it."""
        if self.conditional is not None:
            return "conditional"
        if self.group is not None:
            return "group_of_questions"
        return self.questions[0].type if self.questions else "notebook"

    def user_permission(self) -> str | None:
        """Return what everybody may do with it."""
        return self.permission or next((tournament.permission for tournament in self.tournaments), "forecaster")

    def is_visible(self, now: datetime) -> bool:
        """Return whether it can be read."""
        return (
            not self.is_draft and not self.is_private and self.published <= now and self.user_permission() is not None
        )

    def status(self, now: datetime) -> str:
        """Return the state of the page, which is not that of its questions: approved before it opens."""
        if self.is_draft:
            return "draft"
        states = [question.status(now) for question in self.questions]
        if "open" in states:
            return "open"
        if "upcoming" in states or not states:
            return "approved"
        return "resolved" if set(states) == {"resolved"} else "closed"


@dataclass(slots=True, kw_only=True)
class FakeMetaculusComment:
    """A comment; ``forecast`` is the forecast it was written on."""

    id: int
    author: int
    post: int
    text: str
    created: datetime
    is_private: bool
    parent: int | None = None
    forecast: tuple[FakeMetaculusQuestion, FakeMetaculusForecast] | None = None
    edited: datetime | None = None
    deleted: bool = False


class FakeMetaculusState:
    """All data, by id. Ids of posts begin at 40001 and those of questions at 50001."""

    def __init__(self) -> None:
        self.users: dict[int, FakeMetaculusUser] = {}
        self.tournaments: dict[int, FakeTournament] = {}
        self.posts: dict[int, FakeMetaculusPost] = {}
        self.questions: dict[int, FakeMetaculusQuestion] = {}
        self.comments: dict[int, FakeMetaculusComment] = {}

    def user_with(self, token: str) -> FakeMetaculusUser | None:
        """Return the account of a token."""
        return next((user for user in self.users.values() if user.token == token), None)

    def tournament(self, name: str) -> FakeTournament | None:
        """Return a tournament by its id or slug."""
        return next((each for each in self.tournaments.values() if name in {str(each.id), each.slug}), None)

    def comments_of(self, author: int | None, post: int | None, *, private: bool) -> Iterator[FakeMetaculusComment]:
        """Yield comments, newest first."""
        for comment in reversed(self.comments.values()):
            if author in {None, comment.author} and post in {None, comment.post} and comment.is_private is private:
                yield comment


def cdf_quantile(values: Sequence[float], level: float) -> float:
    """Return the place between 0 and 1 where a distribution function over equal steps reaches a level."""
    right = bisect_left(values, level)
    if right in {0, len(values)}:
        return 0.0 if right == 0 else 1.0
    low, high = values[right - 1], values[right]
    return (right - 1 + (level - low) / (high - low)) / (len(values) - 1)
