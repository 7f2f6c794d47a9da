"""A tool is a typed Python function that a model may call: its schema comes from annotations and docstring."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_type_hints, overload

import msgspec

from palestra.core.errors import BadInput
from palestra.core.records import JSON, ToolSpec

_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?):\s*$")


class Tool:
    """A function with a name, a description, a JSON schema of its arguments and one worked example.

    Args:
        function: sync or async; every parameter needs an annotation.
        name: the function's own when None.
        description: the docstring's text above its sections when None.
        example: the arguments of one call. Small models need it: see `ToolSpec`.
        request: the plain words that ask for that call.

    Raises:
        BadInput: a parameter without annotation, `*args` or `**kwargs`, no description, or an example that does not
            fit the schema.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        example: JSON | None = None,
        request: str = "",
    ) -> None:
        self.function, self.request = function, request
        self.name = name or function.__name__
        self.example = example
        text, helps = _docstring(inspect.getdoc(function) or "")
        self.description = description or text
        if not self.description:
            raise BadInput(f"tool {self.name}", function, "a function with a docstring that says what it does")
        self._arguments = _arguments(function, self.name)
        self.parameters = _schema(self._arguments, helps)
        if example is not None:
            self.check(example)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, unchanged."""
        return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Callable[..., Tool], tuple[Any, ...]]:
        """A tool crosses a process border by name, like the function it stands for."""
        module, name = self.function.__module__, self.function.__qualname__
        if getattr(sys.modules.get(module), name, None) is self:
            return _imported, (module, name)
        make = partial(Tool, name=self.name, description=self.description, example=self.example, request=self.request)
        return make, (self.function,)

    @property
    def spec(self) -> ToolSpec:
        """What a model is told of the tool."""
        return ToolSpec(self.name, self.description, self.parameters, self.example, self.request)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """`arguments` converted to the function's types, defaults left out.

        Raises:
            BadInput: an argument is missing, unknown or of the wrong type.
        """
        allowed = [field.encode_name for field in msgspec.structs.fields(self._arguments)]
        for given in arguments:
            if given not in allowed:
                raise BadInput(f"{self.name} argument", given, "" if allowed else "no arguments", choices=allowed)
        try:
            values = msgspec.convert(dict(arguments), self._arguments, strict=False)
        except msgspec.ValidationError as error:
            reason, _, path = str(error).partition(" - at `$.")
            field = path.rstrip("`")
            value = arguments.get(field.partition("[")[0].partition(".")[0], dict(arguments))
            raise BadInput(f"{self.name}.{field}" if field else self.name, value, f"({reason})") from None
        return {name: getattr(values, name) for name in arguments}

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Check `arguments`, run the function, and return its result as text (JSON unless it is text already).

        Raises:
            BadInput: the arguments do not fit.
            Exception: whatever the function raised.
        """
        result = self.function(**self.check(arguments))
        if inspect.isawaitable(result):
            result = await result
        if result is None or isinstance(result, str):
            return result or ""
        return msgspec.json.encode(result, enc_hook=repr).decode()


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, example: JSON | None = None, request: str = ""
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    example: JSON | None = None,
    request: str = "",
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a `Tool`: `@tool`, or `@tool(example={...}, request="...")`.

    >>> @tool(example={"city": "Paris"})
    ... def population(city: str, year: int = 2020) -> int:
    ...     \"\"\"Number of people in a city.
    ...
    ...     Args:
    ...         city: its English name.
    ...         year: when.
    ...     \"\"\"
    ...     return 2_100_000
    >>> population.spec.parameters["properties"]["city"]
    {'type': 'string', 'description': 'its English name.'}
    >>> import asyncio
    >>> asyncio.run(population.call({"city": "Paris", "year": "2021"}))
    '2100000'
    """

    def make(one: Callable[..., Any]) -> Tool:
        return Tool(one, name=name, description=description, example=example, request=request)

    return make if function is None else make(function)


def _imported(module: str, name: str) -> Tool:
    return getattr(importlib.import_module(module), name)


def _arguments(function: Callable[..., Any], name: str) -> type[msgspec.Struct]:
    """A struct with one field for each parameter."""
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise BadInput(f"tool {name}", f"{parameter}", "parameters that can be given by name")
        if parameter.name not in hints:
            raise BadInput(f"tool {name}", parameter.name, "an annotation for every parameter")
        kind = hints[parameter.name]
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        elif isinstance(parameter.default, (list, dict, set)):
            fields.append((parameter.name, kind, msgspec.field(default_factory=parameter.default.copy)))
        else:
            fields.append((parameter.name, kind, parameter.default))
    try:
        return msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
    except TypeError as error:
        raise BadInput(f"tool {name}", function, f"annotations that JSON can carry ({error})") from None


def _schema(arguments: type[msgspec.Struct], helps: dict[str, str]) -> JSON:
    try:
        (root,), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise BadInput("tool", arguments.__name__, f"annotations that JSON can carry ({error})") from None
    schema = dict(components.pop(root["$ref"].rsplit("/", 1)[-1]))
    schema.pop("title", None)
    for name, text in helps.items():
        if name in schema["properties"]:
            schema["properties"][name] = {**schema["properties"][name], "description": text}
    if components:
        schema["$defs"] = components
    return schema


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text above the sections, and the help of each argument (Google style)."""
    body: list[str] = []
    helps: dict[str, str] = {}
    section, current = "", ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section, current = match[1], ""
        elif not section:
            body.append(line)
        elif section.startswith("Arg"):
            entry = re.match(r"^\s{2,4}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$", line)
            if entry:
                current = entry[1]
                helps[current] = entry[2].strip()
            elif current and line.strip():
                helps[current] = f"{helps[current]} {line.strip()}".strip()
    above = "\n".join(body).strip()
    return re.sub(r"(?<!\n)\n(?!\n)[ \t]*", " ", above), helps  # paragraphs stay, line breaks go
