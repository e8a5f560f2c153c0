"""What an operator may set for this venue; every field is explained by the text below it."""

from datetime import date
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, field_validator

from bot.api import LocalPath, Settings

HttpsAddress = Annotated[str, Field(pattern="^https://")]
Chosen = Literal["latest", "all"] | Annotated[tuple[date, ...], Field(min_length=1)]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9 _-]*$"


class ForecastBenchSettings(Settings):
    """Where rounds come from and how a forecast set is signed."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    source: Annotated[Literal["sample"] | HttpsAddress | LocalPath, Field(union_mode="left_to_right")] = "sample"
    """``sample`` (the rounds that come with the package), a folder with ``question_sets/`` and ``resolution_sets/``,
    one question set file, or the https address of such a folder, e.g.
    ``https://raw.githubusercontent.com/forecastingresearch/forecastbench-datasets/main/datasets``."""

    rounds: Chosen = "latest"
    """Which rounds to forecast: ``latest``, ``all`` (folders only), or a list of due dates (``["2026-04-26"]``)."""

    question_sets: Literal["llm", "human"] = "llm"
    """Which kind of question set: the one for models, or the smaller one that was put to people."""

    organization: str = Field(default="foxcast", pattern=_NAME, max_length=64)
    """The team's name as agreed with the organisers; part of the file name."""

    model: str = Field(default="foxcast", min_length=1, max_length=128)
    """The name of the forecaster on the leaderboard."""

    model_organization: str = Field(default="foxcast", min_length=1, max_length=64)
    """Who made the model."""

    number: int = Field(default=1, ge=1, le=3)
    """The last part of the file name: at most three forecast sets per team and round, one per model."""

    leaderboard_eligible: bool | None = None
    """Written to the file where it is set; the organisers take a missing value as true."""

    upload_folder: LocalPath | None = None
    """Live only: a folder that is synchronised to the team's bucket, for instance by gcsfuse or rclone."""

    @field_validator("source", mode="before")
    @classmethod
    def _no_plain_http(cls, source: object) -> object:
        if isinstance(source, str) and source.startswith("http://"):
            message = "use the https address: questions and outcomes must not be changed on their way"
            raise ValueError(message)
        return source
