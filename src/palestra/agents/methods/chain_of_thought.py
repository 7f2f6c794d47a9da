"""Chain of thought: steps, then the answer (Kojima et al. 2022; Wei et al. 2022)."""

from palestra.agents.methods.method import Method

CHAIN_OF_THOUGHT = Method(
    name="cot",
    description="I reasoned step by step.",
    answer="Think step by step.",
)
