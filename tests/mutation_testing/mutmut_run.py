"""Starts mutmut in the working directory, without the mutations that the type checker and the tests of texts refuse.

Those change a text that people read, or put None in the place of a value or leave an argument out.
"""

import sys

from mutmut.mutation import mutators

_LEFT_OUT = {
    mutators.operator_arg_removal,
    mutators.operator_assignment,
    mutators.operator_dict_arguments,
    mutators.operator_lambda,
    mutators.operator_string,
}


def main() -> None:
    """Run the command of mutmut that the command line names."""
    from mutmut.__main__ import cli  # it sees the operators as they are then

    operators = mutators.mutation_operators
    operators[:] = [entry for entry in operators if entry[1] not in _LEFT_OUT]  # type: ignore[index]
    sys.exit(cli())


if __name__ == "__main__":
    main()
