"""The ReAct loop (Yao et al. 2023): the model calls tools until it answers; one linear conversation, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from palestra.core.errors import BadInput, PalestraError
from palestra.core.protocols import LanguageModel
from palestra.core.records import Action, Message, Observation, Sampling, Text, ToolCall
from palestra.tools.tool import Tool


class ReAct:
    """Acts by calling tools. Its own tools run here; a call of a tool that the environment offers is its action.

    Args:
        model: the language model.
        tools: what it may call.
        system: instructions for the whole episode.
        max_calls: model calls for one action; then the last text is the answer.
        sampling: how to draw replies; the model's default when None.
        name: of the agent.

    Raises:
        BadInput: two tools with one name, or max_calls < 1.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        tools: Sequence[Tool] = (),
        system: str | None = None,
        max_calls: int = 16,
        sampling: Sampling | None = None,
        name: str = "react",
    ) -> None:
        self.tools = {one.name: one for one in tools}
        if len(self.tools) != len(tools):
            raise BadInput("tools", [one.name for one in tools], "tools with different names")
        if max_calls < 1:
            raise BadInput("max_calls", max_calls, "a number of at least 1")
        self.model, self.system, self.max_calls, self.sampling, self.name = model, system, max_calls, sampling, name
        self.messages: list[Message] = [] if system is None else [Message("system", system)]
        self._asked: tuple[ToolCall, ...] = ()  # tool calls that wait for the environment's next observation

    def fresh(self, seed: int) -> ReAct:
        """A copy with an empty conversation."""
        return ReAct(
            self.model,
            tools=list(self.tools.values()),
            system=self.system,
            max_calls=self.max_calls,
            sampling=self.sampling,
            name=self.name,
        )

    async def act(self, observation: Observation) -> Action:
        """Think and call tools until there is an answer, or a call that the environment must carry out."""
        self._see(observation)
        specs = [one.spec for one in self.tools.values()] + [
            spec for spec in observation.tools if spec.name not in self.tools
        ]
        used = 0
        for used in range(1, self.max_calls + 1):
            reply = await self.model.complete(self.messages, tools=specs, sampling=self.sampling)
            self.messages.append(reply.message)
            calls = reply.message.tool_calls
            if not calls:
                break
            foreign = tuple(call for call in calls if call.name not in self.tools)
            offered = {spec.name for spec in observation.tools}
            for call in calls:
                if call.name in self.tools or call.name not in offered:
                    self._answer(call, await self._run(call, [spec.name for spec in specs]))
            self._asked = tuple(call for call in foreign if call.name in offered)
            if self._asked:
                return Action(text=reply.text, tool_calls=self._asked, info={"calls": used})
        return Action(text=self.messages[-1].text, info={"calls": used})

    def _see(self, observation: Observation) -> None:
        """Add the observation: as the reply to the calls that wait for it, else as a message of the user."""
        self.messages += observation.messages
        if self._asked:
            for call in self._asked:
                self._answer(call, observation.text)
            self._asked = ()
        elif observation.images:
            self.messages.append(Message("user", (*observation.images, Text(observation.text))))
        elif observation.text or not observation.messages:
            self.messages.append(Message("user", observation.text))

    def _answer(self, call: ToolCall, text: str) -> None:
        self.messages.append(Message("tool", text, tool_call_id=call.id, name=call.name))

    async def _run(self, call: ToolCall, known: Sequence[str]) -> str:
        """The tool's result, or the error as text: the model may correct itself."""
        try:
            if call.name not in self.tools:
                raise BadInput("tool", call.name, choices=known)
            return await self.tools[call.name].call(call.arguments)
        except PalestraError as error:
            if not isinstance(error, BadInput):
                raise
            return f"Error: {error}"
        except Exception as error:  # a tool is the user's code: its failure is an observation, not the end
            return f"Error: {type(error).__name__}: {error}"


def react(
    model: LanguageModel,
    *,
    tools: Sequence[Tool] = (),
    system: str | None = None,
    max_calls: int = 16,
    sampling: Sampling | None = None,
    name: str = "react",
) -> ReAct:
    """A ReAct agent; see `ReAct`."""
    return ReAct(model, tools=tools, system=system, max_calls=max_calls, sampling=sampling, name=name)
