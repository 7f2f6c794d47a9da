"""Step-back prompting: derive the general principle, then solve with it (Zheng et al. 2024)."""

from palestra.agents.methods.method import Method

STEP_BACK = Method(
    name="step_back",
    description="I first derived the general principle, then applied it.",
    process="Step back: which general principle, rule or formula solves questions of this kind? State it only.",
    answer="Apply this principle to the question, then give the answer.",
)
