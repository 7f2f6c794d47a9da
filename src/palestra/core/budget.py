"""Budgets and the accounts they limit: study, episode and agent, each charged by every call made below it.

A call is admitted only while every account above it has budget left, and call counts are reserved at admission, so a
limit on calls is exact at any concurrency. Tokens and dollars are known only when a reply arrives: calls already in
flight may overshoot those limits by what they cost.
"""

from __future__ import annotations

import time

from msgspec import Struct

from palestra.core.errors import BadInput, BudgetExceeded
from palestra.core.records import Usage


class Budget(Struct, frozen=True, omit_defaults=True):
    """Upper limits; None means no limit.

    >>> Budget.parse("tokens=5000,minutes=2")
    Budget(calls=None, tokens=5000, usd=None, minutes=2.0)
    """

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value >= 0):
                raise BadInput(f"budget.{name}", value, "a number of at least 0")

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read `calls=…,tokens=…,usd=…,minutes=…`."""
        kinds: dict[str, type[int] | type[float]] = {"calls": int, "tokens": int, "usd": float, "minutes": float}
        values: dict[str, float] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = (side.strip() for side in part.partition("="))
            if name not in kinds:
                raise BadInput("budget", name, choices=kinds)
            try:
                values[name] = kinds[name](value.replace("_", ""))
            except ValueError:
                kind = "a whole number" if kinds[name] is int else "a number"
                raise BadInput(f"budget.{name}", value, kind) from None
        return cls(**values)  # pyright: ignore[reportArgumentType]


class Account:
    """What one study, episode or agent has used, and may use. Charging it charges its parents."""

    __slots__ = ("budget", "level", "parent", "reserved", "started", "used")

    def __init__(self, level: str, *, budget: Budget | None = None, parent: Account | None = None) -> None:
        self.level, self.budget, self.parent = level, budget, parent
        self.used = Usage()
        self.reserved = 0  # calls admitted and not yet charged
        self.started = time.monotonic()

    def admit(self) -> None:
        """Reserve one call here and above.

        Raises:
            BudgetExceeded: an account has nothing left; then nothing is reserved anywhere.
        """
        self.check()
        account: Account | None = self
        while account is not None:
            account.reserved += 1
            account = account.parent

    def check(self) -> None:
        """Make sure that something is left, here and above.

        Raises:
            BudgetExceeded: an account has nothing left.
        """
        account: Account | None = self
        while account is not None:
            if account.budget is not None:
                account._check(account.budget)
            account = account.parent

    def charge(self, usage: Usage) -> None:
        """Turn one reserved call into `usage`, here and above."""
        account: Account | None = self
        while account is not None:
            account.reserved -= 1
            account = account.parent
        self.add(usage)

    def add(self, usage: Usage) -> None:
        """Add what was used without a reservation, here and above."""
        account: Account | None = self
        while account is not None:
            account.used.add(usage)
            account = account.parent

    def seconds_left(self) -> float | None:
        """Wall seconds until the first limit on minutes here or above, or None."""
        left: float | None = None
        account: Account | None = self
        while account is not None:
            if account.budget is not None and account.budget.minutes is not None:
                mine = account.started + 60 * account.budget.minutes - time.monotonic()
                left = mine if left is None else min(left, mine)
            account = account.parent
        return left

    def _check(self, budget: Budget) -> None:
        if budget.calls is not None and self.used.calls + self.reserved >= budget.calls:
            raise BudgetExceeded(self.level, "calls", budget.calls, self.used.calls + self.reserved)
        if budget.tokens is not None and self.used.tokens >= budget.tokens:
            raise BudgetExceeded(self.level, "tokens", budget.tokens, self.used.tokens)
        if budget.usd is not None and self.used.usd >= budget.usd:
            raise BudgetExceeded(self.level, "usd", budget.usd, self.used.usd)
        if budget.minutes is not None:
            minutes = (time.monotonic() - self.started) / 60
            if minutes >= budget.minutes:
                raise BudgetExceeded(self.level, "minutes", budget.minutes, minutes)


class JointAccount:
    """The accounts of a call that two limits bear on: its agent's own, and those of the work it is part of."""

    __slots__ = ("agent", "work")

    def __init__(self, agent: Account, work: Account) -> None:
        self.agent, self.work = agent, work

    def admit(self) -> None:
        """As `Account.admit`, on both sides or on neither."""
        self.agent.check()
        self.work.admit()
        self.agent.reserved += 1

    def check(self) -> None:
        """As `Account.check`, on both sides."""
        self.agent.check()
        self.work.check()

    def charge(self, usage: Usage) -> None:
        """As `Account.charge`, on both sides."""
        self.agent.charge(usage)
        self.work.charge(usage)

    def add(self, usage: Usage) -> None:
        """As `Account.add`, on both sides."""
        self.agent.add(usage)
        self.work.add(usage)
