"""Risk-averse quantal response equilibria: exact and learned solutions, the fit to people, the tractable region.

Paper: Mazumdar, Panaganti, Shi, "Tractable Multi-Agent Reinforcement Learning through Behavioral Economics", ICLR 2025.
The recipe measures the paper's statements on the published games, on random games and on the cliff-pair grid; given a
`game`, it solves (and with `fit` fits) that one instead.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from palestra.core.claims import Card, PaperClaim
from palestra.core.errors import BadInput, MissingExtra
from palestra.runner import Run

CARD = Card(
    slug="rqe",
    title="Risk-averse quantal response equilibria",
    authors="Mazumdar, Panaganti, Shi",
    venue="ICLR 2025",
    area="games",
    needs=("games",),
    link="arXiv:2406.14156",
    summary=(
        "Players who are averse to risk and boundedly rational have an equilibrium that no-regret learning finds in "
        "every finite game, whatever the payoffs, when both traits are strong enough; the same traits describe people."
    ),
    claims=(
        PaperClaim("exact_solutions", "The 13 laboratory games have an RQE for both pairs of penalties", "computable"),
        PaperClaim("pennies", "Matching pennies is played evenly at every risk aversion and rationality", "1/2, 1/2"),
        PaperClaim("logit_limit", "Without risk aversion an RQE is a logit equilibrium", "limit tau → 0"),
        PaperClaim("invariances", "Shifting payoffs, or scaling them with the traits, changes no policy", "exact"),
        PaperClaim("logit_peer", "Logit equilibria agree with pygambit's path follower", "within 1e-6"),
        PaperClaim("three_players", "With three players, learned and exact equilibrium coincide", "one equilibrium"),
        PaperClaim("cliff_pair", "Finite-horizon Markov games are solved by backward induction", "V1 = 0.82024"),
        PaperClaim(
            "no_regret_kl", "No-regret play finds the RQE in every game of the region: KL, log barrier", "100 %"
        ),
        PaperClaim("no_regret_reverse_kl", "The same for reverse KL and entropy", "100 %"),
        PaperClaim("beyond_the_region", "Far outside the region some games are not reached", "no guarantee"),
        PaperClaim(
            "fits_people",
            "Inside the tractable region RQE reproduces what people played (mean gap, 24 frequencies)",
            "Nash .0827, logit .0376, RQE .0026 / .0150",
        ),
        PaperClaim("sample_complexity", "With N draws a state-action pair the value error falls as 1/√N", "slope -1/2"),
        PaperClaim("speed", "A batch of 5x5 games against pygambit one at a time, seconds a game", "≥ 20x"),
    ),
)

SHAPES = {"3x3": (3, 3), "10x10": (10, 10), "4x4x4": (4, 4, 4)}
CLIFF_START = ((1, 0), (1, 3))  # positions of the two walkers
CLIFF_VALUE = 0.8202415623719634  # of both there, horizon 15, tau 0.1, eps 10; by exact backward induction
PRECISION = 1.12  # lambda of the logit figure below
LARGEST_GAPS = (0.0146, 0.086)  # of the two RQE fits
PUBLISHED_GAPS = {"nash": 0.0827, "logit": 0.0376, "kl": 0.0026, "reverse_kl": 0.0150}


class Config(Struct):
    """What is measured; with `game`, what is solved instead."""

    games: Annotated[int, Meta(ge=1, description="random games of each shape")] = 200
    starts: Annotated[int, Meta(ge=1, description="random starts in each game")] = 5
    iterations: Annotated[int, Meta(ge=1, description="limit of no-regret play, KL + log barrier")] = 4000
    slow_iterations: Annotated[int, Meta(ge=1, description="limit of no-regret play, reverse KL + entropy")] = 20_000
    far: Annotated[tuple[float, ...], Meta(description="condition numbers outside the region")] = (
        1e-4,
        1e-3,
        1e-2,
        0.1,
        0.3,
    )
    speed_games: Annotated[int, Meta(ge=1, description="games in the timed batch")] = 10_000
    peer_games: Annotated[int, Meta(ge=1, description="games that the peer is timed on")] = 200
    game: Annotated[str, Meta(description="solve this one: sc:1 … sc:12, ghp:4, a .nfg, .efg, .json or .npz file")] = ""
    fit: Annotated[bool, Meta(description="estimate the traits of the people who played `game`")] = False
    counts: Annotated[str, Meta(description="JSON file: for each player, how often each action was chosen")] = ""
    tau: Annotated[tuple[float, ...], Meta(description="risk aversion in `game`, one for all or one a player")] = (1.0,)
    eps: Annotated[tuple[float, ...], Meta(description="bounded rationality in `game`, likewise")] = (1.0,)
    penalty: Annotated[Literal["kl", "reverse_kl"], Meta(description="risk measure in `game`")] = "kl"
    method: Annotated[Literal["newton", "fixed_point", "no_regret"], Meta(description="solver of `game`")] = "newton"


PRESETS = {
    "smoke": {
        "games": 10,
        "starts": 2,
        "slow_iterations": 12_000,
        "far": (1e-4, 0.1),
        "speed_games": 2000,
        "peer_games": 20,
    },
    "paper": {"games": 1000, "slow_iterations": 40_000},
}


async def run(run: Run, config: Config) -> None:
    """Measure every claim, or solve the user's game."""
    if run.seed_count > 1:
        raise BadInput("seeds", run.seed_count, "1: every claim here counts over many random games of one seed")
    if config.game:
        solve(run, config)
        return
    with run.progress("exact checks", 6) as advance:
        exact(run, config, advance)
    regions = learning(run, config)
    people(run, regions)
    sampling(run, config)
    partners(run, config)


def exact(run: Run, config: Config, advance) -> None:
    """Claims that hold to rounding, or do not hold."""
    from palestra.envs.games import cliff_pair
    from palestra.learn.equilibria import RQEValueIteration, checks

    residual = checks.laboratory_residual()
    run.claim("exact_solutions", measured=residual, holds=residual <= 1e-10, evidence="exact", note="largest residual")
    error = checks.pennies_error(run.rng("pennies"))
    run.claim("pennies", measured=error, holds=error <= 1e-9, evidence="exact", note="largest deviation, 100 traits")
    advance(1)
    error = checks.logit_limit_error()
    run.claim("logit_limit", measured=error, holds=error <= 1e-6, evidence="exact", note="at tau = 1e-8, 12 games")
    advance(1)
    error = checks.invariance_error(run.rng("invariance"))
    run.claim("invariances", measured=error, holds=error <= 1e-9, evidence="exact", note="largest violation, 100 games")
    advance(1)
    try:
        error = checks.peer_error()
        run.claim("logit_peer", measured=error, holds=error <= 1e-6, evidence="exact", note="at lambda 1, 12 games")
        timed = checks.speed(run.rng("speed"), games=config.speed_games, peer_games=config.peer_games)
        run.claim(
            "speed",
            measured=timed["ratio"],
            holds=timed["ratio"] >= 20 and timed["residual"] <= 1e-8 and timed["disagreement"] <= 1e-6,
            evidence="exact",
            note=f"{timed['ours'] * 1e6:.0f} µs against {timed['peer'] * 1e6:.0f} µs, residual {timed['residual']:.0e}",
        )
    except MissingExtra as missing:
        for name in ("logit_peer", "speed"):
            run.claim(name, measured="not measured", holds=None, evidence="exact", note=str(missing))
    advance(1)
    error, _ = checks.three_player_error(run.rng("three players"))
    run.claim("three_players", measured=error, holds=error <= 1e-8, evidence="exact", note="2x2x2, exact - learned")
    advance(1)
    solution = RQEValueIteration(cliff_pair(), 0.1, 10, horizon=15).solve()
    value = float(solution.at(CLIFF_START)[0][0])
    holds = abs(value - CLIFF_VALUE) <= 1e-6 and solution.residual <= 1e-10
    run.claim(
        "cliff_pair", measured=round(value, 6), holds=holds, evidence="exact", note=f"residual {solution.residual:.0e}"
    )
    advance(1)


def learning(run: Run, config: Config) -> list:
    """Where no-regret play ends, inside the tractable region and far outside it."""
    from palestra.learn.equilibria import study

    limits = {"kl": config.iterations, "reverse_kl": config.slow_iterations}
    found = []
    with run.progress("no-regret play", 2 * (len(SHAPES) + 1)) as advance:
        for penalty, regulariser in study.PAIRS:
            options = {"pair": (penalty, regulariser), "games": config.games, "starts": config.starts}
            inside = []
            for name, sizes in SHAPES.items():
                seed = run.seeds.seed("games", penalty, name)
                inside += study.no_regret_map(
                    sizes=sizes, levels=(1.0,), iterations=limits[penalty], seed=seed, **options
                )
                advance(1)
            reached = min(one.reached for one in inside)
            run.claim(
                f"no_regret_{penalty}",
                measured=reached,
                holds=reached == 1.0 and all(one.solved == 1.0 for one in inside),
                evidence="exact",
                note=f"condition 1, {config.games} games each of {', '.join(SHAPES)}, {config.starts} starts; "
                f"at most {max(one.iterations[1] for one in inside)} iterations, worst distance "
                f"{max(one.worst for one in inside):.1e}",
            )
            seed = run.seeds.seed("far", penalty)
            found += inside
            found += study.no_regret_map(levels=config.far, iterations=limits[penalty], seed=seed, **options)
            advance(1)
    outside = [one for one in found if one.condition < 1]
    lowest = min(one.reached for one in outside)
    shown = "; ".join(f"{one.penalty} {one.condition:g}: {one.reached:.0%}" for one in outside)
    run.claim(
        "beyond_the_region", measured=lowest, holds=lowest < 1, evidence="exact", note=f"3x3, share reached: {shown}"
    )
    for one in found:
        run.log(f"reached/{one.penalty}/{'x'.join(map(str, one.sizes))}", one.reached, one.condition)
    return found


def people(run: Run, regions: list) -> None:
    """The gap between predicted and observed play, and where the fitted people lie."""
    from palestra.learn.equilibria import study

    table, best = study.gap_to_observed(precision=PRECISION), study.gap_to_observed()
    gaps = {name: table.gap(name)[0] for name in PUBLISHED_GAPS}
    largest = round(table.gap("kl")[1], 4), round(table.gap("reverse_kl")[1], 3)
    holds = {name: round(gap, 4) for name, gap in gaps.items()} == PUBLISHED_GAPS and largest == LARGEST_GAPS
    run.claim(
        "fits_people",
        measured=f"Nash {gaps['nash']:.4f}, logit {gaps['logit']:.4f}, RQE {gaps['kl']:.4f} / {gaps['reverse_kl']:.4f}",
        holds=holds,
        evidence="exact",
        note=f"12 games, logit at lambda {PRECISION} (the best one is {best.precision:.3f}: {best.gap('logit')[0]:.4f}); largest gaps of RQE {table.gap('kl')[1]:.4f}, "
        f"{table.gap('reverse_kl')[1]:.4f}",
    )
    run.figure("tractable_region", study.region_figure(study.tractable_region(), regions))


def sampling(run: Run, config: Config) -> None:
    """How the error of sampled value iteration falls."""
    from palestra.learn.equilibria import study

    measured = study.sample_complexity(seed=run.seeds.seed("samples"))
    low, high = measured.slope - 2 * measured.slope_error, measured.slope + 2 * measured.slope_error
    run.claim(
        "sample_complexity",
        measured=measured.slope,
        interval=(low, high),
        holds=abs(measured.slope + 0.5) <= 0.1,
        evidence="exact",
        note=f"N = {measured.samples.min()} … {measured.samples.max()}; holds within ±0.1",
    )
    for draws, error in zip(measured.samples, measured.error, strict=True):
        run.log("sampling/error", float(error), float(draws))


def partners(run: Run, config: Config) -> None:
    """What a row player earns on random 2x2 games, by its own concept and its partner's: a table in the report."""
    from palestra.learn.equilibria import study

    table = study.cross_play(games=config.games, seed=run.seeds.seed("cross play"))
    columns = [*(f"with {concept}" for concept in table.concepts), "worst case"]
    rows = [f"{'':8}" + "".join(f"{column:>12}" for column in columns)]
    for concept, means, worst in zip(table.concepts, table.mean, table.worst, strict=True):
        rows.append(f"{concept:8}" + "".join(f"{value:12.4f}" for value in (*means, worst)))
    title = f"Cross-play: mean payoff of the row player over {table.games} random 2x2 games, payoffs in [0, 1]"
    run.report("\n".join([title, *rows]))


def solve(run: Run, config: Config) -> None:
    """Solve one game, or fit its players' traits, and keep the answer as a file of the run."""
    from palestra.envs.games import MarkovGame
    from palestra.learn.equilibria import fit_rqe, rqe

    game = load(config.game)
    if isinstance(game, MarkovGame):
        raise BadInput("game", config.game, "a matrix game (RQEValueIteration solves Markov games in Python)")
    regulariser = "log_barrier" if config.penalty == "kl" else "entropy"
    lines = [repr(game)]
    tau, eps = (list(values) * (game.num_players if len(values) == 1 else 1) for values in (config.tau, config.eps))
    if config.fit:
        fitted = fit_rqe(
            game,
            counts(game, config.counts),
            penalty=config.penalty,
            regulariser=regulariser,
            seed=run.seeds.seed("fit"),
        )
        tau, eps = list(fitted.tau), list(fitted.eps)
        lines.append(repr(fitted))
    solved = rqe(game, tau, eps, penalty=config.penalty, regulariser=regulariser, method=config.method, tol=1e-10)
    lines.append(repr(solved))
    run.report("\n\n".join(lines))


def load(name: str):
    """The game called `sc:K` or `ghp:K`, or the one in a file."""
    from palestra.envs.games import ghp, load_game, selten_chmura

    laboratory = {f"sc:{k}": partial(selten_chmura, k) for k in range(1, 13)} | {"ghp:4": partial(ghp, 4)}
    if name in laboratory:
        return laboratory[name]()
    if ":" in name and not Path(name).exists():
        raise BadInput("game", name, "sc:1 … sc:12, ghp:4 or a file", choices=laboratory)
    return load_game(name)


def counts(game, file: str):
    """How often each action was chosen: from a JSON file, else those of the laboratory."""
    import msgspec

    if file:
        try:
            return msgspec.json.decode(Path(file).read_bytes(), type=list[list[float]])
        except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
            raise BadInput("counts", file, f"a JSON file of one list of counts a player ({error})") from None
    if not hasattr(game, "counts"):
        raise BadInput("counts", file, "a JSON file of one list of counts a player, since this game brings none")
    return game.counts()
