"""One seed tree for a whole run: every random choice has a path, so it does not depend on order or concurrency."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax
    import numpy as np

_BITS = 63  # fits a signed 64-bit column


def derive(seed: int, *path: object) -> int:
    """The seed at `path` below `seed`: a 63-bit integer, the same on every machine.

    >>> derive(0, "episode", 3) == derive(0, "episode", 3) != derive(0, "episode", 4)
    True
    """
    text = "\x1f".join(map(str, (seed, *path)))
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little") >> (
        64 - _BITS
    )


class SeedTree:
    """A node of the seed tree.

    >>> tree = SeedTree(0)
    >>> tree.child("train").seed("init") == derive(0, "train", "init")
    True
    """

    def __init__(self, root: int = 0, path: tuple[object, ...] = ()) -> None:
        self.root, self.path = root, path

    def child(self, *path: object) -> SeedTree:
        """The subtree at `path`."""
        return SeedTree(self.root, (*self.path, *path))

    def seed(self, *path: object) -> int:
        """A 63-bit integer seed for `path`."""
        return derive(self.root, *self.path, *path)

    def rng(self, *path: object) -> np.random.Generator:
        """A NumPy generator for `path`."""
        import numpy as np

        return np.random.default_rng(self.seed(*path))

    def key(self, *path: object) -> jax.Array:
        """A JAX key for `path`."""
        try:
            import jax
        except ImportError as error:
            from palestra.core.errors import MissingExtra

            raise MissingExtra("jax", "jax") from error
        return jax.random.key(self.seed(*path) & 0xFFFFFFFF)
