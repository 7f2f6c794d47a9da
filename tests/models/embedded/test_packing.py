"""Options packed into one row see the prefix and themselves only; single-token options add nothing to it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from palestra.models.embedded.packing import batches, mask, pack

tokens = st.lists(st.integers(0, 99), min_size=1, max_size=6)


def test_single_token_options_need_the_prefix_alone():
    (row,) = pack([1, 2, 3], [[7], [8], [9]], item=0, together=False)
    assert row.tokens == [1, 2, 3]
    assert [(need.place, need.token) for need in row.needs] == [(2, 7), (2, 8), (2, 9)]


@given(tokens, st.lists(tokens, min_size=1, max_size=5), st.booleans())
def test_every_option_token_is_asked_for_once_after_what_precedes_it(prefix, options, together):
    rows = pack(prefix, options, item=3, together=together)
    found = {}
    for row in rows:
        seen = mask([row], torch)
        for need in row.needs:
            visible = [place for place in range(need.place + 1) if seen is None or bool(seen[0, 0, need.place, place])]
            context = [row.tokens[place] for place in visible]
            assert [row.positions[place] for place in visible] == list(range(len(visible)))
            found.setdefault(need.option, []).append((context, need.token))
    expected = {
        number: [(prefix + option[:place], option[place]) for place in range(len(option))]
        for number, option in enumerate(options)
    }
    assert {number: sorted(pairs, key=lambda pair: len(pair[0])) for number, pairs in found.items()} == expected


@given(st.lists(tokens, min_size=1, max_size=12))
def test_batches_hold_every_row_once_and_stay_small(prefixes):
    rows = [pack(prefix, [[1]], item=number, together=True)[0] for number, prefix in enumerate(prefixes)]
    made = batches(rows, tokens=12)
    assert sorted(row.needs[0].item for batch in made for row in batch) == list(range(len(prefixes)))
    assert all(len(batch) == 1 or len(batch) * max(len(row.tokens) for row in batch) <= 12 for batch in made)
