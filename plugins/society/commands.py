"""``foxcast court``: scenarios as they would be played, and comparisons and scores of trials on record."""

import json
import re
import tomllib
from contextlib import suppress
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from bot.api import ConfigError, ForecastExplanation, explain_forecast, require_forecaster_kind, suggest_names
from plugins.society import transcripts
from plugins.society.court_scores import score_forecasts
from plugins.society.interventions import ScenarioInterventions
from plugins.society.scenario import CourtScenario, MoveAction, expand_loops
from plugins.society.scenario_files import (
    SHIPPED_SCENARIOS,
    find_warnings,
    load_shipped_scenario,
    parse_scenario,
    read_scenario_file,
)
from plugins.society.settings import CourtSettings, count_moves


class CourtCommand(StrEnum):
    """What the command does."""

    SCENARIOS = "scenarios"
    SHOW = "show"
    CHECK = "check"
    SCHEMA = "schema"
    TRANSCRIPT = "transcript"
    COMPARE = "compare"
    SCORE = "score"
    VARIANT = "variant"


_COMMANDS_WITHOUT_NAMES = frozenset({CourtCommand.SCENARIOS, CourtCommand.SCHEMA})
# As config.toml has names of forecasters.
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_MOST_NAME_CHARS = 60
_OWN_NAME = "court"
# What keeps each value as the text that it is.
_TEXT_TABLES = frozenset({"variables", "messages", "systems", "roles"})
_WITHOUT_ARTICLES = ["interventions", "without_articles"]
_HELP = (
    "scenarios: list the built-in ones. show NAME|FILE: roles and steps. check FILE. schema: of scenario "
    "files, as JSON Schema. compare FORECAST OTHER. score FORECAST...: jurors and aggregates "
    "against outcomes. variant NAME KEY=VALUE...: a table for config.toml with these settings or interventions."
)


def run_court_command(
    ctx: typer.Context,
    action: Annotated[CourtCommand, typer.Argument(metavar="ACTION", help=_HELP)],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="What the action needs, as listed above.")
    ] = None,
) -> None:
    """Show scenarios of the court, and compare and score what was voted in its trials."""
    given = names or []
    _require_arguments(action, given)
    match action:
        case CourtCommand.SCENARIOS:
            text = "\n".join(f"{name:<8}{load_shipped_scenario(name).summary}" for name in SHIPPED_SCENARIOS)
        case CourtCommand.SCHEMA:
            text = json.dumps(CourtScenario.model_json_schema(), indent=2)
        case CourtCommand.SHOW:
            text = describe_scenario(_load_scenario(_require_one(given, "a scenario")))
        case CourtCommand.CHECK:
            text = _check_scenario(_require_one(given, "a file"))
        case CourtCommand.VARIANT:
            text = format_variant(given)
        case CourtCommand.SCORE:
            text = score_forecasts([_load_court_forecast(ctx, name) for name in given])
        case CourtCommand.COMPARE:
            text = transcripts.compare_forecasts(
                *_require_same_question(*(_load_court_forecast(ctx, name) for name in given))
            )
        case CourtCommand.TRANSCRIPT:
            message = "foxcast court transcript is now foxcast transcript"
            raise ConfigError(message)
    typer.echo(text)


def _require_arguments(action: CourtCommand, given: list[str]) -> None:
    """Raise ConfigError for arguments that would be ignored, and for forecasts that are not named."""
    message = ""
    if action in _COMMANDS_WITHOUT_NAMES and given:
        message = f"{action} takes no name, so leave out {given[0]!r}"
    elif action is CourtCommand.COMPARE and len(given) != 2:
        message = "compare needs two forecasts"
    elif action is CourtCommand.SCORE and not given:
        message = "score needs one forecast or more"
    if message:
        raise ConfigError(message)


def _load_court_forecast(ctx: typer.Context, name: str) -> ForecastExplanation:
    """Return what is on record of a forecast by a court, under whatever name; raises ConfigError for any other."""
    found = explain_forecast(ctx, name)
    moves = {step.action.name for steps in found.steps.values() for step in steps}
    is_played = partial(moves.issubset, {*MoveAction})
    require_forecaster_kind(found, "a court", keys=("scenario",), is_played=is_played)
    return found


def _require_same_question(
    first: ForecastExplanation, second: ForecastExplanation
) -> tuple[ForecastExplanation, ForecastExplanation]:
    refs = [found.trace.question.ref for found in (first, second)]
    if refs[0] != refs[1]:
        message = f"compare needs two forecasts of one question; these are of {refs[0]} and {refs[1]}"
        raise ConfigError(message)
    return first, second


def describe_scenario(scenario: CourtScenario) -> str:
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
    if any(move.action is MoveAction.GENERATE_JURY for move in scenario.steps):
        lines.append(f"{'juror_N':<20}{'-':<10}{'speak':<24}juror_N, else juror, else main")
    lines += ["", f"{len(expand_loops(scenario))} steps, {count_moves(scenario)} moves:"]
    for at in expand_loops(scenario):
        move = at.move
        turn = f" {at.turn}/{at.turns}" if at.turns > 1 else ""
        who = f"{move.initiator} -> {move.receiver} ({move.kind})" if move.initiator else move.agent or ""
        stored = f", stored as {move.store}" if move.store else ""
        stored += ", shared" if move.shared else ""
        lines.append(f"{at.place:>3}  {move.name or move.action}{turn}: {move.action} {who}{stored}".rstrip())
    return "\n".join(lines)


def format_variant(given: list[str]) -> str:
    """Return the table of config.toml for a court in which some inputs are changed; raises ConfigError."""
    name, pairs = _variant_name(_require_one(given[:1], "a name for the variant")), given[1:]
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            message = f"{pair!r} should be KEY=VALUE"
            raise ConfigError(message)
        _set_value(values, key.split("."), value)
    try:
        settings = CourtSettings.model_validate(values, context={"folder": Path()})
    except ValidationError as error:
        told = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)]
        raise ConfigError("\n".join(told).replace("Value error, ", "")) from None
    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude={"scenario_text"})
    return "\n".join(
        [f"[forecasters.{name}]", 'uses = "court"', *_toml_tables(f"forecasters.{name}.settings", changed)]
    )


def _variant_name(name: str) -> str:
    message = ""
    if not _NAME.fullmatch(name) or len(name) > _MOST_NAME_CHARS:
        message = "should be lower-case letters, digits and single underscores, 60 at most"
    elif name == _OWN_NAME:
        message = "is the forecaster that the variant is made of; give it another name"
    elif find_spec(f"plugins.{name}") is not None:
        message = "is that of a plugin, so config would refuse the table; give the variant another name"
    if message:
        message = f"the name {name!r} {message}"
        raise ConfigError(message)
    return name


def _set_value(values: dict[str, Any], key: list[str], value: str) -> None:
    """Put a value where its key belongs: among the settings, or else among the interventions."""
    if key[0] not in CourtSettings.model_fields:
        if key[0] not in ScenarioInterventions.model_fields:
            valid = [*CourtSettings.model_fields, *ScenarioInterventions.model_fields]
            message = f"there is no setting or intervention {key[0]}; {suggest_names(key[0], valid)}"
            raise ConfigError(message)
        key = ["interventions", *key]
    table = values
    for part in key[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            message = f"{'.'.join(key)}: {part} has a value already"
            raise ConfigError(message)
    read = value if _TEXT_TABLES.intersection(key[1:2]) else _parse_value(value)
    held = table.get(key[-1])
    if key != _WITHOUT_ARTICLES:
        table[key[-1]] = read
    elif not isinstance(held, dict):
        table[key[-1]] = [*(held or []), *(read if isinstance(read, list) else [read])]


def _parse_value(value: str) -> list[Any] | str:
    """Return the list that a value is as JSON or TOML, else the value as it stands."""
    if not value.startswith("["):
        return value
    with suppress(ValueError, RecursionError):
        return list(json.loads(value))
    with suppress(ValueError, RecursionError):
        table = tomllib.loads(f"list = {value}")
        # A line after the list would be read as another key.
        if len(table) == 1:
            return list(table["list"])
    return value


def _toml_tables(place: str, values: dict[str, Any]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    lines = [f"\n[{place}]", *(f"{name} = {_toml_value(value)}" for name, value in plain.items())] if plain else []
    for name, value in values.items():
        lines += _toml_tables(f"{place}.{name}", value) if isinstance(value, dict) else []
    return lines


def _toml_value(value: Any) -> str:  # noqa: ANN401 - a JSON value
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_toml_value(key)} = {_toml_value(part)}' for key, part in value.items())} }}"
    # JSON of texts and numbers is TOML as well, as long as nothing beyond ASCII is escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _require_one(given: list[str], what: str) -> str:
    if len(given) != 1:
        message = f"name {what}, and one alone"
        raise ConfigError(message)
    return given[0]


def _load_scenario(name: str) -> CourtScenario:
    return (
        parse_scenario(read_scenario_file(Path(name)), name)
        if name.endswith((".toml", ".json"))
        else load_shipped_scenario(name)
    )


def _check_scenario(name: str) -> str:
    text = read_scenario_file(Path(name))
    scenario = parse_scenario(text, name)
    holds = f"{name} holds together: {len(expand_loops(scenario))} steps, {count_moves(scenario)} moves"
    return "\n".join([*find_warnings(text, name), holds])
