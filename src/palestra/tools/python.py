"""The tool that lets a model run Python programs in a sandbox."""

from __future__ import annotations

from palestra.tools.sandbox import Sandbox
from palestra.tools.tool import Tool


def python_tool(sandbox: Sandbox | None = None) -> Tool:
    """A tool `python(code)` that runs a program and returns what it printed, or why it failed.

    >>> import asyncio
    >>> asyncio.run(python_tool().call({"code": "print(2 ** 10)"}))
    '1024\\n'
    """
    box = sandbox or Sandbox()

    async def python(code: str) -> str:
        """Run a Python program and return what it prints.

        Args:
            code: the whole program; print the result.
        """
        result = await box.run(code)
        if result.ok:
            return result.stdout
        return f"{result.stdout}[failed: {result.error}]"

    return Tool(python, example={"code": "print(6 * 7)"}, request="What is 6 times 7?")
