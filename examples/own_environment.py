"""An environment of your own: the names of its agents, `async reset(seed)` and `async step(actions)`.

Any number of agents: return one observation for a single agent, or one by the name of each agent that acts next.
"""

import random
from collections.abc import Mapping

from palestra.core import Action, EnvironmentTask, Observation


class GuessTheNumber:
    """The agent looks for a number from 1 to 100 and is told `higher` or `lower`."""

    agents = ("guesser",)

    async def reset(self, seed: int) -> Observation:
        self.secret, self.guesses = random.Random(seed).randint(1, 100), 0
        return Observation("Guess my number, from 1 to 100.")

    async def step(self, actions: Mapping[str, Action]) -> Observation:
        self.guesses += 1
        text = actions["guesser"].text.strip()
        guess = int(text) if text.isdigit() else 0
        if guess == self.secret:
            return Observation("found", reward=1.0, terminated=True)
        hint = "higher" if guess < self.secret else "lower"
        return Observation(f"{hint} than {guess}", truncated=self.guesses >= 20)

    def metrics(self) -> dict[str, float]:
        return {"guesses": float(self.guesses)}


task = EnvironmentTask("guess-the-number", GuessTheNumber)
