"""Types and checks that all core values share: JSON values and datetimes with a time zone."""

from datetime import MAXYEAR, MINYEAR, UTC, datetime

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
# More than any configuration or answer has, and far below what exhausts the stack.
MAX_NESTING = 64


def is_nested_too_deeply(value: object) -> bool:
    """Return whether lists and tables are nested more than ``MAX_NESTING`` deep."""
    level = [value]
    for _ in range(MAX_NESTING + 1):
        level = [
            item
            for inner in level
            if isinstance(inner, (dict, list))
            for item in (inner.values() if isinstance(inner, dict) else inner)
        ]
        if not level:
            return False
    return True


def require_timezone(name: str, moment: object) -> None:
    """Raise ValueError for anything but None and a datetime with a time zone that is a moment in UTC."""
    if moment is None:
        return
    if not isinstance(moment, datetime):
        message = f"{name} is {moment!r}, which is no datetime"
        raise ValueError(message)  # noqa: TRY004 - all faults of a value are of one kind
    if moment.utcoffset() is None:
        message = f"{name} {moment.isoformat()} has no time zone"
        raise ValueError(message)
    if moment.year in {MINYEAR, MAXYEAR}:
        try:
            moment.astimezone(UTC)
        except OverflowError:
            message = f"{name} {moment.isoformat()} is before the first year in UTC, or after the last"
            raise ValueError(message) from None


def require_share(name: str, value: float) -> None:
    """Raise ValueError for anything but a number from 0 to 1."""
    given: object = value
    if isinstance(given, str):
        message = f"{name} {value!r} is a text, and should be a number from 0 to 1"
        raise ValueError(message)  # noqa: TRY004 - all faults of a value are of one kind
    if not 0.0 <= value <= 1.0:  # also refuses NaN
        hint = "; divide a percent by 100" if 1.0 < value <= 100.0 else ""
        message = f"{name} {value} is outside [0, 1]{hint}"
        raise ValueError(message)
