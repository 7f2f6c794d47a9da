"""A model of your own: an engine is anything with a name and `async complete(request)`.

Metering, budgets, seeds, recording, validation and replay come from `Model`; the engine only answers.
"""

from palestra.core import Completion, Message, Usage
from palestra.models import Model, Request


class Calculator:
    """An engine that adds the numbers in the last message."""

    name = "calculator"

    async def complete(self, request: Request) -> Completion:
        words = request.messages[-1].text.replace("+", " ").replace("=", " ").split()
        total = sum(int(word) for word in words if word.isdigit())
        usage = Usage(calls=1, input_tokens=len(words), output_tokens=1)
        return Completion(Message("assistant", str(total)), usage, model=self.name)


def model() -> Model:
    """The engine behind the face that agents use."""
    return Model(Calculator(), name="calculator")


if __name__ == "__main__":
    import asyncio

    print(asyncio.run(model().complete("17 + 25 =")).text)
