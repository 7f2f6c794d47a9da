"""Prices come from the user's file alone."""

import pytest

from palestra.core.errors import BadInput
from palestra.core.records import Usage
from palestra.models.prices import Price, load_prices, price_of

TOML = '["openai/gpt-x"]\ninput = 2\noutput = 8.0\ncached = 0.5\n[local]\ninput = 0\noutput = 0\n'
JSON = '{"openai/gpt-x": {"input": 2, "output": 8.0, "cached": 0.5}, "local": {"input": 0, "output": 0}}'


@pytest.mark.parametrize("name, text", [("prices.toml", TOML), ("prices.json", JSON)])
def test_a_file_is_read_as_toml_or_json(tmp_path, name, text, monkeypatch):
    (tmp_path / name).write_text(text)
    expected = {"openai/gpt-x": Price(2.0, 8.0, 0.5), "local": Price(0.0, 0.0)}
    assert load_prices(tmp_path / name) == expected
    monkeypatch.setenv("PALESTRA_PRICES", str(tmp_path / name))
    assert load_prices() == expected


def test_without_a_file_nothing_has_a_price(monkeypatch):
    monkeypatch.delenv("PALESTRA_PRICES", raising=False)
    assert load_prices() == {}
    assert price_of({}, "x") is None


def test_cached_tokens_have_their_own_price_and_else_that_of_input():
    usage = Usage(1, 1_000_000, 500_000, 400_000)
    assert Price(2.0, 8.0, 0.5).cost(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 8)
    assert Price(2.0, 8.0).cost(usage) == pytest.approx(2 + 4)


@pytest.mark.parametrize(
    "text",
    ["[m]\ninput = 1", "[m]\ninput = -1\noutput = 1", "[m]\ninput = 1\noutput = 1\nfee = 1", "m = 3", "\x00", "[m"],
)
def test_a_file_that_is_no_price_table_is_one_clear_line(tmp_path, text):
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(BadInput, match="prices=") as found:
        load_prices(file)
    assert "\n" not in str(found.value)


def test_a_missing_file_is_one_clear_line(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        load_prices(tmp_path / "none.toml")
