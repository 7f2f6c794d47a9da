"""Limits on a whole process tree (how many processes, how much memory) by a control group, version 1 or 2.

`RLIMIT_NPROC` does nothing for root, so the `pids` controller is used where it can be written; elsewhere the rlimit
of the calling user is set, which counts that user's other processes too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from functools import cache
from itertools import count
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_serial = count()


class ProcessGroupLimits:
    """A control group for one process tree, removed at the end of the `with` block. Used by `Sandbox`.

    Args:
        processes: how many processes and threads may exist at once.
        memory: bytes of memory of all of them together (where the memory controller can be written).
    """

    def __init__(self, processes: int, memory: int) -> None:
        self.processes, self.memory = processes, memory
        self._groups: list[Path] = []

    def __enter__(self) -> ProcessGroupLimits:
        name = f"palestra-{os.getpid()}-{next(_serial)}"
        for parent, settings in _controllers():
            group = parent / name
            try:
                group.mkdir(exist_ok=True)
                self._groups.append(group)
                for file, value in settings:
                    with contextlib.suppress(OSError):
                        (group / file).write_text(str(getattr(self, value, value)))
            except OSError:
                continue
        return self

    def __exit__(self, *_: object) -> None:
        for group in self._groups:
            for _attempt in range(50):  # the kernel frees a dead process a moment after its parent was told
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.002)

    def join(self) -> list[str]:
        """A command prefix that puts itself into the group, then becomes the command behind it."""
        if not self._groups:
            return []
        shell = shutil.which("sh") or "/bin/sh"
        lines = "; ".join(f"echo 0 > '{group}/cgroup.procs'" for group in self._groups)
        return [shell, "-c", f'{lines}; exec "$@"', "sh"]

    def rlimits(self) -> list[str]:
        """Options of `prlimit` for what no group limits."""
        if any(group.joinpath("pids.max").exists() for group in self._groups):
            return []
        return [f"--nproc={self.processes + _own_processes()}"]

    def kill(self) -> None:
        """Kill what is left in the group."""
        for group in self._groups:
            with contextlib.suppress(OSError):
                for line in (group / "cgroup.procs").read_text().split():
                    with contextlib.suppress(OSError):
                        os.kill(int(line), signal.SIGKILL)


def limits_processes() -> bool:
    """Whether a control group can limit the number of processes here."""
    return any(file == "pids.max" for _, settings in _controllers() for file, _ in settings)


@cache
def _controllers() -> tuple[tuple[Path, tuple[tuple[str, str], ...]], ...]:
    """Where groups can be made, and which settings they take."""
    found: list[tuple[Path, tuple[tuple[str, str], ...]]] = []
    paths = _own_groups()
    for name, settings in (
        ("pids", (("pids.max", "processes"),)),
        ("memory", (("memory.limit_in_bytes", "memory"), ("memory.memsw.limit_in_bytes", "memory"))),
    ):
        if name in paths and _usable(parent := _ROOT / name / paths[name], f"{settings[0][0]}"):
            found.append((parent, settings))
    if not found and "" in paths:  # version 2: below our own group, else beside it
        own = _ROOT / paths[""]
        unified = (("pids.max", "processes"), ("memory.max", "memory"), ("memory.swap.max", "0"))
        for parent in (own, own.parent):
            if _ROOT in (parent, *parent.parents) and _usable(parent, "pids.max"):
                return ((parent, unified),)
    return tuple(found)


def _own_groups() -> dict[str, str]:
    """Our group's path below each controller's root; the empty name is version 2."""
    groups: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            groups.update(dict.fromkeys(names.split(","), path.strip("/")))
    return groups


def _usable(parent: Path, file: str) -> bool:
    """Whether a group can be made in `parent`, has `file`, and takes a process."""
    import subprocess

    group = parent / f"palestra-{os.getpid()}-probe"
    try:
        for stale in parent.glob("palestra-*-*"):  # left by a process that was killed
            if not Path("/proc", stale.name.split("-")[1]).exists():
                stale.rmdir()
        group.mkdir()
    except OSError:
        return False
    try:
        if not (group / file).exists():
            return False
        script = f"echo 0 > '{group}/cgroup.procs'"
        return subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=False).returncode == 0
    finally:
        for _attempt in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.002)


def _own_processes() -> int:
    """How many threads the current user has: what RLIMIT_NPROC counts from."""
    total, user = 0, os.getuid()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if entry.stat().st_uid == user:
                    total += sum(1 for _ in Path(entry.path, "task").iterdir())
    return total
