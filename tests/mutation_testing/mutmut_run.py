"""Starts mutmut in the working directory, without the mutations that the type checker and the tests of texts refuse.

Those change a text that people read, or put None in the place of a value or leave an argument out. The first
argument is the share of the mutants to test, always the same ones by a hash of their name; the others are mutmut's.
Short tests that run few of the changed functions come first, since those are the likeliest to notice at little cost,
and where one of them does, the others are not even collected.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from mutmut.mutation import mutators
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.workers.isolation import ForkRunner

_LEFT_OUT = {
    mutators.operator_arg_removal,
    mutators.operator_assignment,
    mutators.operator_dict_arguments,
    mutators.operator_lambda,
    mutators.operator_string,
}
# The tests of a mutant are run in batches with these bounds.
_BATCH_BOUNDS = (0, 10, 50, None)
# What a test costs beside its own time, in seconds.
_COST_PER_TEST_S = 0.02


def is_sampled(name: str, share: float) -> bool:
    """Return whether the mutant of that name is in the sample."""
    return int.from_bytes(sha256(name.encode()).digest()[:8]) < share * 2**64


def main() -> None:
    """Run the command of mutmut that the command line names, on a share of the mutants."""
    from mutmut import __main__ as program  # it sees the operators as they are then

    share, collect, run_tests = (
        float(sys.argv.pop(1)),
        program.collect_source_file_mutation_data,
        PytestRunner.run_tests,
    )

    def collect_sample(**chosen: Any) -> Any:
        mutants, by_path = collect(**chosen)
        return [one for one in mutants if is_sampled(one[1], share)], by_path

    def run_cheapest_first(self: PytestRunner, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        covered = Counter(test for names in state().tests_by_mangled_function_name.values() for test in names)

        def rank(test: str) -> tuple[float, str]:
            return covered[test] * (_COST_PER_TEST_S + state().duration_by_test.get(test, 0.0)), test

        ordered = sorted(tests, key=rank)
        # Without a choice of tests, all are run.
        batches = [ordered[start:end] for start, end in pairwise(_BATCH_BOUNDS) if ordered[start:end]] or [[]]
        codes = (run_tests(self, mutant_name=mutant_name, tests=batch) for batch in batches)
        return next((code for code in codes if code), 0)

    if not Path("mutants", "mutmut-stats.json").exists():
        # The tests are about to be run for the statistics, and the run ends where one fails.
        ForkRunner.run_clean_tests = lambda _, **__: 0  # type: ignore[method-assign]
    program.collect_source_file_mutation_data = collect_sample
    PytestRunner.run_tests = run_cheapest_first  # type: ignore[method-assign]
    operators = mutators.mutation_operators
    operators[:] = [entry for entry in operators if entry[1] not in _LEFT_OUT]  # type: ignore[index]
    sys.exit(program.cli())


if __name__ == "__main__":
    main()
