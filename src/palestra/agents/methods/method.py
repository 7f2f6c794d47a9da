"""A reasoning method: what a model is told to do before it answers, and how (DMAD, Sec. 3 and App. A)."""

from __future__ import annotations

from msgspec import Struct


class Method(Struct, frozen=True):
    """One way to reason about a question. The wording is ours; the structure is the cited paper's.

    Attributes:
        name: short name, as records show it.
        description: the method in one sentence, first person, as stored messages tell it.
        answer: the instruction of the call that answers.
        process: the instruction of a call before it, which produces the solving process; None: one call does both.
        shows_work: whether the answering reply is itself the process (methods of one call).
        runs_program: the process is a program to execute; the answering call sees what it printed.
        needs_image: refuse a question without an image.
    """

    name: str
    description: str
    answer: str
    process: str | None = None
    shows_work: bool = True
    runs_program: bool = False
    needs_image: bool = False

    @property
    def calls(self) -> int:
        """Model calls of one turn."""
        return 1 if self.process is None else 2


class Example(Struct, frozen=True):
    """A worked example, shown as an earlier exchange. Small models follow examples, not instructions.

    `process` is the reply of the process call (for programs: the code), `output` what the program printed, `reply` the
    answering reply.
    """

    question: str
    reply: str
    process: str = ""
    output: str = ""
