"""The jury: profiles that the clerk writes to requirements, and stand-ins for missing ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bot.api import Json, ToolDefinition, UnreadableAnswer, answer_tool, object_schema, parsing, text_field
from plugins.society.scenario import JuryRequirements, JurySelection

JurorProfile = Mapping[str, str]

FIELD_CHARS = 160
NAME_FIELD = "name"
JURY_TOOL = "seat_jury"
# A profile is part of a juror's instructions, so it holds words and numbers, and nothing that looks like a mark.
_NOT_IN_PROFILE = re.compile(r"[^\w .,:;()'\u2019&/+%-]+")

# Ten people who differ in age, trade, means and home; further ones repeat them with another outlook.
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
_OUTLOOKS = (
    "weighs both sides before numbers",
    "begins with how such things usually end",
    "is sceptical of announcements",
)


def jury_tool(selection: JurySelection, count: int) -> ToolDefinition:
    """Return the call by which the clerk names exactly this many jurors."""
    profile = object_schema({field: text_field(FIELD_CHARS) for field in _profile_fields(selection)})
    jurors: Json = {"type": "array", "items": profile, "minItems": count, "maxItems": count}
    return answer_tool(JURY_TOOL, f"Name {count} jurors by their profiles", {"jurors": jurors})


def read_jury(arguments: Mapping[str, Json], selection: JurySelection, count: int) -> tuple[JurorProfile, ...]:
    """Return the profiles that were named, at most ``count``; raises UnreadableAnswer if there is none."""
    raw = arguments.get("jurors")
    profiles: list[JurorProfile] = []
    for item in raw[:count] if isinstance(raw, list) else ():
        given = item if isinstance(item, dict) else {}
        profile = {field: _read_line(given.get(field)) for field in _profile_fields(selection)}
        if profile[NAME_FIELD] and sum(map(bool, profile.values())) > 1:
            profiles.append({field: value for field, value in profile.items() if value})
    if not profiles:
        message = f"jurors should be a list of {count} profiles, each with a name and more than that"
        raise UnreadableAnswer(message)
    return tuple(profiles)


def fill_jury(named: Sequence[JurorProfile] | None, count: int, why: str) -> tuple[tuple[JurorProfile, ...], str]:
    """Return a jury of exactly ``count``, stand-ins for the missing jurors, and a note on those, if there are any."""
    kept = tuple(named or ())[:count]
    missing = count - len(kept)
    note = f"{missing} of {count} jurors are stand-ins: {why or f'the clerk named {len(kept)}'}" if missing else ""
    return (*kept, *map(create_stand_in, range(len(kept), count))), note


def create_stand_in(number: int) -> JurorProfile:
    """Return the profile of a stand-in, by its number from 0."""
    name, *values = _STAND_INS[number % len(_STAND_INS)]
    outlook = _OUTLOOKS[(number // len(_STAND_INS) + number) % len(_OUTLOOKS)]
    return {NAME_FIELD: name, **dict(zip(_FIELDS, values, strict=True)), "outlook": outlook}


def requirements_text(requirements: JuryRequirements) -> str:
    """Return the requirements as the clerk reads them."""
    lines = [
        f"- {kind}: {text}"
        for kind in ("demographic", "expertise", "socioeconomic", "geographic")
        if (text := getattr(requirements, kind))
    ]
    return "\n".join([*lines, *(f"- {text}" for text in requirements.further)]) or "- a varied jury"


def profile_text(profile: JurorProfile) -> str:
    """Return a profile as it is in the juror's own instructions: plain words, a line for each field."""
    return "\n".join(f"- {field}: {_NOT_IN_PROFILE.sub(' ', value).strip()}" for field, value in profile.items())


def _profile_fields(selection: JurySelection) -> tuple[str, ...]:
    return tuple(dict.fromkeys((NAME_FIELD, *selection.profile_fields)))


def _read_line(raw: Json) -> str:
    value = str(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else raw
    return parsing.read_text(" ".join(value.split()) if isinstance(value, str) else None, FIELD_CHARS)
