import re

import pytest

from palestra.bench import arithmetic, logic, worked_examples
from palestra.core.errors import BadInput
from palestra.core.records import Action
from palestra.judges import equivalent


@pytest.mark.parametrize("level, steps, highest", [(1, 1, 9), (2, 2, 9), (3, 2, 99), (4, 3, 99)])
def test_every_answer_follows_from_the_story(level, steps, highest):
    for item in arithmetic(100, level=level).items:
        value, count = None, 0
        for sentence in item.question.split(". "):
            numbers = [int(found) for found in re.findall(r"\d+", sentence)]
            assert all(0 < number <= highest for number in numbers)
            if len(numbers) == 2:
                value, count = numbers[0] * numbers[1], count + 1
            elif re.search(r"gives away|loses|sells", sentence):
                value, count = value - numbers[0], count + 1
            elif re.search(r"more", sentence):
                value, count = value + numbers[0], count + 1
            elif numbers:
                value = numbers[0]
        assert (str(value), count) == (item.answer, steps)
        assert set(item.info) == {"kind", "level", "type"}  # nothing that tells the answer


def test_the_same_seed_gives_the_same_problems_and_another_seed_others():
    first, again, other = (arithmetic(60, seed=seed) for seed in (1, 1, 2))
    assert first.items == again.items
    assert len({item.question for item in first.items}) == 60
    assert len({item.question for item in first.items} & {item.question for item in other.items}) < 12


def test_every_puzzle_has_one_ranking_and_its_answer_is_at_the_end_asked_for():
    for item in logic(60, people=4).items:
        pairs = re.findall(r"(\w+) is (\w+) than (\w+)\.", item.question)
        above = [(a, b) if word in ("taller", "older", "faster") else (b, a) for a, word, b in pairs]
        names = {name for pair in above for name in pair}
        top = next(name for name in names if all(name != low for _, low in above))
        bottom = next(name for name in names if all(name != high for high, _ in above))
        assert len(above) == 3 and len(names) == 4
        assert item.answer == (top if re.search("tallest|oldest|fastest", item.question) else bottom)


@pytest.mark.parametrize("method", ["io", "cot", "step_back", "pot"])
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_worked_examples_are_right(method, level):
    for example in worked_examples(method, level=level):
        boxed = re.search(r"\\boxed\{(\d+)\}", example.reply)[1]
        if method == "pot":
            assert equivalent(example.process.removeprefix("print"), boxed) and example.output == boxed
        if method in ("cot", "step_back"):
            assert equivalent(example.reply.split(" = ")[0].replace("x", "*"), boxed)


async def test_the_scorer_reads_boxes_and_spellings():
    task = arithmetic(1)
    item = task.items[0]
    for text, score in ((item.answer, 1), (f"so \\boxed{{{item.answer}.0}}", 1), ("", 0), ("\\boxed{-1}", 0)):
        assert task.scorer(item, Action(text=text)) == score


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: arithmetic(0),
        lambda: arithmetic(1, level=5),
        lambda: logic(1, people=2),
        lambda: worked_examples("ccot"),
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(BadInput):
        wrong()
