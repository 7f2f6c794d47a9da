"""The project keeps its own rules: floors, file sizes, no machine paths, every system complete, README as tested."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from palestra.core import slugs

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LINES = 400
TEXTS = {".py", ".md", ".toml", ".yml", ".yaml", ".txt", ".json", ".html", ".css", ".js", ".cfg", ""}
# A path of some machine's own, in a text: home folders, and the roots people check projects out under.
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|Users|work|workspace|mnt|opt)/\w")
STUB = re.compile(r"\b(?:TODO|FIXME|XXX)\b|raise NotImplementedError")


def tracked() -> list[Path]:
    """Text files of the project: those git knows or would add."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    found = [ROOT / name for name in done.stdout.splitlines()]
    return [path for path in found if path.suffix in TEXTS and path.is_file() and path != Path(__file__)]


def test_imports_run_downwards_through_the_floors():
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def test_no_source_file_is_longer_than_400_lines():
    long = {
        str(path.relative_to(ROOT)): count for path in SOURCES if (count := len(path.read_text().splitlines())) > LINES
    }
    assert long == {}


def test_every_module_says_what_it_is():
    texts = {str(path.relative_to(ROOT)): path.read_text().strip() for path in SOURCES}
    silent = [name for name, text in texts.items() if text and not text.startswith('"""')]
    assert silent == []


def test_no_file_names_a_path_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked()
        for match in MACHINE_PATH.finditer(path.read_text(errors="replace"))
    ]
    assert found == []


def test_nothing_is_left_undone():
    found = [str(path.relative_to(ROOT)) for path in SOURCES if STUB.search(path.read_text())]
    assert found == []


@pytest.mark.parametrize("slug", slugs())
def test_every_system_has_a_page_an_example_and_a_test(slug):
    name = slug.replace("-", "_")
    tests = [ROOT / "tests" / "systems" / f"test_{name}.py", ROOT / "tests" / "systems" / name]
    assert (ROOT / "docs" / "systems" / f"{slug}.md").is_file()
    assert list((ROOT / "examples").glob(f"{name}*.py"))
    assert any(path.exists() for path in tests)


def test_the_readme_shows_code_that_the_tests_run():
    blocks = re.findall(
        r"<!-- (examples/\w+\.py) -->\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert len(blocks) >= 4
    differing = [name for name, code in blocks if code.rstrip() not in (ROOT / name).read_text()]
    assert differing == []


def test_the_documentation_is_about_options_that_exist():
    from typer.main import get_command

    from palestra.cli.main import app

    commands = get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    texts = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for path in texts:
        shells = "\n".join(re.findall(r"```console\n(.*?)```", path.read_text(), re.DOTALL))
        for command, rest in re.findall(r"^(?:\$ )?palestra (\w+)([^#\n]*)", shells, re.MULTILINE):
            where = f"{path.relative_to(ROOT)}: palestra {command}{rest}"
            assert command in commands, where
            known = {option for parameter in commands[command].params for option in parameter.opts}
            assert set(re.findall(r"(?<!\S)--[\w-]+", rest)) <= known, where


def test_a_tested_version_is_pinned_for_every_dependency():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    pinned = {
        re.split("==", line)[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()
    }
    names = {re.split(r"[\[<>=~ ]", line)[0].lower().replace("_", "-") for line in wanted}
    assert names - {"palestra"} <= pinned
