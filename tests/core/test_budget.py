"""Budgets: limits on calls are exact at any concurrency, and every account above is charged."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palestra.core import Account, Budget, Usage
from palestra.core.budget import JointAccount
from palestra.core.errors import BadInput, BudgetExceeded


def test_a_text_names_the_limits() -> None:
    assert Budget.parse("tokens=5_000, usd=0.5 ,minutes = 2,calls=3") == Budget(3, 5000, 0.5, 2.0)
    assert Budget.parse("") == Budget()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("token=5", "did you mean 'tokens'"),
        ("tokens=five", "a whole number"),
        ("tokens=1.5", "a whole number"),
        ("usd=x", "a number"),
        ("calls=-1", "at least 0"),
        ("usd=nan", "at least 0"),
        ("tokens", "a whole number"),
    ],
)
def test_a_wrong_text_says_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Budget.parse(text)


@given(st.text())
def test_any_text_is_a_budget_or_bad_input(text: str) -> None:
    try:
        Budget.parse(text)
    except BadInput:
        pass


def test_a_limit_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadInput, match=r"budget.calls"):
        Budget(calls="5")  # type: ignore[arg-type]


async def _spend(account: Account, calls: int, *, tokens: int = 10) -> int:
    """Try `calls` calls at the same time; returns how many were admitted."""

    async def one() -> int:
        try:
            account.admit()
        except BudgetExceeded:
            return 0
        await asyncio.sleep(0.001)
        account.charge(Usage(calls=1, input_tokens=tokens))
        return 1

    return sum(await asyncio.gather(*(one() for _ in range(calls))))


@pytest.mark.parametrize("level", ["study", "episode", "agent"])
async def test_a_limit_on_calls_is_exact_when_all_are_made_at_once(level: str) -> None:
    study = Account("study", budget=Budget(calls=37) if level == "study" else None)
    episode = Account("episode", budget=Budget(calls=37) if level == "episode" else None, parent=study)
    agent = Account("agent", budget=Budget(calls=37) if level == "agent" else None, parent=episode)
    assert await _spend(agent, 200) == 37
    assert study.used.calls == episode.used.calls == agent.used.calls == 37
    assert study.reserved == episode.reserved == agent.reserved == 0
    with pytest.raises(BudgetExceeded, match=f"{level} budget of 37 calls") as caught:
        agent.admit()
    assert (caught.value.level, caught.value.quantity, caught.value.used) == (level, "calls", 37)
    assert study.reserved == episode.reserved == agent.reserved == 0, "a refused call reserves nothing"


async def test_siblings_share_the_study_budget() -> None:
    study = Account("study", budget=Budget(calls=50))
    episodes = [Account("episode", parent=study, budget=Budget(calls=8)) for _ in range(10)]
    admitted = await asyncio.gather(*(_spend(episode, 20) for episode in episodes))
    assert sum(admitted) == 50
    assert max(admitted) == 8


async def test_tokens_may_overshoot_by_the_calls_in_flight_only() -> None:
    study = Account("study", budget=Budget(tokens=100))
    for _ in range(20):
        await _spend(study, 4)
    assert 100 <= study.used.tokens <= 100 + 3 * 10


def test_a_call_that_cost_nothing_gives_its_place_back() -> None:
    account = Account("study", budget=Budget(calls=1))
    account.admit()
    account.charge(Usage())
    account.admit()


def test_minutes_run_from_the_start() -> None:
    account = Account("study", budget=Budget(minutes=1.0))
    inner = Account("episode", budget=Budget(minutes=5.0), parent=account)
    account.check()
    left = inner.seconds_left()
    assert left is not None
    assert 59 < left <= 60
    account.started -= 61
    with pytest.raises(BudgetExceeded, match="1 minutes"):
        inner.check()


def test_a_joint_account_charges_both_sides_or_neither() -> None:
    agent, work = Account("agent", budget=Budget(calls=2)), Account("work", budget=Budget(calls=3))
    joint = JointAccount(agent, work)
    for _ in range(2):
        joint.admit()
        joint.charge(Usage(calls=1))
    with pytest.raises(BudgetExceeded, match="agent"):
        joint.admit()
    assert (agent.used.calls, work.used.calls, agent.reserved, work.reserved) == (2, 2, 0, 0)
