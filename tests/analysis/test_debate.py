import numpy as np
import pytest

from palestra.analysis.debate import (
    Flips,
    choose_methods,
    complementarity,
    debater_accuracy,
    diversity,
    flips,
    round_accuracy,
)
from palestra.analysis.debate_protocol import check_protocol
from palestra.analysis.debate_results import Debates, Share, difference, rounds_figure, verdict
from palestra.core.errors import BadInput
from palestra.core.records import Episode, Step

ANSWERS = [[["1", "2", "2"], ["2", "2", "1"]], [["5", None, None]]]  # the second debate stopped after one round
GOLD = ["2", "5"]


def test_measures_by_round():
    assert debater_accuracy(ANSWERS, GOLD).tolist() == [[0.5, 0.5, 0.5], [1.0, 0.5, 0.0]]
    assert diversity(ANSWERS) == pytest.approx([2 / 3, 2 / 3])
    assert flips(ANSWERS, GOLD) == [Flips(right_to_wrong=1, wrong_to_right=1, right=3, wrong=3)]
    assert (flips(ANSWERS, GOLD)[0].harm, flips(ANSWERS, GOLD)[0].gain) == pytest.approx((1 / 3, 1 / 3))
    assert round_accuracy([["2", None], ["5.0"]], GOLD) == [1.0, 0.5]


def test_methods_are_chosen_by_what_they_solve_together():
    correct = {"a": [1, 1, 1, 0, 0], "b": [1, 1, 1, 0, 0], "c": [0, 0, 0, 1, 0], "d": [0, 0, 0, 0, 0]}
    assert choose_methods(correct, n=2) == ("a", "c")
    assert choose_methods(correct, n=3) == ("a", "b", "c")
    assert complementarity(correct)["a", "c"] == 0.5
    assert np.isnan(complementarity({"a": [1], "b": [0]})["a", "b"])
    with pytest.raises(BadInput):
        choose_methods(correct, n=5)
    with pytest.raises(BadInput):
        complementarity({"a": [1], "b": [1, 0]})


async def test_the_protocol_check_counts_fifteen_calls_without_leak_or_loss():
    found = await check_protocol()
    assert (found.calls, found.leaks, found.losses) == (15, 0, 0)


def test_debates_are_read_back_from_episodes():
    info = {
        "agents": ["cot", "pot"], "answers": [["1", "2"], ["2", "2"]], "decisions": ["1", "2"],
        "outputs": [[None, "2"], [None, "3"]], "calls": 6,
    }  # fmt: skip
    episodes = [
        Episode("s", 0, "dmad", "t/1", 0, steps=[Step(0, "dmad", "", "", 1.0, info)]),
        Episode("s", 1, "dmad", "t/2", 0, status="failed"),
    ]
    found = Debates(episodes, {"t/1": "2"})
    assert (found.accuracy(), found.decided(), found.decided(0), found.decided(7)) == (
        [0.0, 1.0],
        [True],
        [False],
        [True],
    )
    assert (found.alone("cot"), found.executed("pot"), found.calls()) == ([False], [True], 6)
    with pytest.raises(BadInput, match="did you mean 'pot'"):
        found.alone("pott")
    with pytest.raises(BadInput):
        Debates(episodes[1:], {})


def test_differences_are_paired_and_their_verdict_needs_the_whole_interval():
    gap, interval = difference([1] * 30 + [0] * 10, [0] * 40, rng=np.random.default_rng(0))
    assert gap == 0.75 and verdict(interval) is True
    assert verdict((-0.1, 0.1)) is None and verdict((-0.2, -0.1)) is False
    many = difference([1.0, 0.0] * 2000, [0.0, 0.5] * 2000, rng=np.random.default_rng(0))
    assert many[0] == 0.25 and many[1][0] < 0.25 < many[1][1]
    assert str(Share.of([True, False])) == "0.500 [0.095, 0.905]"
    assert rounds_figure({"dmad": [0.1, 0.2], "mad": [0.1]}, title="t").axes
