"""Least to most: list simpler sub-questions in order, then solve them up to the question (Zhou et al. 2023)."""

from palestra.agents.methods.method import Method

LEAST_TO_MOST = Method(
    name="l2m",
    description="I first listed simpler sub-questions, then solved them in order.",
    process="List the simpler questions to solve first, from easiest to hardest, ending with the question itself.",
    answer="Solve these in order, using earlier results in later ones, then give the answer.",
)
