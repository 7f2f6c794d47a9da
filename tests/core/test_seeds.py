"""The seed tree: a path decides a seed, and nothing else does."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from palestra.core import SeedTree, derive

STEPS = st.one_of(st.text(max_size=8), st.integers())


def test_values_are_the_same_on_every_machine() -> None:
    assert derive(0) == 4246866556266386882
    assert derive(0, "episode", 3) == 8514132845105088329
    assert derive(2**70, "x") == derive(2**70, "x")


def test_another_process_derives_the_same_seed() -> None:
    code = "from palestra.core import derive; print(derive(7, 'a', 1))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(shown) == derive(7, "a", 1)


@given(st.integers(), st.lists(STEPS, max_size=4), st.lists(STEPS, max_size=4))
def test_a_child_has_the_seed_of_its_whole_path(root: int, path: list[object], rest: list[object]) -> None:
    assert SeedTree(root).child(*path).seed(*rest) == derive(root, *path, *rest)


@given(st.integers(), st.lists(STEPS, max_size=4))
def test_seeds_fit_a_signed_64_bit_column(root: int, path: list[object]) -> None:
    assert 0 <= derive(root, *path) < 2**63


def test_ten_thousand_paths_have_ten_thousand_seeds() -> None:
    assert len({derive(0, "task", number) for number in range(10_000)}) == 10_000


def test_order_of_use_changes_nothing() -> None:
    tree = SeedTree(1)
    first = tree.rng("a").random()
    tree.rng("b").random(100)
    assert tree.rng("a").random() == first
    assert tree.rng("b").random() != first


def test_a_path_may_hold_half_a_surrogate_pair() -> None:
    assert derive(0, "\ud800") != derive(0, "\ud801")
