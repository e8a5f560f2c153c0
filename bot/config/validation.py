"""Validation of settings against their models.

Which keys a model knows, faults as lines that name key, place and remedy, and never a secret.
"""

import json
import re
import types
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr, ValidationError
from pydantic_core import ErrorDetails

from bot.config.renamed_keys import renamed_engine_key
from bot.config.sources import FILE_SUFFIX, ConfigSources, KeyPath, contains_key, variable_name
from bot.core.errors import ConfigError
from bot.core.nearest_names import nearest_names, suggest_names
from bot.core.plugin_specs import PluginSettings

# What stands after the colon of a field: a class, a generic, a union; these have no type in common.
Annotation: TypeAlias = object


def inner_annotation(annotation: Annotation, part: str | int) -> Annotation:
    """Return the annotation of one part inside another, None where there is no such part, Any where all is allowed."""
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
    """Return the names valid directly inside the annotation: none in a plain value, None where every name is."""
    annotation = _unwrap_annotation(annotation)
    if _is_model(annotation):
        return frozenset(annotation.model_fields)
    return None if annotation is Any or _is_mapping(annotation) else frozenset()


def is_table(annotation: Annotation) -> bool:
    """Tell whether the annotation holds other values by name."""
    annotation = _unwrap_annotation(annotation)
    return _is_model(annotation) or _is_mapping(annotation)


def annotation_at(model: type[BaseModel], key: KeyPath) -> Annotation:
    """Return the annotation of a key of the model, None for an unknown one."""
    annotation: Annotation = model
    for part in key:
        annotation = inner_annotation(annotation, part)
    return annotation


def known_key(model: type[BaseModel], key: KeyPath) -> KeyPath:
    """Return the key as far as the model knows it, with one unknown part at most; drops what names a union's branch."""
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
    """Return the key with each part as it is called now; ``models`` are those of plugins' settings by their key.

    The places of entries in lists make no difference and may be left out.
    """
    current: KeyPath = ()
    for part in key:
        current = (*current, part if isinstance(part, int) else _current_name((*current, part), models))
    return current


def _current_name(key: KeyPath, models: Mapping[KeyPath, type[BaseModel]]) -> str:
    *around, name = [str(part) for part in key if not isinstance(part, int)]
    under = next((under for under in models if list(under) == around[: len(under)]), None)
    if under is None:
        return renamed_engine_key((*around, name)) or name
    owner: Annotation = models[under]
    for part in around[len(under) :]:
        owner = _unwrap_entries(inner_annotation(owner, part))
    renamed = owner.renamed_keys if isinstance(owner, type) and issubclass(owner, PluginSettings) else {}
    return renamed.get(name, name)


def _unwrap_entries(annotation: Annotation) -> Annotation:
    """Return the annotation of the entries of a list, however deep; another annotation without what is around it."""
    annotation = _unwrap_annotation(annotation)
    if _is_model(annotation) or _is_mapping(annotation) or not get_args(annotation):
        return annotation
    return _unwrap_entries(get_args(annotation)[0])


def leaf_keys(annotation: Annotation, like: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the keys of all plain values; tables of any name take the name that the given key has in that place."""
    valid = field_names(annotation)
    if valid is None:
        valid = frozenset(part for part in like[:1] if isinstance(part, str))
    elif not valid:
        yield ()
    for name in sorted(valid):
        yield from ((name, *key) for key in leaf_keys(inner_annotation(annotation, name), like[1:]))


def find_secrets(annotation: Annotation, value: object, key: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield key and value of every part of the raw value that the annotation keeps secret."""
    if is_secret(annotation):
        yield key, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from find_secrets(inner_annotation(annotation, name), part, (*key, name))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from find_secrets(inner_annotation(annotation, index), part, (*key, index))


def may_hold_secrets(annotation: Annotation) -> bool:
    """Tell whether a secret may stand in the annotation, however deep."""
    annotation = _unwrap_annotation(annotation)
    if is_secret(annotation):
        return True
    if _is_model(annotation):
        return any(may_hold_secrets(field.annotation) for field in annotation.model_fields.values())
    return any(may_hold_secrets(part) for part in get_args(annotation))


def is_secret(annotation: Annotation) -> bool:
    """Tell whether the annotation is a secret, or may be one."""
    if get_origin(annotation) is Annotated or _is_union(annotation):
        return any(is_secret(member) for member in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, SecretStr | SecretBytes)


def _unwrap_annotation(annotation: Annotation) -> Annotation:
    """Return what is inside ``Annotated``, and the branch of a union that can be looked into, as of ``Auth | None``."""
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


# Where pydantic speaks of Python rather than of what stands in a file.
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
    """Collects what is wrong with the values of one model that stands under a key; the first fault of a key counts."""

    def __init__(self, model: type[BaseModel], sources: ConfigSources, under: KeyPath = ()) -> None:
        """Begin with no fault."""
        self.model = model
        self.sources = sources
        self.under = under
        self._found: dict[KeyPath, list[str]] = {}

    def add(self, key: KeyPath, text: str) -> None:
        """Note a fault of a key of the model."""
        self._found.setdefault(key, []).append(text)

    def add_pydantic_errors(self, faults: Iterable[ErrorDetails]) -> None:
        """Note the faults that pydantic found in keys without one so far."""
        before = set(self._found)
        for fault in faults:
            # A fault of a name itself ends in this mark.
            loc = fault["loc"][:-1] if fault["loc"][-1:] == ("[key]",) else fault["loc"]
            key = known_key(self.model, loc)
            if key not in before and (text := self._text(key, fault)) not in self._found.get(key, ()):
                self.add(key, text)

    def remedy(self, key: KeyPath) -> str:
        """Say where a value of the key belongs."""
        variable = variable_name((*self.under, *key))
        if is_secret(annotation_at(self.model, key)):
            return f"set {variable}, or {key[-1]}{FILE_SUFFIX} to a file that only you can read"
        return f"write it into config.toml or set {variable}"

    def __bool__(self) -> bool:
        return bool(self._found)

    def to_error(self, hidden: Collection[str] = ()) -> ConfigError:
        """Return the error to raise, one line per key; hidden texts are masked wherever a validator repeats them."""
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
    """Return the key as one writes it: ``venues.lantern.forecasters[0]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def _plain_message(message: str) -> str:
    """Return pydantic's text without its own subject and its account of how it tried."""
    subject, should, rest = message.partition(" should ")
    # Before a colon stands no subject but the place in another file, which whoever mends it needs.
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
    """Return the model made of the values; ``written`` is the part of them that stands in a file.

    Validators find the folder of relative paths in their context. Raises ConfigError with a line for each fault.
    """
    context = {"folder": problems.sources.folder}
    try:
        # As JSON a list may still become a tuple and a text a path, but "16" no number: the file can say what it means.
        model.model_validate_json(json.dumps(written, default=str), strict=True, context=context)
    except ValidationError as error:
        problems.add_pydantic_errors(
            fault for fault in error.errors(include_url=False) if _is_mistyped(fault, model, written)
        )
    try:
        checked = model.model_validate(values, context=context)
    except ValidationError as error:
        problems.add_pydantic_errors(error.errors(include_url=False))
        # Without its cause: a traceback would show what pydantic was given.
        raise problems.to_error(hidden) from None
    if problems:
        raise problems.to_error(hidden)
    return checked


def _is_mistyped(fault: ErrorDetails, model: type[BaseModel], written: Mapping[str, Any]) -> bool:
    """Leave out what the file does not say: its gaps may be filled by the environment, and defaults are no JSON."""
    return fault["type"].endswith("_type") and contains_key(written, known_key(model, fault["loc"]))
