"""The records everything else exchanges: plain msgspec structs, encodable as JSON or msgpack as they are.

Shapes and units are stated at each field. Records that pass between components are frozen; nothing in here does I/O.
Records hold plain data and so no reference cycles: `gc=False` spares the collector from walking through them, which is
a third of the cost of a run of many short episodes.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

JSON: TypeAlias = dict[str, Any]
Role = Literal["system", "user", "assistant", "tool"]
Evidence = Literal["exact", "real model", "trained here", "simulated model"]
Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "laptop", "paper")
EVIDENCE: tuple[Evidence, ...] = ("exact", "real model", "trained here", "simulated model")


class Text(Struct, frozen=True, gc=False, tag="text"):
    """A piece of text inside a message of several parts."""

    text: str


class Image(Struct, frozen=True, gc=False, tag="image"):
    """An image inside a message: a `data:` or `https:` URL, with a text alternative."""

    url: str
    alt: str = ""


class ToolCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """A model's wish to call tool `name` with `arguments`; `id` pairs it with the tool's reply."""

    id: str
    name: str
    arguments: JSON


class Message(Struct, frozen=True, gc=False, omit_defaults=True):
    """One message of a conversation. `content` is text, or parts when images take part.

    >>> Message("user", "What is 2 + 2?").text
    'What is 2 + 2?'
    """

    role: Role
    content: str | tuple[Text | Image, ...] = ""
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The text of all parts, joined by newlines; images are left out."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def images(self) -> tuple[Image, ...]:
        """The images among the parts."""
        return () if isinstance(self.content, str) else tuple(p for p in self.content if isinstance(p, Image))


class ToolSpec(Struct, frozen=True, omit_defaults=True):
    """What a model is told of a tool: name, description, JSON schema of its arguments, one worked example.

    `example` holds the arguments of one call and `request` the plain words that ask for it: small models imitate both.
    """

    name: str
    description: str
    parameters: JSON
    example: JSON | None = None
    request: str = ""


class Sampling(Struct, frozen=True, gc=False, omit_defaults=True):
    """How to draw a reply. Field names are the endpoints' own; `seed=None` takes the seed of the scope."""

    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0  # 0: no limit
    min_p: float = 0.0
    max_tokens: int = 256
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: int = 0  # how many top tokens to return log-probabilities of, at each position


GREEDY = Sampling(temperature=0.0)


class Usage(Struct, gc=False, omit_defaults=True):
    """What calls cost: tokens, US dollars, seconds of model time. Adds up with `add` or `+`."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # part of input_tokens that a prefix cache served
    usd: float = 0.0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    def add(self, other: Usage) -> None:
        """Add `other` in place."""
        self.calls += other.calls
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cached_tokens += other.cached_tokens
        self.usd += other.usd
        self.seconds += other.seconds

    def __add__(self, other: Usage) -> Usage:
        total = Usage()
        total.add(self)
        total.add(other)
        return total


class TokenLogprob(Struct, frozen=True, gc=False):
    """Natural-log probability of the token drawn at one position, and of the top alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class Completion(Struct, frozen=True, gc=False, omit_defaults=True):
    """A model's reply with what it cost. `engine` says which implementation produced the numbers."""

    message: Message
    usage: Usage
    finish_reason: str = "stop"  # stop, length, tool_calls, content_filter
    model: str = ""
    engine: str = ""
    retries: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    parsed: Any = None  # the validated value, when a schema was given

    @property
    def text(self) -> str:
        """The reply's text."""
        return self.message.text


class Observation(Struct, frozen=True, omit_defaults=True):
    """What one agent perceives. `reward`, `terminated` and `truncated` speak of the step that led here."""

    text: str = ""
    messages: tuple[Message, ...] = ()
    images: tuple[Image, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    legal: tuple[str, ...] | None = None  # the legal answers, when they can be listed
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: JSON = {}

    @property
    def done(self) -> bool:
        """Whether the episode is over for this agent."""
        return self.terminated or self.truncated


class Action(Struct, frozen=True, omit_defaults=True):
    """What an agent does: text, tool calls, or any `value` (a number, an array) the environment understands."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    value: Any = None
    info: JSON = {}


class Verdict(Struct, frozen=True, gc=False, omit_defaults=True):
    """A judge's scores by name, with the reason; `choice` is the index picked among candidates, if any."""

    scores: dict[str, float]
    rationale: str = ""
    choice: int | None = None


class Call(Struct, gc=False, omit_defaults=True):
    """One model call as recorded: who made it, the whole prompt (shared by reference), the reply, the cost."""

    agent: str
    role: str
    stage: str
    step: int
    kind: str  # complete, score, embed, hidden_states
    model: str
    engine: str
    request: bytes  # 16-byte digest of everything that determines the reply
    messages: tuple[Message, ...]
    reply: Message | None
    usage: Usage
    finish_reason: str
    started: float  # seconds since the epoch
    retries: int = 0
    error: str | None = None
    seed: int | None = None
    output: Any = None  # what score, embed and schema calls returned besides the message


class Step(Struct, gc=False, omit_defaults=True):
    """One exchange: what `agent` saw, what it did, the reward that followed."""

    index: int
    agent: str
    observation: str
    action: str
    reward: float
    info: JSON = {}


class Episode(Struct, gc=False, omit_defaults=True):
    """One rollout from reset to end, with all it did and cost.

    `reason` says why it ended: terminated, truncated, max_steps, budget, loop, timeout, error.
    """

    study: str
    index: int  # place in the study's plan
    agent: str
    task: str
    seed: int
    status: str = "done"  # done, failed
    reason: str = "terminated"
    score: float | None = None
    reward: float = 0.0  # sum over steps, mean over agents
    metrics: dict[str, float] = {}
    steps: list[Step] = []
    calls: list[Call] = []
    usage: Usage = field(default_factory=Usage)
    started: float = 0.0  # seconds since the epoch
    seconds: float = 0.0
    attempt: int = 1
    error: str | None = None
    output: Any = None  # what the environment keeps for later analysis
