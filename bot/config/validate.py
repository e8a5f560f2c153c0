"""Checks values against a model: what stands in a file must have the right type, what the environment says is text."""

import json
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from bot.config.problems import Problems
from bot.config.shape import known
from bot.config.sources import holds

M = TypeVar("M", bound=BaseModel)


def validate(
    model: type[M],
    values: Mapping[str, Any],
    *,
    written: Mapping[str, Any],
    problems: Problems,
    hidden: Collection[str] = (),
) -> M:
    """Return the model made of the values; ``written`` is the part of them that stands in a file.

    Validators find the folder of relative paths in their context. Raises ConfigError with a line for each fault.
    """
    context = {"folder": problems.sources.folder}
    try:
        # As JSON a list may still become a tuple and a text a path, but "16" no number: the file can say what it means.
        model.model_validate_json(json.dumps(written, default=str), strict=True, context=context)
    except ValidationError as error:
        problems.take(fault for fault in error.errors(include_url=False) if _is_mistyped(fault, model, written))
    try:
        checked = model.model_validate(values, context=context)
    except ValidationError as error:
        problems.take(error.errors(include_url=False))
        # Without its cause: a traceback would show what pydantic was given.
        raise problems.error(hidden) from None
    if problems:
        raise problems.error(hidden)
    return checked


def _is_mistyped(fault: ErrorDetails, model: type[BaseModel], written: Mapping[str, Any]) -> bool:
    """Leave out what the file does not say: its gaps may be filled by the environment, and defaults are no JSON."""
    return fault["type"].endswith("_type") and holds(written, known(model, fault["loc"]))
