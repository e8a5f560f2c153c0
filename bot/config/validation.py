"""Validation of settings against their models.

Finds the keys that a model knows, and reports faults with key, place and remedy, and without secrets.
"""

import json
import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from bot.config.key_lines import KeyPath
from bot.config.sources import FILE_SUFFIX, ConfigSources, contains_key, variable_name
from bot.core.errors import ConfigError
from bot.core.plain_text import nearest_names, suggest_names
from bot.core.plugin_specs import PluginSettings

# The annotation of a field: a class, a generic, a union; these have no type in common.
Annotation: TypeAlias = object
# Renamed settings of the engine: the old key, with * for any name, and the new name of its last part. An old key is
# refused with the new name, and ``foxcast config upgrade`` rewrites it. Plugins use ``PluginSettings.renamed_keys``.
RENAMED_KEYS: Mapping[str, str] = {
    "daemon.attend_every_s": "requests_every_s",
    "desk": "research",
    "forecasters.*.least_trials": "min_trial_share",
    "limits.least_trials": "min_trial_share",
    "llm.health.gap": "belief_gap",
    "llm.health.half": "even_answers",
    "llm.health.least": "min_trials",
    "llm.providers.*.lost_again": "lost_retries",
    "venues.*.bankroll.least": "min_stake",
    "venues.*.caps.doubts": "unknown_writes",
    "venues.*.trading.stay_out_h": "cooldown_h",
}
_BY_PARTS = {tuple(old.split(".")): new for old, new in RENAMED_KEYS.items()}


def inner_annotation(annotation: Annotation, part: str | int) -> Annotation:
    """Return the annotation of one part inside another, None if there is no such part, Any if everything is allowed."""
    annotation = _unwrap_annotation(annotation)
    if annotation is Any:
        return Any
    if _is_model(annotation):
        field = annotation.model_fields.get(str(part))
        return None if field is None else field.annotation
    if _is_mapping(annotation):
        return get_args(annotation)[1]
    return get_args(annotation)[0] if isinstance(part, int) and get_args(annotation) else None


def field_names(annotation: Annotation) -> frozenset[str] | None:
    """Return the names that are valid directly inside the annotation: none in a plain value; None if all are valid."""
    annotation = _unwrap_annotation(annotation)
    if _is_model(annotation):
        return frozenset(annotation.model_fields)
    return None if annotation is Any or _is_mapping(annotation) else frozenset()


def is_table(annotation: Annotation) -> bool:
    """Return whether the annotation is a table: it holds other values by name."""
    annotation = _unwrap_annotation(annotation)
    return _is_model(annotation) or _is_mapping(annotation)


def annotation_at(model: type[BaseModel], key: KeyPath) -> Annotation:
    """Return the annotation of a key of the model, None for an unknown one."""
    annotation: Annotation = model
    for part in key:
        annotation = inner_annotation(annotation, part)
    return annotation


def known_key(model: type[BaseModel], key: KeyPath) -> KeyPath:
    """Return the known parts of a key and at most one unknown part, without those that name the branch of a union."""
    annotation: Annotation = model
    for end, part in enumerate(key):
        valid = field_names(annotation)
        if (
            valid is not None
            and part not in valid
            and (isinstance(part, str) or inner_annotation(annotation, part) is None)
        ):
            return key[: end + 1] if valid else key[:end]
        annotation = inner_annotation(annotation, part)
    return key


def current_key(key: KeyPath, models: Mapping[KeyPath, type[BaseModel]]) -> KeyPath:
    """Return the key with the new name of each part; ``models`` are the settings models of plugins by their key.

    Indexes of lists are ignored and may be left out.
    """
    current: KeyPath = ()
    for part in key:
        current = (*current, part if isinstance(part, int) else _current_name((*current, part), models))
    return current


def _current_name(key: KeyPath, models: Mapping[KeyPath, type[BaseModel]]) -> str:
    *parents, name = [str(part) for part in key if not isinstance(part, int)]
    under = next((under for under in models if list(under) == parents[: len(under)]), None)
    if under is None:
        return _renamed_engine_key((*parents, name)) or name
    owner: Annotation = models[under]
    for part in parents[len(under) :]:
        owner = _unwrap_entries(inner_annotation(owner, part))
    renamed = owner.renamed_keys if isinstance(owner, type) and issubclass(owner, PluginSettings) else {}
    return renamed.get(name, name)


def _renamed_engine_key(key: tuple[str | int, ...]) -> str | None:
    """Return the new name of the last part of an old key; None for a key that was not renamed."""
    names = (new for old, new in _BY_PARTS.items() if len(old) == len(key) and _matches_pattern(old, key))
    return next(names, None)


def _matches_pattern(old: tuple[str, ...], key: tuple[str | int, ...]) -> bool:
    return all(part in ("*", other) for part, other in zip(old, key, strict=True))


def _unwrap_entries(annotation: Annotation) -> Annotation:
    """Return the annotation of the entries of a list, also of nested lists; any other annotation unwrapped."""
    annotation = _unwrap_annotation(annotation)
    if _is_model(annotation) or _is_mapping(annotation) or not get_args(annotation):
        return annotation
    return _unwrap_entries(get_args(annotation)[0])


def leaf_keys(annotation: Annotation, like: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the keys of all plain values; a table that allows any key gets the name in that place of ``like``."""
    valid = field_names(annotation)
    if valid is None:
        valid = frozenset(part for part in like[:1] if isinstance(part, str))
    elif not valid:
        yield ()
    for name in sorted(valid):
        yield from ((name, *key) for key in leaf_keys(inner_annotation(annotation, name), like[1:]))


def find_secrets(annotation: Annotation, value: object, key: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield key and value of every part of the raw value that is secret by the annotation."""
    if is_secret(annotation):
        yield key, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from find_secrets(inner_annotation(annotation, name), part, (*key, name))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from find_secrets(inner_annotation(annotation, index), part, (*key, index))


def may_hold_secrets(annotation: Annotation) -> bool:
    """Return whether the annotation may contain a secret, at any depth."""
    annotation = _unwrap_annotation(annotation)
    if is_secret(annotation):
        return True
    if _is_model(annotation):
        return any(may_hold_secrets(field.annotation) for field in annotation.model_fields.values())
    return any(may_hold_secrets(part) for part in get_args(annotation))


def is_secret(annotation: Annotation) -> bool:
    """Return whether the annotation is a secret, or a union with one."""
    if get_origin(annotation) is Annotated or _is_union(annotation):
        return any(is_secret(member) for member in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, SecretStr | SecretBytes)


def _unwrap_annotation(annotation: Annotation) -> Annotation:
    """Return the annotation inside ``Annotated``, and of a union such as ``Auth | None`` the branch that has parts."""
    if get_origin(annotation) is Annotated:
        return _unwrap_annotation(get_args(annotation)[0])
    if not _is_union(annotation):
        return annotation
    members = [_unwrap_annotation(member) for member in get_args(annotation)]
    return next((member for member in members if _is_model(member) or isinstance(get_origin(member), type)), members[0])


def _is_union(annotation: Annotation) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _is_model(annotation: Annotation) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_mapping(annotation: Annotation) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)


TYPE_NAMES: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
}
# Replaces messages of pydantic that use terms of Python instead of TOML.
FAULT_TEXTS: Mapping[str, str] = {
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "mapping_type": "should be a table",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "path_type": "should be text",
    "string_type": "should be text",
    "too_short": "has too few entries",
}


class ConfigFaults:
    """Collects the faults in the values of one model; ``under`` is the key of the model."""

    def __init__(self, model: type[BaseModel], sources: ConfigSources, under: KeyPath = ()) -> None:
        """Begin with no fault."""
        self.model = model
        self.sources = sources
        self.under = under
        self._found: dict[KeyPath, list[str]] = {}

    def add(self, key: KeyPath, text: str) -> None:
        """Add a fault of a key of the model."""
        self._found.setdefault(key, []).append(text)

    def add_pydantic_errors(self, faults: Iterable[ErrorDetails]) -> None:
        """Add the faults that pydantic found in keys that have none yet."""
        earlier_keys = set(self._found)
        for fault in faults:
            # The location of a fault in a key itself ends with this mark.
            loc = fault["loc"][:-1] if fault["loc"][-1:] == ("[key]",) else fault["loc"]
            key = known_key(self.model, loc)
            if key not in earlier_keys and (text := self._text(key, fault)) not in self._found.get(key, ()):
                self.add(key, text)

    def remedy(self, key: KeyPath) -> str:
        """Return how to set the key."""
        variable = variable_name((*self.under, *key))
        if is_secret(annotation_at(self.model, key)):
            return f"set {variable}, or {key[-1]}{FILE_SUFFIX} to a file that only you can read"
        return f"write it into config.toml or set {variable}"

    def __bool__(self) -> bool:
        return bool(self._found)

    def to_error(self, hidden: Collection[str] = ()) -> ConfigError:
        """Return the error to raise, one line per key; hidden texts that a validator repeats are masked."""
        return ConfigError("\n".join(self._lines(hidden)))

    def _lines(self, hidden: Collection[str]) -> Iterator[str]:
        for key, texts in self._found.items():
            full = (*self.under, *key)
            line = ": ".join(filter(None, (self.sources.fault_place(full), dotted_key(full), " or ".join(texts))))
            for secret in filter(None, hidden):
                line = line.replace(secret, "***")
            yield line

    def _renamed_text(self, key: KeyPath) -> str | None:
        full = (*self.under, *key)
        current = current_key(full, {self.under: self.model} if self.under else {})
        if current == full:
            return None
        file = self.sources.document.path or "FILE"
        return f"is now {current[-1]}; `foxcast config upgrade {file}` rewrites the file"

    def _text(self, key: KeyPath, fault: ErrorDetails) -> str:
        kind, plain = fault["type"], _plain_message(fault["msg"])
        if kind == "extra_forbidden":
            if renamed := self._renamed_text(key):
                return renamed
            known = field_names(annotation_at(self.model, key[:-1])) or ()
            return f"there is no such key; {suggest_names(str(key[-1]), known)}"
        if kind == "missing":
            return f"is missing; {self.remedy(key)}"
        if kind in ("enum", "literal_error"):
            close = nearest_names(str(fault["input"]), re.findall(r"'([^']*)'", str(fault["ctx"]["expected"])))
            return plain + (f"; did you mean {close[0]}?" if close else "")
        if kind.endswith(("_type", "_parsing", "_from_float")):
            return f"{FAULT_TEXTS.get(kind, plain)} (found {TYPE_NAMES.get(type(fault['input']), 'a table')})"
        return FAULT_TEXTS.get(kind, plain)


def dotted_key(key: KeyPath) -> str:
    """Return the key as it is written: ``venues.lantern.forecasters[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def _plain_message(message: str) -> str:
    """Return the message of pydantic without its subject and its details."""
    subject, should, rest = message.partition(" should ")
    # A text before a colon is not the subject but a place in another file, which the operator needs.
    if should and ": " not in f"{subject} ":
        return f"should {rest}".partition(", unable")[0]
    return message.removeprefix("Value error, ")


ModelT = TypeVar("ModelT", bound=BaseModel)


def validate_settings(
    model: type[ModelT],
    values: Mapping[str, Any],
    *,
    written: Mapping[str, Any],
    problems: ConfigFaults,
    hidden: Collection[str] = (),
) -> ModelT:
    """Return the model made of the values; ``written`` is the part of them that is in a file.

    Validators find the folder for relative paths in their context. Raises ConfigError with a line for each fault.
    """
    context = {"folder": problems.sources.folder}
    try:
        # Strict validation as JSON: a list may become a tuple and a text a path, but "16" does not become a number.
        model.model_validate_json(json.dumps(written, default=str), strict=True, context=context)
    except ValidationError as error:
        problems.add_pydantic_errors(
            fault for fault in error.errors(include_url=False) if _is_mistyped(fault, model, written)
        )
    try:
        checked = model.model_validate(values, context=context)
    except ValidationError as error:
        problems.add_pydantic_errors(error.errors(include_url=False))
        # Without the cause: a traceback would show the input of pydantic.
        raise problems.to_error(hidden) from None
    if problems:
        raise problems.to_error(hidden)
    return checked


def _is_mistyped(fault: ErrorDetails, model: type[BaseModel], written: Mapping[str, Any]) -> bool:
    """Return whether a value of the file has the wrong type; other keys come from the environment or from defaults."""
    return fault["type"].endswith("_type") and contains_key(written, known_key(model, fault["loc"]))
