"""The jury: profiles that the clerk writes to requirements, and the people who stand in where it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.api import Json, Misread, Tool, quoted, reading
from plugins.society.answers import record
from plugins.society.scenario import JurySelection, Requirements

Profile = Mapping[str, str]

FIELD_CHARS = 160
NAME = "name"

# Ten people who differ in age, trade, means and place; more than ten come round again with another outlook.
_STAND_INS = (
    ("Ada", "64", "retired actuary", "university", "a port town", "insurance statistics and base rates"),
    ("Bo", "29", "farm mechanic", "apprenticeship", "a village", "machines, weather and what breaks"),
    ("Chandra", "47", "hospital physician", "university", "a large city", "medicine and reading of studies"),
    ("Dalia", "35", "local reporter", "college", "a mid-sized city", "checking what officials announce"),
    ("Emeka", "52", "shop owner", "secondary school", "a suburb", "trade, prices and customers"),
    ("Freya", "41", "civil servant", "university", "a capital", "how slowly institutions move"),
    (
        "Goran",
        "58",
        "union organiser",
        "secondary school",
        "an industrial town",
        "bargaining and what parties threaten",
    ),
    ("Hana", "26", "software tester", "college", "a large city", "technology and its delays"),
    ("Ivo", "71", "former teacher", "university", "a rural district", "history and earlier cases of the kind"),
    ("Jun", "38", "commodity trader", "university", "a financial centre", "markets and what is priced in"),
)
_FIELDS = ("age", "profession", "education", "region", "expertise")
_OUTLOOKS = ("weighs both sides before numbers", "begins with how such things usually end", "doubts what is announced")


@dataclass(frozen=True, slots=True)
class Jury:
    """The profiles of a jury, and what had to be made up for; ``chosen`` is how many the clerk named."""

    profiles: tuple[Profile, ...]
    chosen: int
    note: str = ""


def jury_tool(selection: JurySelection, count: int) -> Tool:
    """Return the call by which the clerk names exactly so many jurors."""
    properties: dict[str, Json] = {
        field: {"type": "string", "maxLength": FIELD_CHARS} for field in (NAME, *_fields(selection))
    }
    jurors: Json = {"type": "array", "items": record(properties), "minItems": count, "maxItems": count}
    return Tool(
        name="seat_jury", description=f"Name {count} jurors by their profiles", parameters=record({"jurors": jurors})
    )


def read_jury(arguments: Mapping[str, Json], selection: JurySelection, count: int) -> tuple[Profile, ...]:
    """Return the profiles that were named, at most ``count``; raises Misread where there is none."""
    raw = arguments.get("jurors")
    profiles: list[Profile] = []
    for item in raw[:count] if isinstance(raw, list) else ():
        given = item if isinstance(item, dict) else {}
        profile = {field: _line(given.get(field)) for field in (NAME, *_fields(selection))}
        if profile[NAME] and sum(map(bool, profile.values())) > 1:
            profiles.append({field: value for field, value in profile.items() if value})
    if not profiles:
        message = f"jurors should be a list of {count} profiles, each with a name and more than that"
        raise Misread(message)
    return tuple(profiles)


def seated(named: Sequence[Profile] | None, count: int, why: str) -> Jury:
    """Return a jury of exactly ``count``: those who were named, and stand-ins for those who were not."""
    kept = tuple(named or ())[:count]
    if len(kept) == count:
        return Jury(kept, count)
    told = f"{count - len(kept)} of {count} jurors are stand-ins: {why or f'the clerk named {len(kept)}'}"
    return Jury((*kept, *map(stand_in, range(len(kept), count))), len(kept), told)


def stand_in(number: int) -> Profile:
    """Return the profile of a stand-in, by its number from 0."""
    name, *values = _STAND_INS[number % len(_STAND_INS)]
    outlook = _OUTLOOKS[(number // len(_STAND_INS) + number) % len(_OUTLOOKS)]
    return {NAME: name, **dict(zip(_FIELDS, values, strict=True)), "outlook": outlook}


def requirements_text(requirements: Requirements) -> str:
    """Return the requirements as the clerk reads them."""
    lines = [
        f"- {kind}: {text}"
        for kind in ("demographic", "expertise", "socioeconomic", "geographic")
        if (text := getattr(requirements, kind))
    ]
    return "\n".join([*lines, *(f"- {text}" for text in requirements.further)]) or "- a varied jury"


def profile_text(profile: Profile) -> str:
    """Return a profile as it stands in the juror's own instructions; its words are the clerk's, so they are fenced."""
    return quoted("\n".join(f"{field}: {value}" for field, value in profile.items()), "your profile")


def _fields(selection: JurySelection) -> tuple[str, ...]:
    return tuple(field for field in selection.profile_fields if field != NAME)


def _line(raw: Json) -> str:
    value = str(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else raw
    return " ".join(reading.text(value, FIELD_CHARS).split())
