"""The four together: own model, agent, task and environment in two studies, with a budget and the results as tables."""

from own_agent import Asker, Halver
from own_environment import task
from own_model import model
from own_task import sums

import palestra as pl


def main() -> None:
    answers = pl.evaluate(Asker(model()), sums, seeds=2, budget=pl.Budget(calls=1000))
    print(answers)  # score with its interval, tokens, cost and time by agent
    print(answers.frame()[["task", "seed", "score", "length"]].head())

    games = pl.evaluate(Halver(), task, seeds=20)
    print(games)
    print("guesses on average:", games.frame()["guesses"].mean())


if __name__ == "__main__":
    main()
