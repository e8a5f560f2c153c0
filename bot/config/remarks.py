"""The words of comments, as an operator may change them."""

from string import Formatter
from typing import Annotated

from pydantic import AfterValidator, Field

# What may stand in braces.
PLACES = ("title", "answer", "forecast", "bet", "revision", "trials", "forecaster", "until", "reasons")
REMARK = "{forecast}{bet} (revision {revision}, {trials} of {forecaster}, information until {until})\n{reasons}"


def _require_known(template: str) -> str:
    try:
        parts = [part for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        message = f"this is no template ({error}); a brace that is meant is written twice"
        raise ValueError(message) from None
    if strange := [name for _, name, form, turned in parts if name not in PLACES or form or turned]:
        places = ", ".join(f"{{{place}}}" for place in PLACES)
        message = f"{{{strange[0]}}} as it is written stands for nothing; there are {places}"
        raise ValueError(message)
    return template


Template = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_require_known)]
