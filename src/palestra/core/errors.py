"""Typed errors: every one is a single line that a user can act on.

`BadInput` is the one to raise where a caller's value is wrong: it names the field, the value, what is allowed and
the nearest valid choice. The CLI prints the line and exits with `exit_code`; a traceback is shown only on request.
"""

import difflib
from collections.abc import Iterable


class PalestraError(Exception):
    """Base of all errors that palestra raises on purpose; `str(error)` is one clear line."""

    exit_code = 1
    transient = False  # True: the same call may succeed later, so a retry policy may repeat it


def _short(value: object, limit: int = 120) -> str:
    text = repr(value).replace("\n", "\\n")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def nearest(value: object, choices: Iterable[object]) -> str | None:
    """The choice that reads most like `value`, or None when nothing is close."""
    found = difflib.get_close_matches(str(value), [str(choice) for choice in choices], n=1, cutoff=0.5)
    return found[0] if found else None


class BadInput(PalestraError, ValueError):
    """A value given by the caller is not allowed.

    Args:
        field: name of the argument, option or file column.
        value: what was given.
        allowed: what is allowed, in words.
        choices: the valid choices, when they can be listed; the nearest one is suggested.

    >>> print(BadInput("scale", "lptop", choices=("smoke", "laptop", "paper")))
    scale='lptop' is not allowed: expected one of smoke, laptop, paper (did you mean 'laptop'?)
    """

    exit_code = 2

    def __init__(self, field: str, value: object, allowed: str = "", *, choices: Iterable[object] = ()) -> None:
        self.field, self.value = field, value
        listed = [str(choice) for choice in choices]
        self.allowed = allowed or f"one of {', '.join(listed)}"
        self.suggestion = nearest(value, listed)
        hint = f" (did you mean {self.suggestion!r}?)" if self.suggestion else ""
        super().__init__(f"{field}={_short(value)} is not allowed: expected {self.allowed}{hint}")

    def __reduce__(self):
        return _rebuild, (type(self), self.args, self.__dict__)


class MissingExtra(PalestraError, ImportError):
    """An optional dependency is not installed; the line says which extra brings it.

    >>> print(MissingExtra("jax", "jax"))
    this needs jax, which is not installed: pip install 'palestra[jax]'
    """

    exit_code = 2

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"this needs {package}, which is not installed: pip install 'palestra[{extra}]'")

    def __reduce__(self):
        return _rebuild, (type(self), self.args, self.__dict__)


class BudgetExceeded(PalestraError):
    """A budget ran out; `level` is study, episode or agent, `quantity` is calls, tokens, usd or minutes."""

    exit_code = 3

    def __init__(self, level: str, quantity: str, limit: float, used: float) -> None:
        self.level, self.quantity, self.limit, self.used = level, quantity, limit, used
        super().__init__(f"{level} budget of {limit:g} {quantity} is used up ({used:g} used)")

    def __reduce__(self):
        return _rebuild, (type(self), self.args, self.__dict__)


class LoopDetected(PalestraError):
    """An agent repeats itself; the episode is stopped and the reason recorded."""


class Interrupted(PalestraError):
    """The user stopped the run; what was acknowledged is on disk and the run can be resumed."""

    exit_code = 130


class StoreError(PalestraError):
    """The run store cannot be read or written (disk full, locked, newer schema, unknown run)."""


class SandboxError(PalestraError):
    """The sandbox cannot start or lost its process tree."""


class EnvironmentFault(PalestraError):
    """An environment broke its contract (unknown agent, step after the end, wrong return type)."""


class ModelError(PalestraError):
    """A language model could not answer."""


class UnknownModel(ModelError):
    """No engine knows this model name or path."""

    exit_code = 2


class MissingKey(ModelError):
    """The endpoint needs a key and the environment has none."""

    exit_code = 2


class ContextOverflow(ModelError):
    """The prompt does not fit the model's context; raised before the call is made."""

    def __init__(self, prompt_tokens: int, context: int, model: str) -> None:
        self.prompt_tokens, self.context, self.model = prompt_tokens, context, model
        super().__init__(f"prompt of {prompt_tokens} tokens does not fit the {context}-token context of {model}")

    def __reduce__(self):
        return _rebuild, (type(self), self.args, self.__dict__)


class Unreachable(ModelError):
    """The endpoint did not answer (refused, timed out, dropped)."""

    transient = True


class RateLimited(ModelError):
    """The endpoint asks to slow down; `retry_after` is in seconds."""

    transient = True

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)

    def __reduce__(self):
        return _rebuild, (type(self), self.args, self.__dict__)


class ServerFault(ModelError):
    """The endpoint answered with a 5xx status."""

    transient = True


class BadReply(ModelError):
    """The reply is not what was asked for (not JSON, wrong schema, empty, cut off)."""

    transient = True


class NoRecordedReply(ModelError):
    """A replayed run has no recorded reply for this request."""


def cause_of(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error that a group of concurrent failures is about: a budget that ran out, else the first.

    Agents, teams and environments may start their calls together in a task group, which wraps what goes wrong.

    >>> cause_of(ExceptionGroup("two", [ValueError("x"), BudgetExceeded("episode", "calls", 3, 3)]))
    BudgetExceeded('episode budget of 3 calls is used up (3 used)')
    """
    leaves: list[BaseException] = []
    groups: list[BaseException] = [several]
    while groups:
        error = groups.pop(0)
        if isinstance(error, BaseExceptionGroup):
            groups.extend(error.exceptions)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        else:
            leaves.append(error)
    return next((error for error in leaves if isinstance(error, BudgetExceeded)), leaves[0])


def _rebuild(kind: type[PalestraError], args: tuple[object, ...], state: dict[str, object]) -> PalestraError:
    """Unpickle an error whose constructor takes more than its message (errors cross process borders)."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
