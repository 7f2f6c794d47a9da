"""Tools that models call, and the sandbox that untrusted programs run in."""

from palestra.tools.python import python_tool
from palestra.tools.sandbox import BACKENDS, Limits, Sandbox, SandboxResult
from palestra.tools.tool import Tool, tool

__all__ = ["BACKENDS", "Limits", "Sandbox", "SandboxResult", "Tool", "python_tool", "tool"]
