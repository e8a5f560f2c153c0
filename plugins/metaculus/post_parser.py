"""From posts to questions: groups and conditionals are unpacked, each question is parsed separately."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from bot.api import (
    SINGLE_TARGET,
    BinaryShape,
    ChoiceShape,
    CurveShape,
    MalformedDataError,
    Question,
    QuestionShape,
    Target,
)
from plugins.metaculus.api_records import (
    MetaculusConditionalRecord,
    MetaculusGroupRecord,
    MetaculusPostRecord,
    MetaculusQuestionRecord,
    is_sequence,
    parse_record,
    record_number,
)
from plugins.metaculus.community_prediction import community_forecast
from plugins.metaculus.numeric_scale import DEFAULT_STEPS, MetaculusScale
from plugins.metaculus.question_names import question_ref

BINARY, CHOICE, DATE, DISCRETE = "binary", "multiple_choice", "date", "discrete"
SPOT_SCORE_PREFIX = "spot"
CONTINUOUS = frozenset({"numeric", DISCRETE, DATE})
QUESTION_TYPES = frozenset({BINARY, CHOICE}) | CONTINUOUS
POST_URL = "https://www.metaculus.com/questions/{}/"


class QuestionForm(StrEnum):
    """The kind of post content a question belongs to."""

    SINGLE = "single"
    GROUP = "group"
    CONDITIONAL = "conditional"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostQuestion:
    """One question with its texts, some of which belong to its post or group."""

    post: MetaculusPostRecord
    question: MetaculusQuestionRecord
    form: QuestionForm
    title: str
    background: str
    criteria: str

    @property
    def key(self) -> tuple[int, int]:
        """Post and question: each alone is ambiguous, the two kinds of numbers overlap."""
        return self.post.id, self.question.id


@dataclass(slots=True)
class MetaculusParsedPosts:
    """The questions of one or several posts, and the errors in the others."""

    entries: list[PostQuestion] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def add_post(self, raw: object) -> None:
        """Unpack a post; an invalid part becomes a complaint and affects nothing else."""
        try:
            post = parse_record(MetaculusPostRecord, raw, f"post {record_number(raw)}")
            for part in _post_questions(post):
                self._add_question(part)
        except MalformedDataError as error:
            self.complaints.append(str(error))

    def _add_question(self, part: "_UnparsedQuestion") -> None:
        try:
            asked = parse_record(
                MetaculusQuestionRecord, part.raw, f"post {part.post.id}, question {record_number(part.raw)}"
            )
            self.entries.append(part.to_question(asked))
        except MalformedDataError as error:
            self.complaints.append(str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnparsedQuestion:
    """A question that is not parsed yet, with the texts of its post."""

    post: MetaculusPostRecord
    raw: Any
    form: QuestionForm
    group: MetaculusGroupRecord | None = None
    condition_text: str = ""
    child: Any = None

    def to_question(self, asked: MetaculusQuestionRecord) -> PostQuestion:
        title = asked.title or self.post.title
        background, criteria = asked.description or "", _join_texts(asked.resolution_criteria, asked.fine_print)
        if self.group is not None:
            label = asked.label or ""
            if label and label not in title:
                title = f"{title} ({label})"
            background = _join_texts(self.group.description, background)
            own = f"This question is the one about: {label}" if label else ""
            criteria = _join_texts(self.group.resolution_criteria, self.group.fine_print, criteria, own)
        if self.form is QuestionForm.CONDITIONAL:
            child = _text_fields(self.child)
            background = _join_texts(background or child.get("description"), self.condition_text)
            criteria = criteria or _join_texts(child.get("resolution_criteria"), child.get("fine_print"))
        return PostQuestion(
            post=self.post, question=asked, form=self.form, title=title, background=background, criteria=criteria
        )


def _post_questions(post: MetaculusPostRecord) -> Iterator[_UnparsedQuestion]:
    """Yield the questions of a post; a notebook has none."""
    if post.question is not None:
        yield _UnparsedQuestion(post=post, raw=post.question, form=QuestionForm.SINGLE)
    if post.group_of_questions is not None:
        group = parse_record(MetaculusGroupRecord, post.group_of_questions, f"post {post.id}, its group")
        for raw in group.questions:
            yield _UnparsedQuestion(post=post, raw=raw, form=QuestionForm.GROUP, group=group)
    if post.conditional is not None:
        conditional = parse_record(MetaculusConditionalRecord, post.conditional, f"post {post.id}, its conditional")
        condition = _text_fields(conditional.condition)
        for raw, answer in ((conditional.question_yes, "Yes"), (conditional.question_no, "No")):
            condition_text = _join_texts(
                f'Suppose that this other question resolves {answer}: "{condition.get("title", "")}"',
                condition.get("description"),
                condition.get("resolution_criteria"),
                condition.get("fine_print"),
            )
            yield _UnparsedQuestion(
                post=post,
                raw=raw,
                form=QuestionForm.CONDITIONAL,
                condition_text=condition_text,
                child=conditional.condition_child,
            )


def question_shape(asked: MetaculusQuestionRecord) -> QuestionShape:
    """Return the shape; raises MalformedDataError for an unknown type and for invalid options or scale."""
    try:
        if asked.type == BINARY:
            return BinaryShape()
        if asked.type == CHOICE:
            return ChoiceShape(options=asked.options or ())
        if asked.type in CONTINUOUS:
            return CurveShape(
                grid=_question_grid(asked),
                unit="date" if asked.type == DATE else asked.unit or "",
                open_lower=bool(asked.open_lower_bound),
                open_upper=bool(asked.open_upper_bound),
                discrete=asked.type == DISCRETE,
            )
    except ValueError as error:
        message = f"question {asked.id}: {error}"
        raise MalformedDataError(message) from error
    message = f"question {asked.id}: unknown type {asked.type!r}"
    raise MalformedDataError(message)


# The kinds of projects in which a round may be.
_TOURNAMENT_KINDS = ("tournament", "question_series")


def cdf_steps(asked: MetaculusQuestionRecord) -> int:
    """Return how many steps the CDF of a continuous question has; if that is null, the default."""
    return asked.inbound_outcome_count or DEFAULT_STEPS


def question_scale(asked: MetaculusQuestionRecord) -> MetaculusScale:
    """Return the scale of a continuous question; raises ValueError if it has none."""
    scaling = asked.scaling
    if scaling is None or scaling.range_min is None or scaling.range_max is None:
        message = "a continuous question without a range"
        raise ValueError(message)
    return MetaculusScale(
        low=scaling.range_min, high=scaling.range_max, zero_point=scaling.zero_point, steps=cdf_steps(asked)
    )


def build_question(entry: PostQuestion) -> Question:
    """Return the question of an entry; raises MalformedDataError if it cannot be forecast as written."""
    asked = entry.question
    shape = question_shape(asked)
    try:
        return Question(
            ref=question_ref(*entry.key),
            title=entry.title,
            shape=shape,
            targets=(Target(key=SINGLE_TARGET, resolves_at=asked.scheduled_resolve_time),),
            background=entry.background,
            criteria=entry.criteria,
            url=POST_URL.format(entry.post.id),
            opens_at=asked.open_time,
            closes_at=asked.scheduled_close_time,
            crowd=community_forecast(asked, shape),
            event=str(entry.post.id),
            market=str(asked.id),
            category=_home_tournament(entry.post.projects),
            label=asked.label or "",
            spot_at=spot_scoring_time(asked),
            weight=asked.question_weight,
            # The terms of the site forbid training and evaluating models on data of its API without written permission.
            allows_training=False,
            facts=_question_facts(entry),
            tags=tuple(_project_slugs(entry.post.projects, "category", "topic", "tag")),
            tournaments=tuple(
                dict.fromkeys(
                    name
                    for name in (
                        _home_tournament(entry.post.projects),
                        *_project_slugs(entry.post.projects, *_TOURNAMENT_KINDS),
                        *_tournament_numbers(entry.post.projects),
                    )
                    if name
                )
            ),
        )
    except ValueError as error:
        message = f"post {entry.post.id}, question {asked.id}: {error}"
        raise MalformedDataError(message) from error


def _question_facts(entry: PostQuestion) -> dict[str, str]:
    asked = entry.question
    facts = {
        "post": str(entry.post.id),
        "form": entry.form.value,
        "type": asked.type,
        "options_ever": " | ".join(asked.all_options_ever or ()),
        "version": str(len(asked.options_history)) if is_sequence(asked.options_history) else "",
        "projects": " ".join(_tournament_numbers(entry.post.projects)),
        "score": asked.default_score_type or "",
    }
    if asked.type in CONTINUOUS and asked.scaling is not None:
        scaling = asked.scaling
        steps = cdf_steps(asked)
        facts["scale"] = f"{scaling.range_min} to {scaling.range_max} in {steps}, zero point {scaling.zero_point}"
    return {name: text for name, text in facts.items() if text}


def spot_scoring_time(asked: MetaculusQuestionRecord) -> datetime | None:
    """Return the moment at which a question is scored, None if its score is over time (such as ``peer``)."""
    return asked.spot_scoring_time if (asked.default_score_type or "").startswith(SPOT_SCORE_PREFIX) else None


def _home_tournament(projects: object) -> str:
    """Return the slug of the main tournament of a post."""
    home = projects.get("default_project") if isinstance(projects, Mapping) else None
    return str(home.get("slug") or home.get("id") or "") if isinstance(home, Mapping) else ""


def _project_slugs(projects: object, *kinds: str) -> Iterator[str]:
    """Yield the slugs of a post's projects of these kinds."""
    by_kind = projects if isinstance(projects, Mapping) else {}
    for kind in kinds:
        for project in by_kind[kind] if is_sequence(by_kind.get(kind)) else ():
            if isinstance(project, Mapping) and isinstance(slug := project.get("slug"), str) and slug:
                yield slug


def _tournament_numbers(projects: object) -> Iterator[str]:
    """Yield the numbers of the tournaments and series of a post; a round may be in either."""
    kinds = projects if isinstance(projects, Mapping) else {}
    found = {
        str(project["id"])
        for kind in _TOURNAMENT_KINDS
        if is_sequence(kinds.get(kind))
        for project in kinds[kind]
        if isinstance(project, Mapping) and isinstance(project.get("id"), int)
    }
    yield from sorted(found)


def _question_grid(asked: MetaculusQuestionRecord) -> tuple[float, ...]:
    """Return the server's own grid, or if it is missing the grid of the scale."""
    listed = asked.scaling.continuous_range if asked.scaling is not None else None
    if not is_sequence(listed) or not listed:
        return question_scale(asked).grid()
    if len(listed) != cdf_steps(asked) + 1:
        message = f"a grid of {len(listed)} points for {cdf_steps(asked)} steps"
        raise ValueError(message)
    return tuple(_grid_value(point) for point in listed)


def _grid_value(point: object) -> float:
    if isinstance(point, str):
        moment = datetime.fromisoformat(point)
        return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(point, int | float) and not isinstance(point, bool):
        return float(point)
    message = f"{point!r} is not a grid point"
    raise ValueError(message)


def _text_fields(raw: object) -> Mapping[str, str]:
    """Return the texts of another question, which may be incomplete."""
    return {key: text for key, text in raw.items() if isinstance(text, str)} if isinstance(raw, Mapping) else {}


def _join_texts(*texts: str | None) -> str:
    return "\n\n".join(text.strip() for text in texts if text and text.strip())


def sort_by_closing_time(questions: Sequence[Question]) -> list[Question]:
    """Return the questions by closing time, soonest first; windows are hours, sometimes minutes."""
    latest = datetime.max.replace(tzinfo=UTC)
    return sorted(questions, key=lambda question: (question.closes_at or latest, str(question.ref)))
