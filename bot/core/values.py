"""Types and checks that all core values share: JSON values and datetimes with a time zone."""

from datetime import datetime

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def require_timezone(name: str, moment: datetime | None) -> None:
    """Raise ValueError for a datetime without a time zone."""
    if moment is not None and moment.utcoffset() is None:
        message = f"{name} {moment.isoformat()} has no time zone"
        raise ValueError(message)
