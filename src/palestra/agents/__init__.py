"""Agents: what acts. Reasoning methods, the ReAct loop, and the worked examples they are shown."""

from palestra.agents.catalog import CATALOG
from palestra.agents.methods import METHODS, Example, Method, method
from palestra.agents.react import ReAct, react
from palestra.agents.reasoner import (
    Reasoner,
    ccot,
    chain_of_thought,
    ddcot,
    io,
    least_to_most,
    program,
    step_back,
)

__all__ = [
    "CATALOG", "METHODS", "Example", "Method", "ReAct", "Reasoner", "ccot", "chain_of_thought", "ddcot", "io", "least_to_most",
    "method", "program", "react", "step_back",
]  # fmt: skip
