"""Studies, executors, resume and progress: from a recipe to episodes on disk."""

from palestra.runner.executors import Executor, Local, Processes
from palestra.runner.outcome import Outcome, claims_table
from palestra.runner.progress import Display, Lines, Rich, Silent
from palestra.runner.result import Result, Summary
from palestra.runner.run import Run
from palestra.runner.study import Job, Limits, Retry, Study

__all__ = [
    "Display", "Executor", "Job", "Limits", "Lines", "Local", "Outcome", "Processes", "Result", "Retry", "Rich", "Run", "Silent",
    "Study", "Summary", "claims_table",
]  # fmt: skip
