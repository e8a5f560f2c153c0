"""The one table of exit codes."""

from collections.abc import Iterator

import pytest

from bot.cli.command_exit import ERROR_EXIT_CODES, EXIT_CODE_MEANINGS, ExitCode, exit_code, exit_code_help
from bot.core import errors


def family(kind: type[errors.FoxcastError]) -> Iterator[type[errors.FoxcastError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from family(child)


OURS = [kind for kind in family(errors.FoxcastError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", [kind for kind in OURS if kind is not errors.FoxcastError])
def test_every_error_of_the_tree_has_a_code_of_its_own_or_of_its_parent(kind: type[errors.FoxcastError]) -> None:
    assert any(issubclass(kind, known) for known, _ in ERROR_EXIT_CODES)
    assert ExitCode.DONE not in {code for _, code in ERROR_EXIT_CODES}


def test_a_subclass_is_not_hidden_by_its_parent() -> None:
    assert exit_code(errors.StateFolderLockedError("why")) is ExitCode.RUNNING
    assert exit_code(errors.StoreError("why")) is ExitCode.STORE
    kinds = [kind for kind, _ in ERROR_EXIT_CODES]
    assert not [kind for index, kind in enumerate(kinds) if issubclass(kind, tuple(kinds[:index]))]


def test_every_code_is_explained() -> None:
    assert EXIT_CODE_MEANINGS.keys() == {*ExitCode}
    assert all(f"{code.value} {meaning}" in exit_code_help() for code, meaning in EXIT_CODE_MEANINGS.items())


def test_what_is_none_of_our_kinds_has_failed() -> None:
    assert exit_code(errors.FoxcastError("why")) is ExitCode.FAILED
