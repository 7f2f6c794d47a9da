"""Any refusal is one typed error in one line."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palestra.core.errors import ModelError
from palestra.models.faults import Source, Unsupported, fault

SOURCE = Source("http://h/v1", "m", "PALESTRA_API_KEY", False)
TEXTS = st.text(max_size=30) | st.sampled_from(["context length", "unsupported top_k", "prompt too long: 9"])
ERRORS = st.dictionaries(
    st.sampled_from(["error", "message", "detail", "code", "type", "param", "n_ctx", "n_prompt_tokens"]),
    st.recursive(
        st.none() | TEXTS | st.integers(0, 9),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["message", "code"]), inner),
    ),
    max_size=4,
)


@given(
    status=st.integers(300, 599),
    body=st.binary(max_size=80) | ERRORS.map(msgspec.json.encode),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset-requests", "location"]),
        st.text(max_size=30) | st.floats().map(str),
        max_size=3,
    ),
)
def test_any_refusal_is_one_line_of_a_typed_error(status, body, headers):
    error = fault(status, headers, body, SOURCE)
    assert isinstance(error, ModelError)
    assert str(error).isprintable()
    assert len(str(error)) < 500
    wait = getattr(error, "retry_after", None)
    assert wait is None or 0 <= wait < float("inf")


def test_without_a_key_the_line_names_the_variable_to_set():
    assert "needs a key: set PALESTRA_API_KEY" in str(fault(401, {}, b"", SOURCE))


def test_only_a_parameter_that_is_said_to_be_unsupported_is_dropped():
    assert isinstance(
        fault(400, {}, b'{"error": "Unrecognized request argument supplied: top_k"}', SOURCE), Unsupported
    )
    detail = b'{"detail": [{"loc": ["body", "min_p"], "msg": "Extra inputs are not permitted"}]}'
    assert isinstance(fault(422, {}, detail, SOURCE), Unsupported)
    assert not isinstance(fault(400, {}, b'{"error": "temperature must be at most 2"}', SOURCE), Unsupported)
    assert not isinstance(fault(400, {}, b'{"error": "response_format is not supported"}', SOURCE), Unsupported)
