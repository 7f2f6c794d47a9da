"""A sandbox runs untrusted programs: an isolated process tree with limits on everything it may use.

The `bwrap` backend (bubblewrap) unshares every namespace: the program sees a read-only system, private `/proc`,
`/dev` and `/tmp`, a loopback network and an empty environment, as user 1000 without privileges. The `local` backend
isolates nothing, only limits; it must be asked for by name and is never a fallback.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from palestra.core.errors import BadInput, SandboxError
from palestra.tools.cgroup import ProcessGroupLimits
from palestra.tools.output import HeadTail

Backend = Literal["bwrap", "local"]
BACKENDS: tuple[Backend, ...] = ("bwrap", "local")
HOME = "/task"  # the working folder inside
PATH = "/usr/local/bin:/usr/bin:/bin"
USER = 1000  # uid and gid inside
_NOT_FOUND = 127  # the shell's status for a command that does not exist
_DRAIN = 2.0  # seconds to wait for pipes once the process tree is dead
_PASSWD = b"root:x:0:0:root:/:/bin/false\nagent:x:1000:1000:agent:/task:/bin/sh\n"
_HOSTS = b"127.0.0.1 localhost\n::1 localhost\n"


class Limits(Struct, frozen=True):
    """What one run may use.

    Attributes:
        seconds: wall-clock time until the whole process tree is killed.
        cpu: processor seconds of each process.
        memory: bytes of address space of each process, and of memory of all together where a cgroup allows it.
        disk: bytes of one file, and of the private temporary folders.
        processes: how many processes and threads may exist at once.
        output: bytes kept of each of stdout and stderr (the first and the last half); the rest is read and dropped.
    """

    seconds: float = 10.0
    cpu: float = 10.0
    memory: int = 1 << 30
    disk: int = 64 << 20
    processes: int = 64
    output: int = 64 << 10

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise BadInput(f"limits.{name}", getattr(self, name), "a number above 0")


class SandboxResult(Struct, frozen=True):
    """How a run ended. `code` is the exit status, negative when a signal ended it; `seconds` is wall-clock time."""

    stdout: str
    stderr: str
    code: int
    timed_out: bool = False
    truncated: bool = False  # stdout or stderr was longer than the limit: its middle is missing
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with status 0."""
        return self.code == 0 and not self.timed_out

    @property
    def error(self) -> str:
        """Why the run failed, in one line; empty when it did not."""
        if self.ok:
            return ""
        if self.timed_out:
            return f"stopped after {self.seconds:.1f} s"
        lines = [line for line in self.stderr.strip().splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"exit status {self.code}"


class Sandbox:
    """Runs programs in isolation; every run is a new process tree that leaves nothing behind.

    Args:
        backend: `bwrap`, or `local` (no isolation: for trusted programs only).
        limits: what each run may use.
        folder: a host folder to mount writable as the working folder; None gives each run an empty private one.
        read_only: more host paths that the program may read, at the same path.
        env: environment variables of the program, beside PATH, HOME and LANG; nothing is inherited.

    Raises:
        SandboxError: the backend is not installed or cannot start; the line says what to do.

    >>> import asyncio
    >>> asyncio.run(Sandbox().run("print(6 * 7)")).stdout
    '42\\n'
    """

    def __init__(
        self,
        backend: Backend = "bwrap",
        *,
        limits: Limits | None = None,
        folder: str | os.PathLike[str] | None = None,
        read_only: Sequence[str | os.PathLike[str]] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        if backend not in BACKENDS:
            raise BadInput("sandbox", backend, choices=BACKENDS)
        self.backend, self.limits = backend, limits or Limits()
        self.folder = None if folder is None else str(Path(folder).resolve())
        if self.folder is not None and not Path(self.folder).is_dir():
            raise BadInput("folder", str(folder), "a folder that exists")
        self.read_only = tuple(str(Path(path).resolve()) for path in read_only)
        for path in self.read_only:
            if not Path(path).exists():
                raise BadInput("read_only", path, "paths that exist")
        self.env = dict(env or {})
        _tools(backend)

    def __repr__(self) -> str:
        return f"Sandbox({self.backend!r}, folder={self.folder!r})"

    async def run(
        self, program: str | Sequence[str], *, stdin: str | bytes = b"", seconds: float | None = None
    ) -> SandboxResult:
        """Run `program` to its end.

        Args:
            program: Python source (a text), or a command and its arguments (a sequence).
            stdin: what the program reads from standard input.
            seconds: wall-clock limit of this run; the sandbox's own when None.

        Returns:
            Output, exit status and how it ended. A program that fails or is stopped is a result, not an error.

        Raises:
            SandboxError: the sandbox itself could not start.
            BadInput: an empty command, or one with NUL characters.
        """
        command, source = _command(program)
        limit = self.limits.seconds if seconds is None else seconds
        if not limit > 0:
            raise BadInput("seconds", seconds, "a number above 0")
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with contextlib.ExitStack() as stack:
            group = stack.enter_context(ProcessGroupLimits(self.limits.processes, self.limits.memory))
            inside, files, folder = self._launch(command, source, stack)
            status_read, status_write = os.pipe()
            stack.callback(os.close, status_read)
            if self.backend == "bwrap":
                inside = [*_tools("bwrap"), "--json-status-fd", str(status_write), *inside]
            try:
                process = await asyncio.create_subprocess_exec(
                    *_limited(self.limits, group),
                    *inside,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    pass_fds=(*files, status_write),
                    start_new_session=True,
                    env=self._environment(folder),
                    cwd=folder,
                )
            except OSError as error:
                raise SandboxError(f"the sandbox cannot start: {error}") from error
            finally:
                os.close(status_write)
            result = await self._watch(process, data, limit, group)
            ran = self.backend == "local" or b'"exit-code"' in os.read(status_read, 65536)
        if ran and result.code > 128:  # as shells do, bwrap reports a signal as 128 + its number
            return structs.replace(result, code=128 - result.code)
        if ran or result.timed_out or "bwrap: " not in result.stderr:
            return result
        if "bwrap: execvp" in result.stderr:
            return structs.replace(result, code=_NOT_FOUND)
        raise SandboxError(f"the sandbox cannot start: {result.error}")

    def _launch(
        self, command: list[str], source: str | None, stack: contextlib.ExitStack
    ) -> tuple[list[str], list[int], str | None]:
        """The command line behind the limits, the file descriptors it reads, the working folder of `local`."""
        if self.backend == "local":
            folder = self.folder or stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            if source is None:
                return command, [], folder
            file = _memory_file(source.encode(), stack)
            return [*command, f"/dev/fd/{file}"], [file], folder
        contents = {"/etc/passwd": _PASSWD, "/etc/hosts": _HOSTS}
        if source is not None:
            contents["/run/program.py"] = source.encode()
            command = [*command, "/run/program.py"]
        files = {path: _memory_file(content, stack) for path, content in contents.items()}
        data = [part for path, file in files.items() for part in ("--ro-bind-data", str(file), path)]
        # The root itself and /dev are tmpfs without a size: nothing may be written there, so they are closed last.
        closing = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", HOME, "--"]
        return [*self._isolation(), *data, *closing, *command], list(files.values()), None

    def _isolation(self) -> list[str]:
        size = str(self.limits.disk)
        flags = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
        flags += ["--clearenv", "--uid", str(USER), "--gid", str(USER), "--cap-drop", "ALL", "--hostname", "sandbox"]
        flags += ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "sbin", "lib", "lib32", "lib64"):
            if (folder := Path(f"/{name}")).is_symlink():
                flags += ["--symlink", str(folder.readlink()), f"/{name}"]
            elif folder.is_dir():
                flags += ["--ro-bind", f"/{name}", f"/{name}"]
        for path in ("/etc/ld.so.cache", "/etc/alternatives"):  # where the loader and `cc`, `awk` … are found
            flags += ["--ro-bind-try", path, path]
        # Under root, user 1000 inside is still the kernel's root, who owns the system's settings: close them.
        flags += ["--proc", "/proc"]
        for path in ("/proc/sys", "/proc/sysrq-trigger"):
            flags += ["--ro-bind-try", path, path]
        flags += ["--dev", "/dev", "--size", size, "--tmpfs", "/tmp"]  # noqa: S108  (inside, private)
        flags += ["--size", size, "--tmpfs", "/dev/shm"]  # noqa: S108
        # After /tmp: the interpreter may itself lie below it.
        for prefix in dict.fromkeys((sys.base_prefix, sys.prefix)):
            if not f"{prefix}/".startswith("/usr/"):
                flags += ["--ro-bind", prefix, prefix]
        flags += ["--bind", self.folder, HOME] if self.folder else ["--size", size, "--tmpfs", HOME]
        for path in self.read_only:
            flags += ["--ro-bind", path, path]
        for name, value in self._environment(None).items():
            flags += ["--setenv", name, value]
        return flags

    def _environment(self, folder: str | None) -> dict[str, str]:
        return {"PATH": PATH, "HOME": folder or HOME, "LANG": "C.UTF-8", "TERM": "dumb", **self.env}

    async def _watch(
        self, process: asyncio.subprocess.Process, data: bytes, limit: float, group: ProcessGroupLimits
    ) -> SandboxResult:
        outputs = HeadTail(self.limits.output), HeadTail(self.limits.output)
        assert process.stdout is not None and process.stderr is not None and process.stdin is not None
        pipes = [
            asyncio.create_task(outputs[0].drain(process.stdout)),
            asyncio.create_task(outputs[1].drain(process.stderr)),
            asyncio.create_task(_feed(process.stdin, data)),
        ]
        started, timed_out = time.monotonic(), False
        try:
            try:
                await asyncio.wait_for(process.wait(), limit)
            except TimeoutError:
                timed_out = True
        finally:  # also when the caller is cancelled: nothing survives
            self._kill(process, group)
            pending: set[asyncio.Task[None]] = set()
            try:
                _, pending = await asyncio.wait(pipes, timeout=_DRAIN)
                await asyncio.wait_for(process.wait(), _DRAIN)
            finally:
                for task in pending:
                    task.cancel()
        return SandboxResult(
            stdout=outputs[0].text,
            stderr=outputs[1].text,
            code=process.returncode if process.returncode is not None else -signal.SIGKILL,
            timed_out=timed_out,
            truncated=outputs[0].truncated or outputs[1].truncated,
            seconds=time.monotonic() - started,
        )

    def _kill(self, process: asyncio.subprocess.Process, group: ProcessGroupLimits) -> None:
        """Kill the tree. The death of bwrap takes its PID namespace along, `setsid` children too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        group.kill()


def _command(program: str | Sequence[str]) -> tuple[list[str], str | None]:
    if isinstance(program, str):
        return [sys.executable, "-I", "-B"], program
    command = list(program)
    if not command or any("\0" in part for part in command):
        raise BadInput("program", program, "a command of at least one word, without NUL characters")
    return command, None


def _memory_file(content: bytes, stack: contextlib.ExitStack) -> int:
    file = os.memfd_create("sandbox")
    stack.callback(os.close, file)
    with os.fdopen(os.dup(file), "wb") as writer:
        writer.write(content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _limited(limits: Limits, group: ProcessGroupLimits) -> list[str]:
    """The prefix that joins the cgroup and sets the rlimits; run in the child, so that no Python runs after a fork."""
    cpu = max(1, round(limits.cpu))
    prefix = [_tool("prlimit", "util-linux"), f"--as={limits.memory}", f"--fsize={limits.disk}", "--core=0"]
    prefix += [f"--cpu={cpu}:{cpu + 1}", *group.rlimits(), "--"]
    return [*group.join(), *prefix]


def _tools(backend: Backend) -> list[str]:
    if backend == "local":
        return [_tool("prlimit", "util-linux")]
    return [_tool("bwrap", "bubblewrap")]


def _tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SandboxError(f"the sandbox needs {name}, which is not installed: sudo apt-get install -y {package}")
    return found


async def _feed(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        writer.write(data)
        await writer.drain()
    writer.close()
