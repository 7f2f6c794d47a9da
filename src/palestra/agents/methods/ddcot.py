"""Duty-distinct chain of thought: sub-questions with sub-answers, then the answer (Zheng et al. 2023). Needs an image."""

from palestra.agents.methods.method import Method

DDCOT = Method(
    name="ddcot",
    description="I first split the question into sub-questions and answered each.",
    process=(
        "Split the question into the sub-questions one must settle to answer it. Answer each from general knowledge "
        "where you can, from the image where you must, and write 'uncertain' where neither tells."
    ),
    answer="Use the image and the sub-answers to answer the question; do not trust sub-answers the image contradicts.",
    needs_image=True,
)
