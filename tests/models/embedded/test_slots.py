"""Every owner keeps a slot of its own as long as there are slots enough."""

from hypothesis import given
from hypothesis import strategies as st

from palestra.models.embedded.slots import SlotTable


@given(st.lists(st.integers(0, 3), max_size=40))
def test_with_slots_enough_an_owner_never_moves(owners):
    table, seen = SlotTable(4), {}
    for owner in owners:
        slot = table.take(owner)
        table.give(slot)
        assert seen.setdefault(owner, slot) == slot
    assert len(set(seen.values())) == len(seen)


def test_the_slot_used_longest_ago_changes_hands_and_busy_ones_last():
    table = SlotTable(2)
    first = table.take("ann")
    second = table.take("bob")
    table.give(second)
    assert table.take("cid") == second  # ann's is older, but busy
    assert table.take("dan") == first  # all are busy
