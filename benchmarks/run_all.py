"""Run every measurement in this folder, one after another, and write what they print to RESULTS.md.

python benchmarks/run_all.py            # all
python benchmarks/run_all.py resume     # those whose name contains a word
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = ("throughput_vs_inspect.py", "resume_200k.py", "endpoint_overhead.py", "rqe_vs_pygambit.py")
RESULTS = HERE / "RESULTS.md"
PEERS = ("inspect-ai", "httpx", "pygambit", "sqlalchemy", "msgspec")


def main(words: list[str]) -> None:
    chosen = [script for script in SCRIPTS if not words or any(word in script for word in words)]
    if not chosen:
        sys.exit(f"no measurement is called {' or '.join(words)}: there are {', '.join(SCRIPTS)}")
    sections = read_sections()
    for script in chosen:
        print(f"== {script}", flush=True)
        process = subprocess.Popen([sys.executable, str(HERE / script)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
        if process.wait() != 0:
            sys.exit(f"{script} failed with exit code {process.returncode}")
        printed = "".join(lines).strip()
        sections[script] = f"`python benchmarks/{script}`, {time.strftime('%Y-%m-%d')}, {machine()}\n\n{printed}\n"
        parts = [f"## {name}\n\n{sections[name]}" for name in SCRIPTS if name in sections]
        RESULTS.write_text(HEAD + "\n" + "\n".join(parts), encoding="utf-8")
    print(f"written to {RESULTS}")


HEAD = """# Measurements

Printed by `make bench` (`python benchmarks/run_all.py`); each section is the output of one script, one run. Ratios are
measured in one run on one machine; seconds differ between machines.
"""


def read_sections() -> dict[str, str]:
    """The sections of the last time: a partial run replaces only its own."""
    if not RESULTS.is_file():
        return {}
    parts = RESULTS.read_text(encoding="utf-8").split("\n## ")[1:]
    return {name: body.lstrip("\n").rstrip("\n") + "\n" for name, _, body in (part.partition("\n") for part in parts)}


def machine() -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PEERS if installed(name))
    return f"{os.cpu_count()} cores {platform.machine()}, Python {platform.python_version()}, {versions}"


def installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
