"""Starts mutmut in the working directory, without the mutations that the type checker and the tests of texts refuse.

Those change a text that people read, or put None in the place of a value or leave an argument out. The first
argument is the share of the mutants to test, always the same ones by a hash of their name; the others are mutmut's. The
tests that run the fewest of the changed functions come first, since those are the likeliest to notice.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from mutmut.mutation import mutators
from mutmut.runners.harness import PytestRunner
from mutmut.state import state

_LEFT_OUT = {
    mutators.operator_arg_removal,
    mutators.operator_assignment,
    mutators.operator_dict_arguments,
    mutators.operator_lambda,
    mutators.operator_string,
}


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

    def run_closest_first(self: PytestRunner, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        covered = Counter(test for names in state().tests_by_mangled_function_name.values() for test in names)
        ordered = sorted(tests, key=lambda test: (covered[test], state().duration_by_test.get(test, 0.0), test))
        return run_tests(self, mutant_name=mutant_name, tests=ordered)

    program.collect_source_file_mutation_data = collect_sample
    PytestRunner.run_tests = run_closest_first  # type: ignore[method-assign]
    operators = mutators.mutation_operators
    operators[:] = [entry for entry in operators if entry[1] not in _LEFT_OUT]  # type: ignore[index]
    sys.exit(program.cli())


if __name__ == "__main__":
    main()
