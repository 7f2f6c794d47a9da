"""The simulated model is right as often as stated, on the questions it was given, by the request's seed."""

import pickle

import pytest

from palestra.core.budget import Account
from palestra.core.errors import BadInput, ModelError
from palestra.core.records import Message
from palestra.core.scope import Recorder, Scope, enter
from palestra.core.tasks import Benchmark, Item
from palestra.models import Model, Simulated, model

ITEMS = [
    Item("1", "7 + 5 = ?", 12, info={"class": "sum"}),
    Item("2", "7 + 5 = ? + 1", 11, info={"class": "sum"}),
    Item("3", "Capital of France?", "Paris", legal=("Paris", "Rome", "Oslo"), info={"class": "fact"}),
    Item("4", "Half of 5?", 2.5, info={"class": "fact", "wrong": [2, 3.0]}),
]
SKILL = {"sum": 0.8, "fact": 0.25}


@pytest.mark.parametrize(
    "question, right, probability", [("7 + 5 = ?", "12", 0.8), ("Capital of France?", "Paris", 0.25)]
)
def test_the_share_of_right_answers_is_the_skill_of_the_class(question, right, probability):
    engine = Simulated.for_items(ITEMS, skill=SKILL)
    answers = [engine.answer(question, seed=seed) for seed in range(4000)]
    four_sigma = 4 * (probability * (1 - probability) / 4000) ** 0.5
    assert answers.count(right) / 4000 == pytest.approx(probability, abs=four_sigma)


def test_wrong_answers_are_uniform_over_the_given_ones():
    engine = Simulated.for_items(ITEMS, skill={"sum": 0.5, "fact": 0.0})
    answers = [engine.answer("Capital of France?", seed=seed) for seed in range(4000)]
    assert set(answers) == {"Rome", "Oslo"}
    assert answers.count("Rome") / 4000 == pytest.approx(0.5, abs=0.032)
    assert {engine.answer("Half of 5?", seed=seed) for seed in range(50)} == {"2", "3"}


def test_wrong_numbers_are_near_the_right_one():
    engine = Simulated.for_items(ITEMS, skill={"sum": 0.0, "fact": 0.0})
    assert {engine.answer("7 + 5 = ?", seed=seed) for seed in range(200)} == {"2", "10", "11", "13", "14", "22"}


@pytest.mark.parametrize(
    "prompt, question",
    [
        ("Think. 7 + 5 = ?", "7 + 5 = ?"),
        ("7 + 5 = ? + 1\nAnswer:", "7 + 5 = ? + 1"),
        ("Example: Capital of France? Paris.\nNow: Half of 5?\nAnswer:", "Half of 5?"),
        ("nothing", None),
    ],
)
def test_the_question_is_the_one_that_ends_last_and_the_longest_of_those(prompt, question):
    assert Simulated.for_items(ITEMS, skill=SKILL).recognise(prompt) == question


async def test_the_same_episode_gives_the_same_answers_and_the_engine_says_it_is_simulated():
    ask = model("simulated:sum=0.5,fact=0.5", items=Benchmark("b", ITEMS, scorer=lambda item, action: 0.0))
    runs = []
    for _ in range(2):
        enter(Scope(account=Account("episode"), recorder=Recorder(), seed=3))
        runs.append([(await ask.complete("7 + 5 = ?")).text for _ in range(20)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 1
    assert (await ask.complete("7 + 5 = ?")).engine == "simulated"


async def test_later_messages_without_a_question_are_about_the_last_question():
    ask = Model(Simulated.for_items(ITEMS, skill=1.0, form="The answer is {answer}."), name="m")
    talk = [Message("user", "Capital of France?"), Message("assistant", "Rome"), Message("user", "Are you sure?")]
    assert (await ask.complete(talk)).text == "The answer is Paris."
    with pytest.raises(ModelError, match="knows no question in 'hello'"):
        await ask.complete("hello")


async def test_it_crosses_process_borders_by_its_spec():
    benchmark = Benchmark("b", ITEMS, scorer=lambda item, action: 0.0)  # a function that cannot be pickled
    copy = pickle.loads(pickle.dumps(model("simulated:1", items=benchmark)))
    assert (await copy.complete("Half of 5?")).text == "2.5"


@pytest.mark.parametrize(
    "make, line",
    [
        (lambda: model("simulated:0.5"), "items"),
        (lambda: model("simulated:high", items=ITEMS), "simulated:0.7"),
        (lambda: Simulated.for_items(ITEMS, skill=1.5), "a probability from 0 to 1"),
        (lambda: Simulated.for_items(ITEMS, skill={"sum": 0.5, "facts": 0.5}), "did you mean 'facts'"),
        (lambda: Simulated.for_items([Item("1", "Why?", "because")], skill=0.5), "wrong answers"),
        (lambda: Simulated.for_items([], skill=0.5), "at least one question"),
        (lambda: Simulated.for_items(ITEMS, skill=0.5, form="no place"), "{answer}"),
        (lambda: Simulated.for_items([*ITEMS, Item("5", "7 + 5 = ?", 13)], skill=0.5), "one answer for each question"),
    ],
)
def test_what_is_missing_or_wrong_is_one_clear_line(make, line):
    with pytest.raises(BadInput, match=line):
        make()
