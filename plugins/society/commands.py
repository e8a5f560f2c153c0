"""``foxcast court``: scenarios as they would be played, and trials on record as text, page or comparison."""

import json
import re
import tomllib
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from bot.api import ConfigError, explain_forecast, require_forecaster_kind
from plugins.society import minutes
from plugins.society.interventions import Interventions
from plugins.society.loading import SHIPPED, parsed, read_text, shipped, warnings
from plugins.society.names import instead
from plugins.society.pacing import SEVERAL
from plugins.society.page import page
from plugins.society.scenario import ActionType, Scenario, laid_out
from plugins.society.settings import CourtSettings, moves_of


class Deed(StrEnum):
    """What the command does."""

    SCENARIOS = "scenarios"
    SHOW = "show"
    CHECK = "check"
    SCHEMA = "schema"
    TRANSCRIPT = "transcript"
    COMPARE = "compare"
    SCORE = "score"
    VARIANT = "variant"


_NAMES_NOTHING = frozenset({Deed.SCENARIOS, Deed.SCHEMA})
# As config.toml has names of forecasters.
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MOST_NAME_CHARS = 60
_OWN_NAME = "court"
# What keeps each value as the text that it is.
_TEXTS = frozenset({"variables", "messages", "systems", "roles"})
_WITHOUT = ["interventions", "without_articles"]
_HELP = (
    "scenarios: list those that come with Foxcast. show NAME|FILE: roles and steps. check FILE. schema: of scenario "
    "files, as JSON Schema. transcript FORECAST. compare FORECAST OTHER. score FORECAST...: jurors and aggregates "
    "against outcomes. variant NAME KEY=VALUE...: a table for config.toml with these settings or interventions."
)


def court(
    ctx: typer.Context,
    deed: Annotated[Deed, typer.Argument(help=_HELP)],
    names: Annotated[list[str] | None, typer.Argument(help="What it is done with.")] = None,
    *,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the transcript as a page of HTML.")] = None,
) -> None:
    """Show scenarios of the court, and what was said and voted in its trials."""
    given = names or []
    _require_use(deed, given, html)
    match deed:
        case Deed.SCENARIOS:
            text = "\n".join(f"{name:<8}{shipped(name).summary}" for name in SHIPPED)
        case Deed.SCHEMA:
            text = json.dumps(Scenario.model_json_schema(), indent=2)
        case Deed.SHOW:
            text = shown(_scenario(_one(given, "a scenario")))
        case Deed.CHECK:
            text = _checked(_one(given, "a file"))
        case Deed.VARIANT:
            text = variant(given)
        case Deed.SCORE:
            text = minutes.scored([_tried(ctx, name) for name in given])
        case Deed.COMPARE:
            text = minutes.compared(*_of_one_question(*(_tried(ctx, name) for name in given)))
        case Deed.TRANSCRIPT:
            text = _transcript(_tried(ctx, _one(given, "a forecast")), html)
    typer.echo(text)


def _require_use(deed: Deed, given: list[str], html: Path | None) -> None:
    """Raise ConfigError for arguments that would be ignored, and for forecasts that are not named."""
    message = ""
    if html is not None and deed is not Deed.TRANSCRIPT:
        message = "--html goes with transcript alone"
    elif deed in _NAMES_NOTHING and given:
        message = f"{deed} takes no name, so leave out {given[0]!r}"
    elif deed is Deed.COMPARE and len(given) != 2:
        message = "compare needs two forecasts"
    elif deed is Deed.SCORE and not given:
        message = "score needs one forecast or more"
    if message:
        raise ConfigError(message)


def _tried(ctx: typer.Context, name: str) -> dict[str, Any]:
    """Return what is on record of a forecast by a court, under whatever name; raises ConfigError for any other."""
    found = explain_forecast(ctx, name)
    moves = {step["action"]["name"] for trial in found["trials"] for step in trial["steps"]}
    is_played = partial(moves.issubset, {*ActionType, SEVERAL})
    require_forecaster_kind(found, "a court", keys=("scenario",), is_played=is_played)
    return found


def _of_one_question(first: dict[str, Any], second: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    refs = [found["question"]["ref"] for found in (first, second)]
    if refs[0] != refs[1]:
        message = f"compare needs two forecasts of one question; these are of {refs[0]} and {refs[1]}"
        raise ConfigError(message)
    return first, second


def shown(scenario: Scenario) -> str:
    """Return a scenario as a table of roles and a list of its steps, loops laid out."""
    lines = [scenario.summary or scenario.id, "", f"{'agent':<20}{'side':<10}{'may':<24}model of the role"]
    for agent in scenario.agents:
        may = [
            name
            for name, able in (("search", agent.capabilities.web_retrieval), ("speak", agent.capabilities.llm))
            if able
        ]
        roles = f"{agent.role or agent.name}, else main" if agent.capabilities.llm else "none"
        lines.append(f"{agent.name:<20}{agent.side.replace('neither', '-'):<10}{', '.join(may) or '-':<24}{roles}")
    if any(move.action is ActionType.GENERATE_JURY for move in scenario.steps):
        lines.append(f"{'juror_N':<20}{'-':<10}{'speak':<24}juror_N, else juror, else main")
    lines += ["", f"{len(laid_out(scenario))} steps, {moves_of(scenario)} moves:"]
    for at in laid_out(scenario):
        move = at.move
        turn = f" {at.turn}/{at.turns}" if at.turns > 1 else ""
        who = f"{move.initiator} -> {move.receiver} ({move.kind})" if move.initiator else move.agent or ""
        stored = f", stored as {move.store}" if move.store else ""
        lines.append(f"{at.place:>3}  {move.name or move.action}{turn}: {move.action} {who}{stored}".rstrip())
    return "\n".join(lines)


def variant(given: list[str]) -> str:
    """Return the table of config.toml for a court in which some inputs are changed; raises ConfigError."""
    name, pairs = _variant_name(_one(given[:1], "a name for the variant")), given[1:]
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            message = f"{pair!r} should be KEY=VALUE"
            raise ConfigError(message)
        _put(values, key.split("."), value)
    try:
        settings = CourtSettings.model_validate(values, context={"folder": Path()})
    except ValidationError as error:
        told = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)]
        raise ConfigError("\n".join(told).replace("Value error, ", "")) from None
    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude={"scenario_text"})
    return "\n".join([f"[forecasters.{name}]", 'uses = "court"', *_tables(f"forecasters.{name}.settings", changed)])


def _variant_name(name: str) -> str:
    message = ""
    if not _NAME.fullmatch(name) or len(name) > _MOST_NAME_CHARS:
        message = "should be lower-case letters, digits and single underscores, 60 at most"
    elif name == _OWN_NAME:
        message = "is the forecaster that the variant is made of; give it another name"
    if message:
        message = f"the name {name!r} {message}"
        raise ConfigError(message)
    return name


def _put(values: dict[str, Any], key: list[str], value: str) -> None:
    """Put a value where its key belongs: among the settings, or else among the interventions."""
    if key[0] not in CourtSettings.model_fields:
        if key[0] not in Interventions.model_fields:
            valid = [*CourtSettings.model_fields, *Interventions.model_fields]
            message = f"there is no setting or intervention {key[0]}; {instead(key[0], valid)}"
            raise ConfigError(message)
        key = ["interventions", *key]
    table = values
    for part in key[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            message = f"{'.'.join(key)}: {part} has a value already"
            raise ConfigError(message)
    read = value if _TEXTS.intersection(key[1:2]) else _list_or_text(value)
    held = table.get(key[-1])
    if key != _WITHOUT:
        table[key[-1]] = read
    elif not isinstance(held, dict):
        table[key[-1]] = [*(held or []), *(read if isinstance(read, list) else [read])]


def _list_or_text(value: str) -> list[Any] | str:
    """Return the list that a value is as JSON or TOML, else the value as it stands."""
    if not value.startswith("["):
        return value
    with suppress(ValueError, RecursionError):
        return list(json.loads(value))
    with suppress(ValueError, RecursionError):
        table = tomllib.loads(f"list = {value}")
        # A line after the list would be read as a key beside it.
        if len(table) == 1:
            return list(table["list"])
    return value


def _tables(place: str, values: dict[str, Any]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    lines = [f"\n[{place}]", *(f"{name} = {_toml(value)}" for name, value in plain.items())] if plain else []
    for name, value in values.items():
        lines += _tables(f"{place}.{name}", value) if isinstance(value, dict) else []
    return lines


def _toml(value: Any) -> str:  # noqa: ANN401 - a JSON value
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(part)}' for key, part in value.items())} }}"
    # JSON of texts and numbers is TOML as well, as long as nothing beyond ASCII is escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one(given: list[str], what: str) -> str:
    if len(given) != 1:
        message = f"name {what}, and one alone"
        raise ConfigError(message)
    return given[0]


def _scenario(name: str) -> Scenario:
    return parsed(read_text(Path(name)), name) if name.endswith((".toml", ".json")) else shipped(name)


def _checked(name: str) -> str:
    text = read_text(Path(name))
    scenario = parsed(text, name)
    holds = f"{name} holds together: {len(laid_out(scenario))} steps, {moves_of(scenario)} moves"
    return "\n".join([*warnings(text, name), holds])


def _transcript(found: dict[str, Any], html: Path | None) -> str:
    if html is None:
        return minutes.transcript(found)
    try:
        html.write_text(page(found), encoding="utf-8")
    except OSError as error:
        message = f"{html}: cannot be written: {error.strerror}"
        raise ConfigError(message) from error
    return f"written to {html}"
