"""The error model reproduces the figures of the sheet, vectorised and through the real debate."""

import numpy as np
import pytest

from palestra.analysis.debate_simulation import Blindspots, SimulatedReasoner, problems, simulate
from palestra.core.errors import BadInput
from palestra.core.records import Observation
from palestra.teams import MAD, Debate

ERROR = 0.0035 * 3  # three standard errors of a share of 20,000


def rates(methods, **options):
    return simulate(methods, rng=np.random.default_rng(7), problems=20_000, **options).mean(axis=1)


def test_diverse_methods_reach_the_known_accuracies():
    assert rates([0, 1, 2]) == pytest.approx([0.574, 0.779, 0.818], abs=ERROR)
    assert rates([1, 1, 1]) == pytest.approx([0.53, 0.668, 0.69], abs=ERROR)


def test_diverse_debate_leads_by_eight_points_and_a_round():
    diverse, same = rates([0, 1, 2]), max(rates([k, k, k])[-1] for k in range(3))
    assert diverse[-1] - same >= 0.08
    assert diverse[1] > same


def test_without_exchange_or_skill_differences_nothing_moves():
    still = rates([0, 1, 2], model=Blindspots(convert=0, adopt=0))
    assert still == pytest.approx([still[0]] * 3, abs=ERROR)
    assert rates([0, 1], model=Blindspots(own=1, other=1, adopt=0)).tolist() == [1, 1, 1]
    assert rates([0, 0], model=Blindspots(own=0, other=0)).tolist() == [0, 0, 0]


async def through_the_debate(team, task, key):
    right = np.zeros(3)
    for seed, one in enumerate(task):
        action = await team.fresh(seed).act(
            Observation(text=one.item.question, legal=one.item.legal, info=one.item.info)
        )
        right += [decision == key[one.item.question].right for decision in action.info["decisions"]]
    return right / len(task)


async def test_the_real_debate_gives_the_same_rates():
    task, key = problems(1200)
    debaters = [SimulatedReasoner(k, key) for k in range(3)]
    error = 3 * 0.5 / np.sqrt(1200)
    assert await through_the_debate(Debate(debaters), task, key) == pytest.approx([0.574, 0.779, 0.818], abs=error)
    assert await through_the_debate(MAD(debaters[0]), task, key) == pytest.approx([0.53, 0.668, 0.69], abs=error)


async def test_a_debater_that_does_not_know_the_question_says_so():
    with pytest.raises(BadInput, match="question of the key"):
        await SimulatedReasoner(0, {}).act(Observation(text="?"))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Blindspots(own=1.2),
        lambda: Blindspots(wrong=0),
        lambda: rates([0]),
        lambda: rates([0, 3]),
        lambda: rates([0, 1], rounds=0),
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(BadInput):
        wrong()
