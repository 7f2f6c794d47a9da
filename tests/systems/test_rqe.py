"""The rqe recipe through the command line: every claim of the card is measured, and those that are exact hold."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from palestra.cli.main import app
from palestra.core.errors import BadInput
from palestra.systems.rqe import CARD, counts, load

SMALL = ("--games", "3", "--starts", "2", "--far", "1e-4", "--speed-games", "500", "--peer-games", "5")


@pytest.mark.slow
def test_a_smoke_run_measures_every_claim(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["run", "rqe", "--scale", "smoke", *SMALL, "--store", str(tmp_path / "runs.db"), "--json"]
    )
    assert result.exit_code == 0, result.output
    outcome = json.loads(result.stdout)
    claims = {claim["name"]: claim for claim in outcome["claims"]}
    assert set(claims) == {claim.name for claim in CARD.claims}
    exact = {"exact_solutions", "pennies", "logit_limit", "invariances", "three_players", "cliff_pair", "fits_people"}
    if find_spec("pygambit"):
        exact.add("logit_peer")
    assert {name for name in exact if claims[name]["holds"] is not True} == set()
    assert claims["no_regret_kl"]["holds"] is True
    assert (next(tmp_path.glob("rqe-*")) / "tractable_region.svg").is_file()
    rows = [line.split()[0] for line in outcome["report"].splitlines()[2:]]
    assert rows == ["rqe", "nash", "logit"]  # the table of partners


def test_laboratory_games_go_by_short_names() -> None:
    assert load("sc:7").name == "Selten-Chmura 7"
    with pytest.raises(BadInput, match="did you mean 'sc:"):
        load("sc:13")


def test_counts_come_from_a_file_or_the_laboratory(tmp_path: Path) -> None:
    game = load("sc:1")
    assert [round(float(total.sum())) for total in counts(game, "")] == [9600, 9600]
    file = tmp_path / "counts.json"
    file.write_text("[[3, 7], [5, 5]]")
    assert counts(game, str(file)) == [[3, 7], [5, 5]]
    file.write_text("[[3, 'x']]")
    with pytest.raises(BadInput, match="JSON file"):
        counts(game, str(file))
    with pytest.raises(BadInput, match="JSON file"):
        counts(game, str(tmp_path / "missing.json"))
