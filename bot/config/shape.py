"""What keys a settings model knows: for unknown names, for the nearest valid one, and for which values are secret."""

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeAlias, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr

from bot.config.document import Key

# What stands after the colon of a field: a class, a generic, a union; these have no type in common.
Annotation: TypeAlias = object


def inner(annotation: Annotation, part: str | int) -> Annotation:
    """Return the annotation of one part inside another, None where there is no such part, Any where all is allowed."""
    annotation = _branch(annotation)
    if annotation is Any:
        return Any
    if _is_model(annotation):
        field = annotation.model_fields.get(str(part))
        return None if field is None else field.annotation
    if _is_mapping(annotation):
        return get_args(annotation)[1]
    return get_args(annotation)[0] if isinstance(part, int) and get_args(annotation) else None


def names(annotation: Annotation) -> frozenset[str] | None:
    """Return the names valid directly inside the annotation: none in a plain value, None where every name is."""
    annotation = _branch(annotation)
    if _is_model(annotation):
        return frozenset(annotation.model_fields)
    return None if annotation is Any or _is_mapping(annotation) else frozenset()


def is_table(annotation: Annotation) -> bool:
    """Tell whether the annotation holds other values by name."""
    annotation = _branch(annotation)
    return _is_model(annotation) or _is_mapping(annotation)


def at(model: type[BaseModel], key: Key) -> Annotation:
    """Return the annotation of a key of the model, None for an unknown one."""
    annotation: Annotation = model
    for part in key:
        annotation = inner(annotation, part)
    return annotation


def known(model: type[BaseModel], key: Key) -> Key:
    """Return the key as far as the model knows it, with one unknown part at most; drops what names a union's branch."""
    annotation: Annotation = model
    for end, part in enumerate(key):
        valid = names(annotation)
        if valid is not None and part not in valid and (isinstance(part, str) or inner(annotation, part) is None):
            return key[: end + 1] if valid else key[:end]
        annotation = inner(annotation, part)
    return key


def leaves(annotation: Annotation, like: Key = ()) -> Iterator[Key]:
    """Yield the keys of all plain values; tables of any name take the name that the given key has in that place."""
    valid = names(annotation)
    if valid is None:
        valid = frozenset(part for part in like[:1] if isinstance(part, str))
    elif not valid:
        yield ()
    for name in sorted(valid):
        yield from ((name, *key) for key in leaves(inner(annotation, name), like[1:]))


def secrets(annotation: Annotation, value: object, key: Key = ()) -> Iterator[tuple[Key, object]]:
    """Yield key and value of every part of the raw value that the annotation keeps secret."""
    if is_secret(annotation):
        yield key, value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from secrets(inner(annotation, name), part, (*key, name))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from secrets(inner(annotation, index), part, (*key, index))


def may_hold_secrets(annotation: Annotation) -> bool:
    """Tell whether a secret may stand in the annotation, however deep."""
    annotation = _branch(annotation)
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


def _branch(annotation: Annotation) -> Annotation:
    """Return what is inside ``Annotated``, and the branch of a union that can be looked into, as of ``Auth | None``."""
    if get_origin(annotation) is Annotated:
        return _branch(get_args(annotation)[0])
    if not _is_union(annotation):
        return annotation
    members = [_branch(member) for member in get_args(annotation)]
    return next((member for member in members if _is_model(member) or isinstance(get_origin(member), type)), members[0])


def _is_union(annotation: Annotation) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _is_model(annotation: Annotation) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_mapping(annotation: Annotation) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)
