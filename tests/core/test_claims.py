"""Claims: what a card states, and how a measured one reads."""

import msgspec
import pytest

from palestra.core import Card, ClaimResult, PaperClaim
from palestra.core.errors import BadInput

CARD = Card("s", "T", "A", "V", "games", "sum", (PaperClaim("gain", "It gains.", "5 %"), PaperClaim("cost", "C", "2x")))


def _result(**changes: object) -> ClaimResult:
    values = {"measured": 0.51234567, "holds": True, "evidence": "exact", "scale": "smoke"} | changes
    return ClaimResult("gain", "It gains.", "5 %", **values)  # type: ignore[arg-type]


def test_a_claim_is_found_by_name() -> None:
    assert CARD.claim("cost").paper == "2x"
    with pytest.raises(BadInput, match="did you mean 'gain'"):
        CARD.claim("gains")


@pytest.mark.parametrize(
    ("holds", "verdict"), [(True, "holds"), (False, "does not hold"), (None, "not shown at this scale")]
)
def test_a_verdict_in_words(holds: bool | None, verdict: str) -> None:
    assert _result(holds=holds).verdict == verdict


def test_a_measured_value_is_shown_with_its_interval() -> None:
    assert _result().shown == "0.5123"
    assert _result(interval=(0.4, 0.6123)).shown == "0.5123 [0.4, 0.612]"
    assert _result(measured="3 of 4").shown == "3 of 4"


def test_evidence_is_one_of_four_words() -> None:
    with pytest.raises(BadInput, match="did you mean 'real model'"):
        _result(evidence="real modl")


def test_a_result_survives_json() -> None:
    result = _result(details={"a": [1]}, interval=(0.1, 0.2))
    assert msgspec.json.decode(msgspec.json.encode(result), type=ClaimResult) == result
