"""The types everything is: on one screen. Anything with these methods takes part; no base class is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from palestra.core.records import JSON, Action, Completion, Message, Observation, Sampling, ToolSpec, Verdict

Frame: TypeAlias = (
    Observation | Mapping[str, Observation]
)  # of the only agent, or by the name of each agent that acts next


@runtime_checkable
class LanguageModel(Protocol):
    """Answers messages. `score`, `embed` and `hidden_states` are capabilities that a model may lack."""

    name: str

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JSON | None = None,
        sampling: Sampling | None = None,
    ) -> Completion: ...
    def stream(self, messages: Sequence[Message], *, sampling: Sampling | None = None) -> AsyncIterator[str]: ...
    async def score(self, prompt: str, options: Sequence[str]) -> list[float]: ...  # log-probability of each text


@runtime_checkable
class Agent(Protocol):
    """Acts. One with a memory also has `fresh(seed) -> Agent`: a copy for one episode, with its own memory."""

    name: str

    async def act(self, observation: Observation) -> Action: ...


@runtime_checkable
class Environment(Protocol):
    """What agents act in. It may also have `metrics() -> dict[str, float]`, `output() -> Any`, `close()`."""

    agents: tuple[str, ...]

    async def reset(self, seed: int) -> Frame: ...
    async def step(self, actions: Mapping[str, Action]) -> Frame: ...


@runtime_checkable
class Snapshots(Protocol):
    """An environment that can save itself; search asks for it."""

    def snapshot(self) -> Any: ...
    def restore(self, saved: Any) -> None: ...


@runtime_checkable
class Judge(Protocol):
    """Scores candidates for a question, or picks one of them."""

    name: str

    async def judge(self, question: str, candidates: Sequence[str | None]) -> Verdict: ...


@runtime_checkable
class Task(Protocol):
    """A named maker of fresh environments; `id` is stable across processes."""

    id: str

    def env(self) -> Environment: ...
