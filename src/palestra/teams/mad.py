"""MAD: multi-agent debate in which all debaters reason in the same way (Du et al. 2023), the baseline of DMAD."""

from __future__ import annotations

from typing import Any, Protocol

from palestra.core.errors import BadInput
from palestra.teams.debate import Debate
from palestra.teams.debater import Debater


class Named(Debater, Protocol):
    """A debater that can be copied under another name."""

    def named(self, name: str) -> Any: ...


def MAD(  # noqa: N802  (the name in the field)
    agent: Named, *, n: int = 3, rounds: int = 3, name: str | None = None, **settings: Any
) -> Debate:
    """A debate among `n` copies of `agent`, which differ by their seeds only.

    Args:
        agent: the debater to copy.
        n: how many, at least 2.
        rounds: at least 1.
        name: of the team; `mad_METHOD` when None.
        settings: further ones of `Debate`.
    """
    if n < 2:
        raise BadInput("n", n, "at least two debaters")
    copies = [agent.named(f"{agent.name}-{number}") for number in range(1, n + 1)]
    return Debate(copies, rounds=rounds, allow_duplicates=True, name=name or f"mad_{agent.method}", **settings)
