"""What the data sources share: checked replies, days in UTC, and points in order of their dates.

A reply is parsed at the edge, once. A number that is not finite, a missing part or text that is no JSON is a
ContractError that names the source and quotes nothing of the request: some requests hold keys.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, NoReturn, TypeVar
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, BeforeValidator, Field, FiniteFloat, ValidationError

from bot.api import ContractError, NotFound, Question, Series

# Encrypted, or a stand-in on this machine.
ADDRESS = r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))"
ONE_DAY = timedelta(days=1)


def _no_bool(value: object) -> object:
    """Refuse true and false, which would pass for 1 and 0."""
    if isinstance(value, bool):
        message = "a number is expected, not true or false"
        raise ValueError(message)  # noqa: TRY004 - pydantic turns a ValueError into its own, a TypeError passes
    return value


Number = Annotated[FiniteFloat, BeforeValidator(_no_bool)]
# Seconds since 1970 that a datetime can hold.
Seconds = Annotated[int, Field(ge=-(10**10), le=10**11)]
Probability = Annotated[Number, Field(ge=0.0, le=1.0)]

M = TypeVar("M", bound=BaseModel)


def parsed(model: type[M], body: bytes, source: str) -> M:
    """Return the reply in its documented form; raises ContractError for another one."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the whole"
        message = f"{source}: the answer is not of its documented form: {where}: {fault['msg']}"
    raise ContractError(message)


def broken(source: str, why: str) -> NoReturn:
    """Raise ContractError."""
    message = f"{source}: the answer is not of its documented form: {why}"
    raise ContractError(message)


def unknown(source: str, why: str) -> NoReturn:
    """Raise NotFound; what was asked may hold a key, so the chain of causes ends here."""
    message = f"{source}: {why}"
    raise NotFound(message) from None


def address(base_url: str, path: str, asked: Mapping[str, str]) -> str:
    """Return the address of a request."""
    return f"{base_url.rstrip('/')}/{path}?{urlencode(asked)}"


def midnight(before: datetime) -> datetime:
    """Return the beginning, in UTC, of the day of the moment: whatever is dated by days is read up to there."""
    return before.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def last_whole_day(before: datetime) -> date:
    """Return the last day in UTC that was over at the moment; at midnight that is the day that just ended."""
    return midnight(before).date() - ONE_DAY


def url_parts(question: Question, host: str) -> tuple[str, ...]:
    """Return the parts of the path of the question's address, if it is at that host; without an address none."""
    try:
        found = urlsplit(question.url or "")
        here = (found.hostname or "") in {host, f"www.{host}"}
    except ValueError:
        return ()
    return tuple(part for part in found.path.split("/") if part) if here else ()


def in_order(points: Mapping[date, float], *, name: str, unit: str, source: str) -> Series:
    """Return the points as a series in order of their dates; raises NotFound where there are none."""
    if not points:
        unknown(source, f"{name} has nothing before the moment asked for")
    dates = tuple(sorted(points))
    return Series(name=name, unit=unit, source=source, dates=dates, values=tuple(points[day] for day in dates))


def daily(moves: Iterable[tuple[datetime, float]], *, since: datetime, until: datetime) -> dict[date, float]:
    """Return the price at the end of each day in UTC, from the first move on, up to the midnight ``until``.

    A price holds until it moves. A move before ``since`` says where the price stood then; moves at or after ``until``
    are left out.
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
