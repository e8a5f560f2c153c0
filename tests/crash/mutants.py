"""Ways to break the program, only in the processes that are started so; the campaign must notice each of them."""

from collections.abc import Mapping
from dataclasses import replace

from bot.store import submission_attempts
from tests.crash import venue_clients
from tests.mutations import COMMON_MUTANTS, ProgramMutant, mutants_by_name, replace_attribute


def _no_tag() -> None:
    replace_attribute(submission_attempts, "_request_columns", lambda *_: {"tag": "", "request": None, "fence": None})


def _paper_writes() -> None:
    for name, clients in venue_clients.VENUE_CLIENTS.items():
        venue_clients.VENUE_CLIENTS[name] = replace(clients, paper=clients.writer)


MUTANTS: Mapping[str, ProgramMutant] = {
    **COMMON_MUTANTS,
    **mutants_by_name(
        (
            ("no-tag", "requests are not kept with their attempts", _no_tag),
            ("paper-writes", "the paper book is the writer", _paper_writes),
        )
    ),
}
