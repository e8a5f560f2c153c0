"""Code that data sources share: validated replies, days in UTC, and points in order of their dates."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, NoReturn, TypeVar
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, FiniteFloat, ValidationError

from bot.api import MalformedDataError, NotFoundError, Question, TimeSeries

# Encrypted, or a fake on this machine.
ADDRESS_PATTERN = r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))"
# So much of an answer an error shows at most.
MAX_SHOWN_CHARS = 300
ONE_DAY = timedelta(days=1)


def _refuse_boolean(value: object) -> object:
    """Refuse true and false, which would pass for 1 and 0."""
    if isinstance(value, bool):
        message = "a number is expected, not true or false"
        raise ValueError(message)  # noqa: TRY004 - pydantic turns a ValueError into its own, a TypeError passes
    return value


FiniteNumber = Annotated[FiniteFloat, BeforeValidator(_refuse_boolean)]
# Seconds since 1970 that a datetime can hold.
UnixSeconds = Annotated[int, Field(ge=-(10**10), le=10**11)]
UnitProbability = Annotated[FiniteNumber, Field(ge=0.0, le=1.0)]

ModelT = TypeVar("ModelT", bound=BaseModel)


def parse_reply(model: type[ModelT], body: bytes, source: str) -> ModelT:
    """Return the reply in its documented form; raises MalformedDataError for another one."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the reply"
        message = f"{source}: the answer does not have its documented form: {where}: {fault['msg']}"
    raise MalformedDataError(message)


def raise_malformed(source: str, why: str) -> NoReturn:
    """Raise MalformedDataError."""
    message = f"{source}: the answer does not have its documented form: {why[:MAX_SHOWN_CHARS]}"
    raise MalformedDataError(message)


def raise_not_found(source: str, why: str) -> NoReturn:
    """Raise NotFoundError; the request may hold a key, so the chain of causes ends here."""
    message = f"{source}: {why}"
    raise NotFoundError(message) from None


def request_url(base_url: str, path: str, asked: Mapping[str, str]) -> str:
    """Return the address of a request."""
    return f"{base_url.rstrip('/')}/{path}?{urlencode(asked)}"


def start_of_day(before: datetime) -> datetime:
    """Return the beginning, in UTC, of the day of the moment: data dated by day are read up to there."""
    return before.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def last_finished_day(before: datetime) -> date:
    """Return the last day in UTC that was over at the moment; at midnight that is the day that just ended."""
    return start_of_day(before).date() - ONE_DAY


def question_path(question: Question, host: str) -> tuple[str, ...]:
    """Return the parts of the path of the question's address, if it is at that host; none without an address."""
    try:
        found = urlsplit(question.url or "")
        here = (found.hostname or "") in {host, f"www.{host}"}
    except ValueError:
        return ()
    return tuple(part for part in found.path.split("/") if part) if here else ()


def ordered_series(points: Mapping[date, float], *, name: str, unit: str, source: str) -> TimeSeries:
    """Return the points as a series in order of their dates; raises NotFoundError where there are none."""
    if not points:
        raise_not_found(source, f"{name} has nothing before the requested moment")
    dates = tuple(sorted(points))
    return TimeSeries(name=name, unit=unit, source=source, dates=dates, values=tuple(points[day] for day in dates))


def daily_prices(moves: Iterable[tuple[datetime, float]], *, since: datetime, until: datetime) -> dict[date, float]:
    """Return the price at the end of each day in UTC, from the first move on, up to the midnight ``until``.

    A price holds until it moves. A move before ``since`` gives the price at that time; moves at or after ``until`` are
    ignored.
    """
    known = sorted((at.astimezone(UTC), price) for at, price in moves if at < until)
    if not known:
        return {}
    ends = {max(at, since).astimezone(UTC).date(): price for at, price in known}
    points: dict[date, float] = {}
    day, price = min(ends), known[0][1]
    while day < until.date():
        price = ends.get(day, price)
        points[day] = price
        day += ONE_DAY
    return points
