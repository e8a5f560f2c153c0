"""Days of a simulated world and the dates that people write."""

from datetime import UTC, datetime, timedelta

from bot.core.light_dataclass import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class WorldCalendar:
    """A world's time is float days since ``start``, an aware moment."""

    start: datetime

    def __post_init__(self) -> None:
        """Refuse a moment without a zone."""
        if self.start.tzinfo is None:
            message = "a world begins at a moment with a time zone"
            raise ValueError(message)

    def moment_of(self, day: float) -> datetime:
        """Return the moment of a day, in UTC."""
        return self.start.astimezone(UTC) + timedelta(days=day)

    def day_of(self, moment: datetime) -> float:
        """Return the day of a moment; it is negative before the world began."""
        return (moment - self.start).total_seconds() / DAY_S

    def date_text(self, day: float) -> str:
        """Return the date of a day as a newspaper writes it."""
        moment = self.moment_of(day)
        return f"{moment.day} {moment:%B %Y}"
