"""Program of thoughts: the model writes a program, the sandbox executes it (Chen et al. 2023)."""

from palestra.agents.methods.method import Method

PROGRAM = Method(
    name="pot",
    description="I wrote a program and ran it.",
    process="Write a Python program that computes the answer and prints it. Reply with the program in one code block.",
    answer="Use this output to answer the question.",
    runs_program=True,
)
