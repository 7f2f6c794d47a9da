"""An agent that answers a question with one reasoning method; it can also debate (DMAD, Alg. 1, lines 4-6).

A turn makes one or two model calls: the process call (`s = M(x | h; R)`), then the answering call, which sees the
process (`y = M(x, s | h; R)`). Both end up in the agent's conversation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from palestra.agents.methods import CCOT, CHAIN_OF_THOUGHT, DDCOT, IO, LEAST_TO_MOST, PROGRAM, STEP_BACK
from palestra.agents.methods import method as method_called
from palestra.agents.methods.method import Example, Method
from palestra.core.errors import BadInput
from palestra.core.protocols import LanguageModel
from palestra.core.records import Action, Image, Message, Observation, Sampling, Text
from palestra.core.scope import scope
from palestra.judges.answers import ending, extract, kind_of
from palestra.judges.fence import fence
from palestra.teams.debater import History, Share, Turn, peers_block
from palestra.tools.sandbox import Sandbox

_CODE = re.compile(r"```[ \t]*(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", flags=re.DOTALL)


class Reasoner:
    """Answers questions with one model and one method.

    Args:
        model: the language model.
        method: a `Method`, or the name of one.
        name: of the agent; the method's when None.
        examples: worked examples, shown before the question as earlier exchanges.
        system: a system message; none when None (some chat templates then insert their own).
        sampling: how to draw replies; the model's default when None.
        sandbox: where programs run; a new `Sandbox()` when the method runs programs.

    Raises:
        BadInput: unknown method.
        SandboxError: the method runs programs and no sandbox can start here.
    """

    def __init__(
        self,
        model: LanguageModel,
        method: Method | str,
        *,
        name: str | None = None,
        examples: Sequence[Example] = (),
        system: str | None = None,
        sampling: Sampling | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.model = model
        self.how = method_called(method) if isinstance(method, str) else method
        self.method = self.how.name
        self.name = name or self.method
        self.planned_calls = self.how.calls
        self.examples, self.system, self.sampling = tuple(examples), system, sampling
        self.sandbox = sandbox or (Sandbox() if self.how.runs_program else None)

    def __repr__(self) -> str:
        return f"Reasoner({self.model.name!r}, {self.method!r}, name={self.name!r})"

    def named(self, name: str) -> Reasoner:
        """The same agent under another name."""
        copy = Reasoner.__new__(Reasoner)
        copy.__dict__.update(self.__dict__, name=name)
        return copy

    def fresh(self, seed: int) -> Reasoner:
        """Itself: a reasoner keeps nothing between questions, and its models are seeded by the scope."""
        return self

    async def act(self, observation: Observation) -> Action:
        """Answer alone. The text is the answer (empty: none); `info` has the process, the reply and the method."""
        turn = await self.respond(observation)
        info = {
            "method": turn.method,
            "process": turn.process,
            "answer": turn.answer,
            "reply": turn.reply,
            "calls": turn.calls,
        }
        if self.how.runs_program:
            info |= {"output": turn.output, "error": turn.error}
        return Action(text=turn.answer or "", info=info)

    async def respond(
        self,
        question: Observation,
        *,
        own: Sequence[Turn] = (),
        peers: Sequence[Turn] = (),
        history: History = "as_sent",
        share: Share = "process",
    ) -> Turn:
        """Take one turn of a debate; without `own` and `peers`, the first.

        Args:
            question: what to answer; `info["kind"]` or `legal` says which kind of answer.
            own: this agent's turns so far.
            peers: the messages to read, of the round before.
            history: see `teams.Debate`.
            share: see `teams.Debate`.

        Raises:
            BadInput: the method needs an image and the question has none.
            ModelError, BudgetExceeded: see `Model.complete`.
        """
        if self.how.needs_image and not question.images:
            raise BadInput("images", (), f"at least one image: method {self.method!r} describes it")
        kind = kind_of(question)
        told = own[-1].notice if own and history == "as_sent" else ""
        opening = told + peers_block(peers, share=share) + _ask(question.text)
        images = () if own else question.images
        talk = [*self._preamble(kind), *_conversation(own, history)]
        start = len(talk)
        process = output = error = ""
        if self.how.process is not None:
            talk.append(_user(f"{opening}\n{self.how.process}", images))
            process = await self._say(talk, "process")
            if self.how.runs_program:
                output, error = await self._execute(process)
                if error:
                    return self._failed(question, talk[start:], error)
            asking = f"{_printed(output) if self.how.runs_program else ''}{self.how.answer} {ending(kind)}".strip()
            talk.append(_user(asking))
        else:
            talk.append(_user(f"{opening}\n{self.how.answer} {ending(kind)}".strip(), images))
        reply = await self._say(talk, "answer")
        if self.how.process is None:
            process = reply if self.how.shows_work else ""
        turn = Turn(
            agent=self.name,
            method=self.method,
            description=self.how.description,
            process=f"{process}\n{_printed(output)}".strip() if self.how.runs_program else process,
            answer=extract(reply, kind),
            reply=reply,
            sent=tuple(talk[start:]),
            calls=self.how.calls,
            output=output.strip() if self.how.runs_program else None,
        )
        return _with_plain(turn, question)

    async def _say(self, talk: list[Message], role: str) -> str:
        with scope(role=role):
            completion = await self.model.complete(talk, sampling=self.sampling)
        talk.append(completion.message)
        return completion.text

    async def _execute(self, reply: str) -> tuple[str, str]:
        """What the program in `reply` printed, and why it failed (empty when it did not)."""
        assert self.sandbox is not None
        found = _CODE.search(reply)
        result = await self.sandbox.run(found[1] if found else reply)
        if not result.ok:
            return "", result.error
        return (result.stdout, "") if result.stdout.strip() else ("", "the program printed nothing")

    def _failed(self, question: Observation, sent: list[Message], error: str) -> Turn:
        """A turn whose program failed: no answer, the error as its process."""
        turn = Turn(
            agent=self.name,
            method=self.method,
            description=self.how.description,
            process=f"The program failed: {error}",
            answer=None,
            sent=tuple(sent),
            calls=1,
            error=error,
            notice=f"Your program failed: {error}\n\n",
        )
        return _with_plain(turn, question)

    def _preamble(self, kind: str) -> list[Message]:
        """The system message and the worked examples, as earlier exchanges of the same form."""
        talk = [] if self.system is None else [Message("system", self.system)]
        for example in self.examples:
            ask = _ask(example.question)
            closing = f"{self.how.answer} {ending(kind)}".strip()
            if self.how.process is not None:
                process = f"```python\n{example.process.strip()}\n```" if self.how.runs_program else example.process
                talk += [Message("user", f"{ask}\n{self.how.process}"), Message("assistant", process)]
                printed = _printed(example.output) if self.how.runs_program else ""
                talk += [Message("user", f"{printed}{closing}"), Message("assistant", example.reply)]
            else:
                talk += [Message("user", f"{ask}\n{closing}"), Message("assistant", example.reply)]
        return talk


def io(model: LanguageModel, **settings: object) -> Reasoner:
    """An agent that answers directly; `settings` are those of `Reasoner`."""
    return Reasoner(model, IO, **settings)  # pyright: ignore[reportArgumentType]


def chain_of_thought(model: LanguageModel, **settings: object) -> Reasoner:
    """An agent that reasons in steps; `settings` are those of `Reasoner`."""
    return Reasoner(model, CHAIN_OF_THOUGHT, **settings)  # pyright: ignore[reportArgumentType]


def step_back(model: LanguageModel, **settings: object) -> Reasoner:
    """An agent that derives a principle first; `settings` are those of `Reasoner`."""
    return Reasoner(model, STEP_BACK, **settings)  # pyright: ignore[reportArgumentType]


def program(model: LanguageModel, **settings: object) -> Reasoner:
    """An agent that writes a program, which a sandbox runs; `settings` are those of `Reasoner`."""
    return Reasoner(model, PROGRAM, **settings)  # pyright: ignore[reportArgumentType]


def ccot(model: LanguageModel, **settings: object) -> Reasoner:
    """An agent that writes a scene graph of the image first; `settings` are those of `Reasoner`."""
    return Reasoner(model, CCOT, **settings)  # pyright: ignore[reportArgumentType]


def ddcot(model: LanguageModel, **settings: object) -> Reasoner:
    """An agent that settles sub-questions on the image first; `settings` are those of `Reasoner`."""
    return Reasoner(model, DDCOT, **settings)  # pyright: ignore[reportArgumentType]


def least_to_most(model: LanguageModel, **settings: object) -> Reasoner:
    """An agent that lists simpler sub-questions first; `settings` are those of `Reasoner`."""
    return Reasoner(model, LEAST_TO_MOST, **settings)  # pyright: ignore[reportArgumentType]


def _ask(text: str) -> str:
    return f"Question: {text.strip()}"


def _printed(output: str) -> str:
    return f"The program printed:\n{fence(output)}\n"


def _user(text: str, images: Sequence[Image] = ()) -> Message:
    return Message("user", (*images, Text(text)) if images else text)


def _conversation(own: Sequence[Turn], history: History) -> list[Message]:
    return [message for turn in own for message in (turn.sent if history == "as_sent" else turn.plain)]


def _with_plain(turn: Turn, question: Observation) -> Turn:
    """`turn` with its stored form: the question asked plainly, and method + process + answer."""
    from msgspec import structs

    asked = _user(f"{_ask(question.text)}\n{ending(kind_of(question))}".strip(), question.images)
    return structs.replace(turn, plain=(asked, Message("assistant", f"{turn.description}\n{turn.told()}".strip())))
