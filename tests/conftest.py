"""What tests of several rooms share: a store in a fresh folder, agents and tasks small enough to read at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from palestra.store import Store


@pytest.fixture(autouse=True)
def _no_store_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the store that the user's environment names."""
    monkeypatch.setenv("PALESTRA_STORE", str(tmp_path / "default" / "store.db"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new, empty store."""
    opened = Store(tmp_path / "store.db")
    yield opened
    opened.close()
