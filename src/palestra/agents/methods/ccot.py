"""Compositional chain of thought: a scene graph in JSON, then the answer (Mitra et al. 2024). Needs an image."""

from palestra.agents.methods.method import Method

CCOT = Method(
    name="ccot",
    description="I first wrote a scene graph of the image, then answered with it.",
    process=(
        "Describe what in the image matters for the question as a scene graph in JSON with three keys: "
        '"objects", "attributes" of the objects, and "relations" between them.'
    ),
    answer="Use the image and the scene graph to answer the question.",
    needs_image=True,
)
