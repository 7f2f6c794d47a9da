"""Benchmarks: generated tasks with exact answers, loaders for public data sets, scorers, record files."""

from palestra.bench.arithmetic import arithmetic, worked_examples
from palestra.bench.dmad_records import debate_record, method_record
from palestra.bench.files import read_rows
from palestra.bench.gpqa import load_gpqa
from palestra.bench.hendrycks_math import load_math
from palestra.bench.logic import logic
from palestra.bench.mmvet import load_mmvet
from palestra.bench.scienceqa import load_scienceqa
from palestra.bench.scorers import Graded, exact_option, mentions, same_answer

CATALOG = {  # by the names of the command line
    "arithmetic": arithmetic,
    "gpqa": load_gpqa,
    "logic": logic,
    "math": load_math,
    "mm-vet": load_mmvet,
    "scienceqa": load_scienceqa,
}

__all__ = [
    "CATALOG", "Graded", "arithmetic", "debate_record", "exact_option", "load_gpqa", "load_math", "load_mmvet",
    "load_scienceqa", "logic", "mentions", "method_record", "read_rows", "same_answer", "worked_examples",
]  # fmt: skip
