"""Which slot of the llama.cpp server serves whom: with affinity, a debater finds its own conversation still cached."""

from __future__ import annotations

from collections.abc import Hashable


class SlotTable:
    """Gives every owner a slot of its own, and keeps it as long as there are slots enough.

    When owners outnumber slots, the slot that was used longest ago changes hands; busy ones only when all are.

    >>> table = SlotTable(2)
    >>> [table.take(name) for name in ("ann", "bob", "ann")]
    [0, 1, 0]
    """

    def __init__(self, slots: int) -> None:
        self._owner: list[Hashable | None] = [None] * slots
        self._busy = [0] * slots
        self._used = list(range(-slots, 0))  # when each was last taken
        self._clock = 0

    def take(self, owner: Hashable) -> int:
        """The slot of `owner`; give it back with `give`."""
        slot = self._owner.index(owner) if owner in self._owner else self._free()
        self._owner[slot] = owner
        self._busy[slot] += 1
        self._used[slot] = self._clock
        self._clock += 1
        return slot

    def give(self, slot: int) -> None:
        """One call on `slot` has ended."""
        self._busy[slot] -= 1

    def _free(self) -> int:
        return min(range(len(self._owner)), key=lambda slot: (self._busy[slot] > 0, self._used[slot]))
