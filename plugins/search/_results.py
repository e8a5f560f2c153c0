"""What engines of the web have in common: addresses of services, answers that are read with suspicion, hits in time."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError

from bot.api import Clock, ContractError, Hit, parse_date, plain_snippet

TITLE_CHARS = 500
_WEB = ("https://", "http://")

# Keys go to nobody in the clear, but to a double on this machine.
Address = Annotated[str, Field(pattern=r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))")]
Reply = TypeVar("Reply", bound=BaseModel)


def is_web(url: str) -> bool:
    """Say whether a text is an address of the web that can be shown."""
    return url.startswith(_WEB) and url.isprintable()


def hit(url: str, title: str | None, snippet: str | None, published: str | None, clock: Clock) -> Hit:
    """Return a hit without text, from what a service says of it; ``published`` is a date in any usual form."""
    return Hit(
        url=url,
        title=plain_snippet(title or "", longest=TITLE_CHARS),
        snippet=plain_snippet(snippet or ""),
        published_at=parse_date(published, now=clock.now()),
    )


def in_time(hits: Iterable[Hit], before: datetime | None, limit: int) -> Sequence[Hit]:
    """Return at most ``limit`` hits without those published at the bound or after it; undated ones stay."""
    fit = (hit for hit in hits if before is None or hit.published_at is None or hit.published_at < before)
    return [hit for hit, _ in zip(fit, range(limit), strict=False)]


def last_day(before: datetime) -> date:
    """Return the last day (UTC) of which at least a moment lies before the bound."""
    return (before.astimezone(UTC) - timedelta(microseconds=1)).date()


def parsed(model: type[Reply], body: bytes, *, engine: str) -> Reply:
    """Return an answer in its form; raises ContractError that names the engine and the first fault."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise unlike(error, engine=engine) from None


def unlike(error: ValidationError, *, engine: str) -> ContractError:
    """Return the error for an answer of another form, without what the answer said."""
    fault = error.errors(include_url=False, include_input=False)[0]
    return ContractError(f"{engine}: {'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}")
