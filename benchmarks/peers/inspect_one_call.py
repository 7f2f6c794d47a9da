"""The same workload for inspect-ai with its mock model."""

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


@task
def one_call(n: int = 5000) -> Task:
    samples = [
        Sample(id=number, input=f"Question {number}: say this sentence again, and nothing else.", target="Default")
        for number in range(n)
    ]
    return Task(dataset=MemoryDataset(samples), solver=generate(), scorer=includes())
