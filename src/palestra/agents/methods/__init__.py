"""The reasoning methods, one file each, by their short names."""

from palestra.agents.methods.ccot import CCOT
from palestra.agents.methods.chain_of_thought import CHAIN_OF_THOUGHT
from palestra.agents.methods.ddcot import DDCOT
from palestra.agents.methods.io import IO
from palestra.agents.methods.least_to_most import LEAST_TO_MOST
from palestra.agents.methods.method import Example, Method
from palestra.agents.methods.program import PROGRAM
from palestra.agents.methods.step_back import STEP_BACK
from palestra.core.errors import BadInput

METHODS: dict[str, Method] = {
    one.name: one for one in (IO, CHAIN_OF_THOUGHT, STEP_BACK, PROGRAM, CCOT, DDCOT, LEAST_TO_MOST)
}

__all__ = [
    "CCOT", "CHAIN_OF_THOUGHT", "DDCOT", "IO", "LEAST_TO_MOST", "METHODS", "PROGRAM", "STEP_BACK", "Example", "Method",
    "method",
]  # fmt: skip


def method(name: str) -> Method:
    """The method called `name`.

    Raises:
        BadInput: there is none.

    >>> method("step_back").calls
    2
    """
    if name not in METHODS:
        raise BadInput("method", name, choices=METHODS)
    return METHODS[name]
