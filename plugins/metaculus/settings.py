"""What an operator may set for this venue; every field is explained by the text below it."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, SecretStr

from bot.api import Settings

Kind = Literal["binary", "multiple_choice", "numeric", "discrete", "date"]
# An id or a slug, which becomes part of an address.
Tournament = Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class MetaculusSettings(Settings):
    """Whose account, and which questions."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    token: SecretStr
    """The token of the bot's account, 40 hexadecimal digits. The site answers nothing without it, not even reading."""

    tournaments: Annotated[tuple[Tournament, ...], Field(min_length=1)] = ("fall-futureeval-2026", "minibench")
    """The tournaments to forecast, by slug or id; they change each season, ``minibench`` is always the current one."""

    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = (
        "binary",
        "multiple_choice",
        "numeric",
        "discrete",
        "date",
    )
    """Which kinds of questions."""

    groups: bool = True
    """Whether the questions of groups are forecast, each by itself."""

    conditionals: bool = True
    """Whether both branches of conditional questions are forecast."""

    closes_within_h: float | None = Field(default=None, gt=0)
    """Only questions that close within so many hours; left out: all."""

    close_margin_s: float = Field(default=60.0, ge=0, le=86_400)
    """Nothing is forecast in the last seconds before a question closes."""

    expires_after_h: float | None = Field(default=None, gt=0)
    """Let a forecast lapse after so many hours. A lapsed one scores nothing, so it is best left out: they stand."""

    base_url: str = Field(
        default="https://www.metaculus.com",
        pattern=r"^(https://|http://(127\.0\.0\.1|localhost|\[::1\])([:/]|$))",
    )
    """Where the site is."""
