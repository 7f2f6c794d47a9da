"""What a paper states, and what was measured here: cards, their claims, and the results a run reports."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from palestra.core.errors import BadInput
from palestra.core.records import EVIDENCE, Evidence, Scale


class PaperClaim(Struct, frozen=True, omit_defaults=True):
    """One checkable statement of the paper: `statement` in words, `paper` the figure it reports."""

    name: str
    statement: str
    paper: str


class Card(Struct, frozen=True, omit_defaults=True):
    """What a system is: enough to list it, to document it, and to know what its run will check."""

    slug: str
    title: str
    authors: str
    venue: str
    area: str
    summary: str
    claims: tuple[PaperClaim, ...]
    needs: tuple[str, ...] = ()  # extras of the package
    roles: tuple[str, ...] = ()  # of models, besides "default": each may have a model of its own
    link: str = ""

    def claim(self, name: str) -> PaperClaim:
        """The claim called `name`.

        Raises:
            BadInput: the card has no such claim.
        """
        for claim in self.claims:
            if claim.name == name:
                return claim
        raise BadInput("claim", name, choices=[claim.name for claim in self.claims])


class ClaimResult(Struct, frozen=True, omit_defaults=True):
    """A claim as measured by one run. `holds=None`: not shown at this scale."""

    name: str
    statement: str
    paper: str
    measured: Any
    holds: bool | None
    evidence: Evidence
    scale: Scale
    interval: tuple[float, float] | None = None
    note: str = ""
    details: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.evidence not in EVIDENCE:
            raise BadInput("evidence", self.evidence, choices=EVIDENCE)

    @property
    def verdict(self) -> str:
        """`holds`, `does not hold` or `not shown at this scale`."""
        return {True: "holds", False: "does not hold", None: "not shown at this scale"}[self.holds]

    @property
    def shown(self) -> str:
        """The measured value with its interval, as tables print it."""
        text = f"{self.measured:.4g}" if isinstance(self.measured, float) else str(self.measured)
        return text if self.interval is None else f"{text} [{self.interval[0]:.3g}, {self.interval[1]:.3g}]"
