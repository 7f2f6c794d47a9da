"""Judges score answers or pick one; answer extraction and equivalence are what they and the benchmarks share."""

from palestra.judges.answers import KINDS, boxed, ending, extract, kind_of, number, option
from palestra.judges.equivalence import equivalent, normal_form
from palestra.judges.fence import fence
from palestra.judges.majority import Majority, majority, winners
from palestra.judges.pick_best import PickBest, pick_best

__all__ = [
    "KINDS", "Majority", "PickBest", "boxed", "ending", "equivalent", "extract", "fence", "kind_of", "majority",
    "normal_form", "number", "option", "pick_best", "winners",
]  # fmt: skip
