"""The workload of the throughput measurements: one question, one recorded model call, one score an episode."""

from palestra.core import Action, Benchmark, Item, Observation
from palestra.models import Model


class Asker:
    """Asks the model once and answers with its reply."""

    name = "asker"

    def __init__(self, model: Model) -> None:
        self.model = model

    async def act(self, observation: Observation) -> Action:
        return Action(text=(await self.model.complete(observation.text)).text)


def agent(model: Model) -> Asker:
    return Asker(model)


def task(n: int = 5000) -> Benchmark:
    """`n` different questions; the scripted model echoes them, so every answer is right."""
    items = [Item(str(number), question(number), question(number)) for number in range(n)]
    return Benchmark("one-call", items, scorer=lambda item, action: float(action.text == item.answer))


def question(number: int) -> str:
    return f"Question {number}: say this sentence again, and nothing else."
