"""Input-output: the model answers directly."""

from palestra.agents.methods.method import Method

IO = Method(
    name="io",
    description="I answered directly.",
    answer="Give the answer directly, without explanation.",
    shows_work=False,
)
