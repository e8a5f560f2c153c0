"""Ways to break the program, in the life that is told so and nowhere else; the campaign must notice each of them."""

from collections.abc import Mapping
from dataclasses import replace

from bot.store import writes
from tests.breaks import COMMON, Mutant, named, put
from tests.crash import desks


def _no_tag() -> None:
    put(writes, "_request", lambda *_: {"tag": "", "request": None, "fence": None})


def _paper_writes() -> None:
    for name, desk in desks.DESKS.items():
        desks.DESKS[name] = replace(desk, paper=desk.writer)


MUTANTS: Mapping[str, Mutant] = {
    **COMMON,
    **named(
        (
            ("no-tag", "requests are not kept with their attempts", _no_tag),
            ("paper-writes", "the paper book is the writer", _paper_writes),
        )
    ),
}
