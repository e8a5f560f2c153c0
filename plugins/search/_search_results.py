"""Code that search engines share: addresses of services, validated replies, results published before a moment."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError

from bot.api import Clock, MalformedDataError, SearchResult, parse_date, plain_snippet

MAX_TITLE_CHARS = 500
_WEB_SCHEMES = ("https://", "http://")

# Keys are never sent unencrypted, except to a fake on this machine.
ServiceAddress = Annotated[str, Field(pattern=r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))")]
ReplyT = TypeVar("ReplyT", bound=BaseModel)


def is_web_address(url: str) -> bool:
    """Return whether a text is a web address that can be shown."""
    return url.startswith(_WEB_SCHEMES) and url.isprintable()


def search_result(
    url: str, title: str | None, snippet: str | None, published: str | None, clock: Clock
) -> SearchResult:
    """Return a hit without text, from the fields of a service; ``published`` is a date in any usual form."""
    return SearchResult(
        url=url,
        title=plain_snippet(title or "", longest=MAX_TITLE_CHARS),
        snippet=plain_snippet(snippet or ""),
        published_at=parse_date(published, now=clock.now()),
    )


def published_before(hits: Iterable[SearchResult], before: datetime | None, limit: int) -> Sequence[SearchResult]:
    """Return at most ``limit`` hits without those published at the bound or after it; undated ones stay."""
    fit = (hit for hit in hits if before is None or hit.published_at is None or hit.published_at < before)
    return [hit for hit, _ in zip(fit, range(limit), strict=False)]


def last_day_before(before: datetime) -> date:
    """Return the last day (UTC) that begins before the bound."""
    return (before.astimezone(UTC) - timedelta(microseconds=1)).date()


def parse_reply(model: type[ReplyT], body: bytes, *, engine: str) -> ReplyT:
    """Return a parsed answer; raises MalformedDataError that names the engine and the first fault."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise malformed_reply(error, engine=engine) from None


def malformed_reply(error: ValidationError, *, engine: str) -> MalformedDataError:
    """Return the error for an answer of another form, without the answer's text."""
    fault = error.errors(include_url=False, include_input=False)[0]
    return MalformedDataError(f"{engine}: {'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}")
