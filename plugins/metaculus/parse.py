"""From posts to questions: groups and conditionals unpacked, each question parsed by itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from bot.api import SINGLE_TARGET, BinaryShape, ChoiceShape, ContractError, CurveShape, Question, Shape, Target
from plugins.metaculus.crowd import crowd_of
from plugins.metaculus.raw import RawConditional, RawGroup, RawPost, RawQuestion, is_sequence, number_of, parsed
from plugins.metaculus.scale import FULL, Scale
from plugins.metaculus.terms import ref_of

BINARY, CHOICE, DATE, DISCRETE = "binary", "multiple_choice", "date", "discrete"
SPOT = "spot"
CONTINUOUS = frozenset({"numeric", DISCRETE, DATE})
KINDS = frozenset({BINARY, CHOICE}) | CONTINUOUS
PAGE_OF_POST = "https://www.metaculus.com/questions/{}/"


class Form(StrEnum):
    """How a question stands on its post."""

    SINGLE = "single"
    GROUP = "group"
    CONDITIONAL = "conditional"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One question with the text that belongs to it, wherever the post keeps that."""

    post: RawPost
    asked: RawQuestion
    form: Form
    title: str
    background: str
    criteria: str

    @property
    def key(self) -> tuple[int, int]:
        """Post and question: each alone is ambiguous, the two kinds of numbers overlap."""
        return self.post.id, self.asked.id


@dataclass(slots=True)
class Unpacked:
    """The entries of one or several posts, and what could not be read of them."""

    entries: list[Entry] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def add(self, raw: object) -> None:
        """Unpack a post; what is odd about it becomes a complaint and costs nothing else."""
        try:
            post = parsed(RawPost, raw, f"post {number_of(raw)}")
            for part in _parts(post):
                self._try(part)
        except ContractError as error:
            self.complaints.append(str(error))

    def _try(self, part: "_Part") -> None:
        try:
            asked = parsed(RawQuestion, part.raw, f"post {part.post.id}, question {number_of(part.raw)}")
            self.entries.append(part.entry(asked))
        except ContractError as error:
            self.complaints.append(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A question that is not parsed yet, and the texts around it."""

    post: RawPost
    raw: Any
    form: Form
    group: RawGroup | None = None
    supposed: str = ""
    child: Any = None

    def entry(self, asked: RawQuestion) -> Entry:
        title = asked.title or self.post.title
        background, criteria = asked.description or "", _joined(asked.resolution_criteria, asked.fine_print)
        if self.group is not None:
            label = asked.label or ""
            if label and label not in title:
                title = f"{title} ({label})"
            background = _joined(self.group.description, background)
            own = f"This question is the one about: {label}" if label else ""
            criteria = _joined(self.group.resolution_criteria, self.group.fine_print, criteria, own)
        if self.form is Form.CONDITIONAL:
            child = _texts(self.child)
            background = _joined(background or child.get("description"), self.supposed)
            criteria = criteria or _joined(child.get("resolution_criteria"), child.get("fine_print"))
        return Entry(post=self.post, asked=asked, form=self.form, title=title, background=background, criteria=criteria)


def _parts(post: RawPost) -> Iterator[_Part]:
    """Yield the questions of a post; a notebook has none."""
    if post.question is not None:
        yield _Part(post=post, raw=post.question, form=Form.SINGLE)
    if post.group_of_questions is not None:
        group = parsed(RawGroup, post.group_of_questions, f"post {post.id}, its group")
        for raw in group.questions:
            yield _Part(post=post, raw=raw, form=Form.GROUP, group=group)
    if post.conditional is not None:
        conditional = parsed(RawConditional, post.conditional, f"post {post.id}, its conditional")
        condition = _texts(conditional.condition)
        for raw, answer in ((conditional.question_yes, "Yes"), (conditional.question_no, "No")):
            supposed = _joined(
                f'Suppose that this other question resolves {answer}: "{condition.get("title", "")}"',
                condition.get("description"),
                condition.get("resolution_criteria"),
                condition.get("fine_print"),
            )
            yield _Part(post=post, raw=raw, form=Form.CONDITIONAL, supposed=supposed, child=conditional.condition_child)


def shape_of(asked: RawQuestion) -> Shape:
    """Return the shape; raises ContractError for an unknown type and for options or a scale that are none."""
    try:
        if asked.type == BINARY:
            return BinaryShape()
        if asked.type == CHOICE:
            return ChoiceShape(options=asked.options or ())
        if asked.type in CONTINUOUS:
            return CurveShape(
                grid=_grid(asked),
                unit="date" if asked.type == DATE else asked.unit or "",
                open_lower=bool(asked.open_lower_bound),
                open_upper=bool(asked.open_upper_bound),
                discrete=asked.type == DISCRETE,
            )
    except ValueError as error:
        message = f"question {asked.id}: {error}"
        raise ContractError(message) from error
    message = f"question {asked.id}: unknown type {asked.type!r}"
    raise ContractError(message)


# The kinds of projects in which a round may be.
_ROUNDS = ("tournament", "question_series")


def steps_of(asked: RawQuestion) -> int:
    """Return how many steps the CDF of a continuous question has; where that is null, the usual number."""
    return asked.inbound_outcome_count or FULL


def scale_of(asked: RawQuestion) -> Scale:
    """Return the scale of a continuous question; raises ValueError where it has none."""
    scaling = asked.scaling
    if scaling is None or scaling.range_min is None or scaling.range_max is None:
        message = "a continuous question without a range"
        raise ValueError(message)
    return Scale(low=scaling.range_min, high=scaling.range_max, zero_point=scaling.zero_point, steps=steps_of(asked))


def question_of(entry: Entry) -> Question:
    """Return the question of an entry; raises ContractError for one that cannot be forecast as it is written."""
    asked = entry.asked
    shape = shape_of(asked)
    try:
        return Question(
            ref=ref_of(*entry.key),
            title=entry.title,
            shape=shape,
            targets=(Target(key=SINGLE_TARGET, resolves_at=asked.scheduled_resolve_time),),
            background=entry.background,
            criteria=entry.criteria,
            url=PAGE_OF_POST.format(entry.post.id),
            opens_at=asked.open_time,
            closes_at=asked.scheduled_close_time,
            crowd=crowd_of(asked, shape),
            facts=_facts(entry),
            tags=tuple(_slugs(entry.post.projects, "category", "topic", "tag")),
            tournaments=tuple(
                dict.fromkeys(
                    name
                    for name in (
                        _home(entry.post.projects),
                        *_slugs(entry.post.projects, *_ROUNDS),
                        *_projects(entry.post.projects),
                    )
                    if name
                )
            ),
        )
    except ValueError as error:
        message = f"post {entry.post.id}, question {asked.id}: {error}"
        raise ContractError(message) from error


def _facts(entry: Entry) -> dict[str, str]:
    asked = entry.asked
    spot = spot_of(asked)
    facts = {
        "market": str(asked.id),
        "post": str(entry.post.id),
        "event": str(entry.post.id),
        "category": _home(entry.post.projects),
        "form": entry.form.value,
        "type": asked.type,
        "label": asked.label or "",
        "options_ever": " | ".join(asked.all_options_ever or ()),
        "version": str(len(asked.options_history)) if is_sequence(asked.options_history) else "",
        "projects": " ".join(_projects(entry.post.projects)),
        "spot_at": "" if spot is None else spot.isoformat(),
        "score": asked.default_score_type or "",
        "weight": "" if asked.question_weight is None else f"{asked.question_weight:g}",
        # The terms of the site: what its interface says trains and evaluates no model without written leave.
        "training": "no",
    }
    if asked.type in CONTINUOUS and asked.scaling is not None:
        scaling = asked.scaling
        steps = steps_of(asked)
        facts["scale"] = f"{scaling.range_min} to {scaling.range_max} in {steps}, zero point {scaling.zero_point}"
    return {name: text for name, text in facts.items() if text}


def spot_of(asked: RawQuestion) -> datetime | None:
    """Return the moment at which a question is scored, None where its score is one over time (``peer``, say)."""
    return asked.spot_scoring_time if (asked.default_score_type or "").startswith(SPOT) else None


def _home(projects: object) -> str:
    """Return the tournament that a post belongs to first, by its slug."""
    home = projects.get("default_project") if isinstance(projects, Mapping) else None
    return str(home.get("slug") or home.get("id") or "") if isinstance(home, Mapping) else ""


def _slugs(projects: object, *kinds: str) -> Iterator[str]:
    """Yield the slugs of a post's projects of some kinds."""
    there = projects if isinstance(projects, Mapping) else {}
    for kind in kinds:
        for project in there[kind] if is_sequence(there.get(kind)) else ():
            if isinstance(project, Mapping) and isinstance(slug := project.get("slug"), str) and slug:
                yield slug


def _projects(projects: object) -> Iterator[str]:
    """Yield the numbers of the tournaments and series of a post, in either of which a round may be."""
    kinds = projects if isinstance(projects, Mapping) else {}
    found = {
        str(project["id"])
        for kind in _ROUNDS
        if is_sequence(kinds.get(kind))
        for project in kinds[kind]
        if isinstance(project, Mapping) and isinstance(project.get("id"), int)
    }
    yield from sorted(found)


def _grid(asked: RawQuestion) -> tuple[float, ...]:
    """Return the server's own grid, or where it is missing the one that the scale gives."""
    listed = asked.scaling.continuous_range if asked.scaling is not None else None
    if not is_sequence(listed) or not listed:
        return scale_of(asked).grid()
    if len(listed) != steps_of(asked) + 1:
        message = f"a grid of {len(listed)} points for {steps_of(asked)} steps"
        raise ValueError(message)
    return tuple(_value(point) for point in listed)


def _value(point: object) -> float:
    if isinstance(point, str):
        moment = datetime.fromisoformat(point)
        return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(point, int | float) and not isinstance(point, bool):
        return float(point)
    message = f"{point!r} is no point of a grid"
    raise ValueError(message)


def _texts(raw: object) -> Mapping[str, str]:
    """Return the texts of another question, which need not be whole."""
    return {key: text for key, text in raw.items() if isinstance(text, str)} if isinstance(raw, Mapping) else {}


def _joined(*texts: str | None) -> str:
    return "\n\n".join(text.strip() for text in texts if text and text.strip())


def ordered(questions: Sequence[Question]) -> list[Question]:
    """Return them by closing time, the soonest first; windows are hours, sometimes minutes."""
    latest = datetime.max.replace(tzinfo=UTC)
    return sorted(questions, key=lambda question: (question.closes_at or latest, str(question.ref)))
