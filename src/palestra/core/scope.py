"""The scope a piece of work runs in: whose call it is, who pays, where it is recorded, which seed it has.

One context variable holds it, so it follows `await`, `gather` and tasks without being passed along. Agents and teams
narrow it (`with scope(agent="step_back", stage="round 2"):`); models read it to attribute, charge and record calls.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from palestra.core.budget import Account, Budget, JointAccount
from palestra.core.records import Call, Step


class Recorder:
    """Collects what happens in one episode, in order of completion."""

    __slots__ = ("accounts", "agent_budget", "calls", "repeats", "step", "steps")

    def __init__(self, agent_budget: Budget | None = None) -> None:
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        self.step = 0
        self.agent_budget = agent_budget
        self.accounts: dict[str, Account] = {}  # per agent, made when agents have a budget of their own
        self.repeats: dict[tuple[str, str, str, bytes], int] = {}  # how often each scope made the same request


class Scope:
    """Where the current work belongs. Immutable by convention; `scope(...)` makes a narrower one."""

    __slots__ = ("account", "agent", "recorder", "role", "seed", "stage")

    def __init__(
        self,
        *,
        account: Account,
        recorder: Recorder,
        agent: str = "",
        role: str = "",
        stage: str = "",
        seed: int = 0,
    ) -> None:
        self.account, self.recorder = account, recorder
        self.agent, self.role, self.stage, self.seed = agent, role, stage, seed

    def payer(self) -> Account | JointAccount:
        """The account that a call made now is charged to."""
        recorder = self.recorder
        if recorder.agent_budget is None:
            return self.account
        own = recorder.accounts.get(self.agent)
        if own is None:
            own = recorder.accounts[self.agent] = Account(f"agent {self.agent!r}", budget=recorder.agent_budget)
        return JointAccount(own, self.account)

    def occurrence(self, request: bytes) -> int:
        """How often this scope has made `request` before; counts this one."""
        key = (self.agent, self.role, self.stage, request)
        seen = self.recorder.repeats.get(key, 0)
        self.recorder.repeats[key] = seen + 1
        return seen


_current: ContextVar[Scope | None] = ContextVar("palestra_scope", default=None)


def current() -> Scope:
    """The scope of the running code; outside any episode, a fresh one that nothing limits and nobody keeps."""
    found = _current.get()
    return found if found is not None else Scope(account=Account("process"), recorder=Recorder())


def enter(new: Scope | None) -> Scope | None:
    """Make `new` the scope of the running task from here on; returns the one before, None outside any."""
    before = _current.get()
    _current.set(new)
    return before


@contextmanager
def scope(
    *, agent: str | None = None, role: str | None = None, stage: str | None = None, budget: Budget | None = None
) -> Generator[Scope]:
    """Narrow the scope: name the agent, role or stage that calls belong to, or limit them by a budget of their own.

    >>> with scope(agent="critic", stage="round 1") as inner:
    ...     (inner.agent, current().stage)
    ('critic', 'round 1')
    """
    outer = current()
    account = outer.account
    if budget is not None:
        account = Account(f"scope {stage or role or agent or ''!r}", budget=budget, parent=account)
    inner = Scope(
        account=account,
        recorder=outer.recorder,
        agent=outer.agent if agent is None else agent,
        role=outer.role if role is None else role,
        stage=outer.stage if stage is None else stage,
        seed=outer.seed,
    )
    token = _current.set(inner)
    try:
        yield inner
    finally:
        _current.reset(token)
