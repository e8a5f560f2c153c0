"""`foxcast lab questions import`: resolved questions of a user's own, for backtests."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bot.cli.command_setup import load_config_and_plugins
from bot.cli.output.console import stdout_console
from bot.cli.question_file import (
    FILE_VENUE,
    MAX_FAULT_CHARS,
    QuestionTable,
    parse_moment,
    read_text,
    title_to_key,
    validate_question,
)
from bot.core.clock import SystemClock
from bot.core.errors import ConfigError, MalformedDataError
from bot.core.learning import TrainingExample
from bot.core.light_dataclass import dataclass
from bot.core.outcomes import BinaryOutcome, ChoiceOutcome, NumericOutcome, Outcome, Resolution, VoidOutcome
from bot.core.predictions import BinaryShape, ChoiceShape
from bot.core.questions import Question, QuestionRef
from bot.evaluation.question_archive import write_question_archive
from bot.evaluation.score_report import MARKET_FAMILY
from bot.plugin_system.registry import Registry

TRUE_WORDS, FALSE_WORDS = frozenset({"yes", "true"}), frozenset({"no", "false"})
VOID_WORDS = frozenset({"annulled", "void", "ambiguous"})
# Columns of a CSV file that hold one cell each of a table of a question file.
SHAPE_CELLS = ("kind", "unit")
LIST_SEPARATOR = "|"
MAX_FILE_BYTES = 64 * 1024 * 1024


class QuestionAction(StrEnum):
    """What is done with resolved questions."""

    IMPORT = "import"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionImportOptions:
    """Which files are imported, and where the archive is written."""

    action: Annotated[QuestionAction, typer.Argument(metavar="import", help="Import resolved questions.")]
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="CSV or JSONL with title, asked_at, resolved_at and outcome, or JSON as a venue's own API gives it.",
        ),
    ]
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder to write, for --rounds of backtest, fit and lab trials.")
    ]
    venue: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The venue of JSON files, if several enabled ones could read them."),
    ] = None


def import_questions(ctx: typer.Context, options: QuestionImportOptions) -> None:
    """Read all files and write one archive; nothing is written if a file has a fault."""
    now = SystemClock().now()
    examples: dict[tuple[QuestionRef, str], TrainingExample] = {}
    for path in options.files:
        for example in _read_file(ctx, path, options.venue, now):
            key = example.question.ref, example.resolution.target
            if key in examples:
                message = f"{path}: {example.question.ref.key} is there twice; give each question a key of its own"
                raise ConfigError(message)
            # All of them are scored together, like the questions of a market.
            examples[key] = replace(example, question=replace(example.question, family=MARKET_FAMILY))
    if not examples:
        message = "the files hold no resolved question"
        raise ConfigError(message)
    written = write_question_archive(examples.values(), options.out)
    stdout_console().print(
        f"{len(examples)} resolved questions written to {written}; test a forecaster on them with: "
        f"foxcast backtest --forecaster NAME --rounds {options.out}"
    )


def _read_file(ctx: typer.Context, path: Path, venue: str | None, now: datetime) -> Iterator[TrainingExample]:
    text, suffix = read_text(path, max_bytes=MAX_FILE_BYTES), path.suffix.lower()
    if suffix == ".json":
        _, registry = load_config_and_plugins(ctx)
        yield from _read_venue_history(path, text, registry, venue)
        return
    if suffix not in {".csv", ".jsonl"}:
        message = f"{path}: name a .csv, .jsonl or .json file"
        raise ConfigError(message)
    rows = _csv_rows(path, text) if suffix == ".csv" else _json_rows(path, text)
    for number, row in rows:
        yield _read_example(f"{path} line {number}", row, now)


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows of a CSV file as tables of question files; empty cells are left out."""
    reader = csv.DictReader(io.StringIO(text))
    try:
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        message = f"{path} line {reader.line_num}: is not valid CSV: {error}"
        raise MalformedDataError(message) from error
    for number, row in rows:
        plain: dict[str, Any] = {name: value for name, value in row.items() if name and value}
        shape: dict[str, Any] = {name: plain.pop(name) for name in SHAPE_CELLS if name in plain}
        if "options" in plain:
            shape["options"] = plain.pop("options").split(LIST_SEPARATOR)
        if "range" in plain:
            shape["range"] = [_number_or_text(part) for part in plain.pop("range").split(LIST_SEPARATOR)]
        if "crowd" in plain:
            plain["crowd"] = {"probability": _number_or_text(plain["crowd"])}
        yield number, {**plain, **({"shape": shape} if shape else {})}


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            message = f"{path} line {number}: is not valid JSON: {error}"
            raise MalformedDataError(message) from error
        if not isinstance(row, dict):
            message = f"{path} line {number}: should be an object with a title"
            raise MalformedDataError(message)
        yield number, row


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _read_example(place: str, row: Mapping[str, Any], now: datetime) -> TrainingExample:
    given = dict(row)
    missing = [name for name in ("asked_at", "resolved_at", "outcome") if given.get(name) in (None, "")]
    if missing:
        message = f"{place}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        raise MalformedDataError(message)
    known_at, outcome = given.pop("resolved_at"), given.pop("outcome")
    given["as_of"] = given.pop("asked_at")
    table: QuestionTable = validate_question(place, given)
    try:
        question = table.question(QuestionRef(FILE_VENUE, table.key or title_to_key(table.title)), now=now)
        resolution = Resolution(
            ref=question.ref,
            target=question.targets[0].key,
            outcome=_parse_outcome(question, outcome),
            resolved_at=parse_moment(known_at),
        )
    except ValueError as error:
        message = f"{place}: {str(error).removeprefix(f'{FILE_VENUE}:')[:MAX_FAULT_CHARS]}"
        raise MalformedDataError(message) from error
    if question.as_of is None or not question.as_of < resolution.resolved_at <= now:
        message = f"{place}: resolved_at should be after asked_at and not in the future"
        raise MalformedDataError(message)
    return TrainingExample(question=question, resolution=resolution)


def _parse_outcome(question: Question, given: object) -> Outcome:
    """Return an outcome as the kind of question has it; raises ValueError that says what is possible."""
    text = str(given).strip()
    if text.casefold() in VOID_WORDS:
        return VoidOutcome(text)
    if isinstance(question.shape, ChoiceShape):
        if text not in question.shape.options:
            message = f"outcome: {text[:80]!r} is none of the options {', '.join(question.shape.options)}"
            raise ValueError(message)
        return ChoiceOutcome(text)
    if not isinstance(question.shape, BinaryShape):
        dated = question.shape.unit == "date"
        return NumericOutcome(parse_moment(given).timestamp() if dated else float(text))
    if text.casefold() in TRUE_WORDS | FALSE_WORDS:
        return BinaryOutcome(float(text.casefold() in TRUE_WORDS))
    value = _number_or_text(text)
    if isinstance(value, str) or not 0.0 <= value <= 1.0:
        message = f"outcome: should be yes, no, annulled or a number from 0 to 1, not {text[:80]!r}"
        raise ValueError(message)
    return BinaryOutcome(value)


def _read_venue_history(path: Path, text: str, registry: Registry, venue: str | None) -> Iterator[TrainingExample]:
    """Read the JSON of a venue's own API with the plugin of the venue."""
    readers = {spec.name: spec.read_history for spec in registry.venues if spec.read_history is not None}
    chosen = [read for name, read in readers.items() if venue in {None, name}]
    if len(chosen) != 1:
        message = (
            f"{path}: of the enabled venues, {', '.join(readers) or 'none'} can read resolved questions from JSON; "
            "name one with --venue"
        )
        raise ConfigError(message)
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"{path}: is not valid JSON: {error}"
        raise MalformedDataError(message) from error
    yield from chosen[0](raw)
