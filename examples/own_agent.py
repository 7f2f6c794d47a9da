"""An agent of your own: anything with a name and `async act(observation)`.

An agent that remembers also has `fresh(seed)`, which returns a copy for one episode with its own memory.
"""

from palestra.core import Action, LanguageModel, Message, Observation, scope


class Asker:
    """Answers with what the model replies."""

    name = "asker"

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    async def act(self, observation: Observation) -> Action:
        with scope(stage="answer"):  # calls, tokens and cost are reported by agent, role and stage
            reply = await self.model.complete([Message("user", observation.text)])
        return Action(text=reply.message.text.strip())


class Halver:
    """Finds a number by halving what is left; it remembers, so every episode gets a fresh copy."""

    name = "halver"

    def __init__(self, low: int = 1, high: int = 100) -> None:
        self.low, self.high, self.last = low, high, 0

    def fresh(self, seed: int) -> "Halver":
        return Halver(self.low, self.high)

    async def act(self, observation: Observation) -> Action:
        if observation.text.startswith("higher"):
            self.low = self.last + 1
        elif observation.text.startswith("lower"):
            self.high = self.last - 1
        self.last = (self.low + self.high) // 2
        return Action(text=str(self.last))
