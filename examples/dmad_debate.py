"""A debate of three reasoning methods, watched from inside: what each debater answers round by round, and what it costs.

Runs on the embedded model; name another one on the command line: `python dmad_debate.py openai/gpt-5`.
"""

import asyncio
import sys

import palestra as pl
from palestra.analysis.debate_simulation import SimulatedReasoner, problems


def team(model: str) -> pl.teams.Debate:
    """Chain of thought, step-back and program, each with worked examples, on one model."""
    lm = pl.model(model)
    how = {"sampling": pl.Sampling(temperature=0.3, max_tokens=32)}
    members = [
        make(lm, examples=pl.bench.worked_examples(name), **how)
        for name, make in (
            ("cot", pl.agents.chain_of_thought),
            ("step_back", pl.agents.step_back),
            ("pot", pl.agents.program),
        )
    ]
    return pl.teams.Debate(members, rounds=2, early_stop=True)


def blindspots(n: int = 300) -> dict[str, list[float]]:
    """Accuracy by round of simulated debaters: three methods, and three copies of one."""
    task, key = problems(n)
    debaters = [SimulatedReasoner(skill, key) for skill in range(3)]
    teams = {"three methods": pl.teams.Debate(debaters), "one method": pl.teams.MAD(debaters[0])}

    async def play(one: pl.teams.Debate) -> list[float]:
        right = [0, 0, 0]
        for seed, question in enumerate(task.items):
            seen = pl.Observation(text=question.question, legal=question.legal, info=question.info)
            info = (await one.fresh(seed).act(seen)).info
            right = [
                total + (answer == question.answer) for total, answer in zip(right, info["decisions"], strict=True)
            ]
        return [total / n for total in right]

    return {name: asyncio.run(play(one)) for name, one in teams.items()}


def main(model: str = "smollm2") -> None:
    """Show the mechanism on simulated debaters, then one real debate."""
    for name, curve in blindspots().items():
        print(f"{name:14}", " → ".join(f"{value:.2f}" for value in curve))

    question = pl.bench.arithmetic(1, seed=1).items[0]
    action = asyncio.run(team(model).act(pl.Observation(text=question.question, info=question.info)))
    print(f"\n{question.question}  (right: {question.answer})")
    for number, answers in enumerate(action.info["answers"], 1):
        print(f"round {number}:", dict(zip(action.info["agents"], answers, strict=True)))
    print(
        f"decided {action.text!r} after {action.info['calls']} calls, {action.info['calls_saved']} saved by consensus"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
