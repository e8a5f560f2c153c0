"""Resolved questions from the JSON of the API, for tests of forecasters on the past."""

from collections.abc import Iterator
from dataclasses import replace

from bot.api import MalformedDataError, TrainingExample
from plugins.metaculus.post_parser import MetaculusParsedPosts, build_question
from plugins.metaculus.resolutions import question_resolution


def read_history(raw: object) -> Iterator[TrainingExample]:
    """Yield the resolved questions of a post, of a list of posts, or of a page of the API (its ``results``).

    A question counts as asked when it opened, and has no crowd: what the API gives later is of after that moment.
    Raises MalformedDataError for JSON in another form.
    """
    posts = raw.get("results", [raw]) if isinstance(raw, dict) else raw
    if not isinstance(posts, list):
        message = "resolved questions are a post, a list of posts, or a page with results"
        raise MalformedDataError(message)
    parsed = MetaculusParsedPosts()
    for post in posts:
        parsed.add_post(post)
    if parsed.complaints and not parsed.entries:
        raise MalformedDataError(parsed.complaints[0])
    for entry in parsed.entries:
        question = build_question(entry)
        resolution = question_resolution(entry.question, question.ref)
        if resolution is not None and question.opens_at is not None and question.opens_at < resolution.resolved_at:
            yield TrainingExample(
                question=replace(question, crowd=None, as_of=question.opens_at),
                resolution=replace(resolution, scores={}),
            )
