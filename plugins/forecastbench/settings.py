"""The settings of this venue; the text below each field explains it."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from bot.api import LocalPath, PluginSettings

HttpsAddress = Annotated[str, Field(pattern="^https://")]
RoundSelection = Literal["latest", "all"] | Annotated[tuple[date, ...], Field(min_length=1)]

_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 _-]*$"


class ForecastBenchSettings(PluginSettings):
    """Where rounds come from and how a forecast set is signed."""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "number": "set_number",
    }

    source: Annotated[Literal["sample"] | HttpsAddress | LocalPath, Field(union_mode="left_to_right")] = "sample"
    """Where rounds come from: `sample` (with the program), a folder with `question_sets/` and `resolution_sets/`, one
    question set file, or the https address of such a folder."""

    rounds: RoundSelection = "latest"
    """Rounds to forecast: `latest`, `all` (folders only), or a list of due dates."""

    question_sets: Literal["llm", "human"] = "llm"
    """The question set for models (`llm`), or the smaller one for people (`human`)."""

    organization: str = Field(default="foxcast", pattern=_NAME_PATTERN, max_length=64)
    """The team's name as agreed with the organisers; part of the file name."""

    model: str = Field(default="foxcast", min_length=1, max_length=128)
    """The forecaster's name on the leaderboard."""

    model_organization: str = Field(default="foxcast", min_length=1, max_length=64)
    """Who made the model."""

    set_number: int = Field(default=1, ge=1, le=3)
    """The last part of the file name: up to three forecast sets per team and round, one per model."""

    leaderboard_eligible: bool | None = None
    """Written to the file if set; unset: the organisers take it as true."""

    upload_folder: LocalPath | None = None
    """Live only: a folder that is synchronised to the team's bucket, for instance by gcsfuse or rclone; unset: none."""

    @field_validator("source", mode="before")
    @classmethod
    def _no_plain_http(cls, source: object) -> object:
        if isinstance(source, str) and source.startswith("http://"):
            message = "use the https address: questions and outcomes must not be changed in transit"
            raise ValueError(message)
        return source
