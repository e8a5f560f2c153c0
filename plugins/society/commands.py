"""``foxcast court``: scenarios as they would be played, and trials on record as text, page or comparison."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from bot.api import ConfigError, explained
from plugins.society import minutes
from plugins.society.interventions import Interventions
from plugins.society.loading import SHIPPED, parsed, read_text, shipped
from plugins.society.names import instead
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
            text = minutes.scored([explained(ctx, name) for name in given])
        case Deed.COMPARE:
            if len(given) != 2:
                message = "compare needs two forecasts"
                raise ConfigError(message)
            text = minutes.compared(explained(ctx, given[0]), explained(ctx, given[1]))
        case Deed.TRANSCRIPT:
            text = _transcript(explained(ctx, _one(given, "a forecast")), html)
    typer.echo(text)


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
    name, pairs = _one(given[:1], "a name for the variant"), given[1:]
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
    if key[-1] == "without_articles":
        table.setdefault(key[-1], []).append(value)
    else:
        table[key[-1]] = value


def _tables(place: str, values: dict[str, Any]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    lines = [f"\n[{place}]", *(f"{name} = {_toml(value)}" for name, value in plain.items())] if plain else []
    for name, value in values.items():
        lines += _tables(f"{place}.{name}", value) if isinstance(value, dict) else []
    return lines


def _toml(value: Any) -> str:  # noqa: ANN401 - a JSON value
    # JSON of texts, numbers and lists of them is TOML as well, as long as nothing beyond ASCII is escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one(given: list[str], what: str) -> str:
    if len(given) != 1:
        message = f"name {what}, and one alone"
        raise ConfigError(message)
    return given[0]


def _scenario(name: str) -> Scenario:
    return parsed(read_text(Path(name)), name) if name.endswith((".toml", ".json")) else shipped(name)


def _checked(name: str) -> str:
    scenario = parsed(read_text(Path(name)), name)
    return f"{name} holds together: {len(laid_out(scenario))} steps, {moves_of(scenario)} moves"


def _transcript(found: dict[str, Any], html: Path | None) -> str:
    if html is None:
        return minutes.transcript(found)
    try:
        html.write_text(page(found), encoding="utf-8")
    except OSError as error:
        message = f"{html}: cannot be written: {error.strerror}"
        raise ConfigError(message) from error
    return f"written to {html}"
