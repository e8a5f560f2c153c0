"""The settings of this venue; every field is explained by the text below it."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from bot.api import PluginSettings

Kind = Literal["binary", "multiple_choice", "numeric", "discrete", "date"]
# An id or a slug, which becomes part of an address.
Tournament = Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class MetaculusSettings(PluginSettings):
    """The account, and which questions to read."""

    token: SecretStr
    """API token of the bot's account, 40 hexadecimal digits; reading needs it too."""

    tournaments: Annotated[tuple[Tournament, ...], Field(min_length=1)] = ("fall-futureeval-2026", "minibench")
    """Tournaments to forecast, by slug or id; they change each season, `minibench` is always the current one."""

    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = (
        "binary",
        "multiple_choice",
        "numeric",
        "discrete",
        "date",
    )
    """Kinds of questions to forecast."""

    groups: bool = True
    """Forecast the questions of groups, each by itself."""

    conditionals: bool = True
    """Forecast both branches of conditional questions."""

    closes_within_h: float | None = Field(default=None, gt=0)
    """Only questions that close within this many hours; unset: all."""

    close_margin_s: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds before a close in which a question is not found and nothing is sent; one found before may be renewed."""

    expires_after_h: float | None = Field(default=None, gt=0)
    """Hours after which a forecast lapses and scores nothing; unset: never, which is best.

    Each new forecast of the question begins them again, also an equal one.
    """

    base_url: str = Field(
        default="https://www.metaculus.com",
        pattern=r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))",
    )
    """Address of the site."""

    def forecast_lifetime(self) -> timedelta | None:
        """Return after which time a forecast lapses, None for never."""
        return None if self.expires_after_h is None else timedelta(hours=self.expires_after_h)
