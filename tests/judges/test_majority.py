import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.judges import Majority, winners

CASES = json.loads((Path(__file__).parents[1] / "fixtures/dmad/cases.json").read_text())
ANSWERS = st.lists(st.sampled_from(["A", "B", "C", None]), min_size=1, max_size=7)


@pytest.mark.parametrize("case", CASES["votes"], ids=lambda case: str(case["answers"]))
async def test_votes_are_counted_as_in_the_fixture(case):
    assert winners(case["answers"]) == (case["winners"], case["count"])
    verdict = await Majority().judge("?", case["answers"])
    chosen = None if verdict.choice is None else case["answers"][verdict.choice]
    assert chosen in case["winners"]
    assert verdict.scores["votes"] == case["count"]


async def test_spellings_of_one_number_are_one_vote():
    verdict = await Majority().judge("?", ["3", "0.5", "1/2"])
    assert (verdict.choice, verdict.scores["votes"]) == (1, 2)


async def test_ties_are_drawn_evenly_and_from_the_seed():
    drawn = [(await Majority(seed=seed).judge("?", ["A", "B", "C"])).choice for seed in range(600)]
    assert drawn == [(await Majority(seed=seed).judge("?", ["A", "B", "C"])).choice for seed in range(600)]
    assert all(150 < drawn.count(index) < 250 for index in range(3))


@given(ANSWERS)
async def test_none_never_wins_unless_nobody_answers(answers):
    verdict = await Majority().judge("?", answers)
    if any(answer is not None for answer in answers):
        assert verdict.choice is not None
        assert answers[verdict.choice] is not None
        counts = {answer: answers.count(answer) for answer in answers if answer is not None}
        assert counts[answers[verdict.choice]] == max(counts.values())
    else:
        assert verdict.choice is None
