"""The registry finds systems by slug, ours and those that other packages bring."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from textwrap import dedent

import pytest

from palestra.core import registry
from palestra.core.errors import BadInput, PalestraError

MODULE = """
    from msgspec import Struct
    from palestra.core import Card

    CARD = Card("other", "Other", "B", "V", "games", "sum", ())
    PRESETS = {"smoke": {"rounds": 1}}

    class Config(Struct):
        rounds: int = 5

    async def run(run, config): ...
"""


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, EntryPoint]]:
    """Entry points of a package of somebody else, which the test fills."""
    (tmp_path / "palestra_other.py").write_text(dedent(MODULE))
    (tmp_path / "palestra_empty.py").write_text("CARD = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    found: dict[str, EntryPoint] = {}
    monkeypatch.setattr(registry, "entry_points", lambda group: list(found.values()) if group == registry.GROUP else [])

    def forget() -> None:
        for function in (registry.slugs, registry.system, registry._foreign):
            function.cache_clear()

    def add(name: str, module: str) -> None:
        found[name] = EntryPoint(name, module, registry.GROUP)
        forget()

    found_add = type("Points", (dict,), {"add": staticmethod(add)})
    yield found_add()
    forget()
    for name in ("palestra_other", "palestra_empty"):
        sys.modules.pop(name, None)


def test_our_systems_are_listed_without_being_imported() -> None:
    assert "rqe" in registry.slugs()
    assert list(registry.slugs()) == sorted(registry.slugs())
    assert not any(slug.startswith("-") for slug in registry.slugs())


def test_a_system_has_a_card_settings_and_presets() -> None:
    found = registry.system("rqe")
    assert found.card.slug == "rqe"
    for scale in ("smoke", "laptop", "paper"):
        assert isinstance(found.settings(scale, {}), found.config)


def test_an_unknown_slug_gets_the_nearest_one() -> None:
    with pytest.raises(BadInput, match="did you mean 'rqe'"):
        registry.system("rqee")


def test_another_package_brings_a_system(points) -> None:
    points.add("other", "palestra_other")
    assert "other" in registry.slugs()
    found = registry.system("other")
    assert found.card.title == "Other"
    assert found.settings("smoke", {}).rounds == 1  # type: ignore[attr-defined]
    assert found.settings("smoke", {"rounds": "9"}).rounds == 9  # type: ignore[attr-defined]
    assert found.settings("paper", {}).rounds == 5  # type: ignore[attr-defined]


def test_another_package_cannot_take_the_place_of_ours(points) -> None:
    points.add("rqe", "palestra_other")
    assert registry.system("rqe").card.slug == "rqe"


@pytest.mark.parametrize(
    ("module", "words"), [("palestra_gone", "cannot be loaded: No module named"), ("palestra_empty", "has no Config")]
)
def test_a_broken_package_is_one_clear_line(points, module: str, words: str) -> None:
    points.add("broken", module)
    with pytest.raises(PalestraError, match=words):
        registry.system("broken")
