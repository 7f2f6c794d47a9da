from hypothesis import given
from hypothesis import strategies as st

from palestra.tools.output import HeadTail


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 50))
def test_what_fits_is_kept_whole_and_what_does_not_keeps_its_ends(parts, limit):
    whole = b"".join(parts)
    kept = HeadTail(limit)
    for part in parts:
        kept.add(part)
    if len(whole) <= limit:
        assert not kept.truncated
        assert kept.text == whole.decode("utf-8", "backslashreplace")
    else:
        assert kept.truncated
        assert kept.text.startswith(whole[: limit - limit // 2].decode("utf-8", "backslashreplace"))
        assert kept.text.endswith(whole[len(whole) - limit // 2 :].decode("utf-8", "backslashreplace"))
        assert f"[{len(whole) - limit} bytes left out]" in kept.text
