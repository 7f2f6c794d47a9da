"""Diverse multi-agent debate: debaters who must reason in different ways correct one another where copies cannot.

Paper: Liu, Cao, Li, He, Tan, "Breaking Mental Set to Improve Reasoning through Diverse Multi-Agent Debate", ICLR 2025.
The recipe checks the protocol, shows the mechanism on simulated debaters, debates real questions with the chosen model,
and measures what a prefix cache saves.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from palestra.core.claims import Card, PaperClaim
from palestra.core.errors import BadInput, MissingExtra
from palestra.core.records import Sampling
from palestra.core.tasks import Benchmark
from palestra.runner import Run
from palestra.runner.executors import Local

CARD = Card(
    slug="dmad",
    title="Diverse multi-agent debate",
    authors="Liu, Cao, Li, He, Tan",
    venue="ICLR 2025",
    area="debate",
    needs=("lm",),
    roles=("judge", "grader"),
    link="https://github.com/MraDonkey/DMAD",
    summary=(
        "Debaters that must use different reasoning methods (steps, principles, programs) break the mental set of "
        "debaters that all think alike: the team is right more often, in fewer rounds."
    ),
    claims=(
        PaperClaim(
            "protocol", "Rounds are simultaneous; three text methods in three rounds take 15 calls", "Algorithm 1"
        ),
        PaperClaim(
            "diverse_beats_same",
            "Simulated debaters with blind spots: diverse methods beat every single-method debate",
            "56.54 against 55.47 and 53.10 % (GPT-4o-mini)",
        ),
        PaperClaim(
            "fewer_rounds", "Simulated: two rounds of diverse debate beat three of single-method debate", "fewer rounds"
        ),
        PaperClaim("beats_mad", "With this model, diverse debate beats single-method debate", "56.54 against 55.47 %"),
        PaperClaim("programs", "Executed programs answer at least as well as chains of thought", "not in the paper"),
        PaperClaim("cache_tokens", "A cache slot a debater: share of prompt tokens evaluated", "not in the paper"),
        PaperClaim("cache_time", "A cache slot a debater: wall time of re-prompting over cached", "not in the paper"),
    ),
)

Task = Literal["arithmetic", "logic", "math", "gpqa", "scienceqa", "mm-vet"]
Baseline = Literal["mad", "persona", "self_refine", "self_contrast", "mrp"]
Positive = Annotated[int, Meta(ge=1)]
GAIN = 0.08  # the least lead over every single-method debate that counts as shown, simulated
TOKENS, SPEEDUP = 0.45, 1.3  # cached over naive prompt tokens; naive over cached wall time
FEWEST = 20  # items below which a comparison of accuracies shows nothing
CACHE_SCALE = (3, 3)  # debaters and rounds that the two bounds are about


class Config(Struct):
    """What is debated, by whom, and how much is measured."""

    task: Annotated[Task, Meta(description="the questions")] = "arithmetic"
    source: Annotated[str, Meta(description="file, folder or hub id, for tasks that read one")] = ""
    items: Annotated[Positive | None, Meta(description="questions; null for all of a source")] = 60
    level: Annotated[int, Meta(ge=1, le=4, description="of arithmetic")] = 1
    methods: Annotated[tuple[str, ...], Meta(description="one debater each")] = ("cot", "step_back", "pot")
    rounds: Annotated[int, Meta(ge=1, description="of the debates")] = 2
    history: Annotated[Literal["as_sent", "plain"], Meta(description="how debaters see their own turns")] = "as_sent"
    early_stop: Annotated[bool, Meta(description="end a debate on consensus")] = False
    baselines: Annotated[tuple[Baseline, ...], Meta(description="teams to compare with")] = ("mad",)
    examples: Annotated[int, Meta(ge=0, le=9, description="worked examples, of arithmetic only")] = 3
    temperature: Annotated[float, Meta(ge=0, description="of every reply")] = 0.3
    max_tokens: Annotated[int, Meta(ge=1, description="of every reply")] = 32
    problems: Annotated[int, Meta(ge=100, description="simulated, vectorised")] = 20_000
    debated: Annotated[int, Meta(ge=1, description="simulated, through the real debate")] = 500
    cache_tokens: Annotated[tuple[int, ...], Meta(description="reply lengths of the cache measurement")] = (32, 96)
    cache_agents: Annotated[int, Meta(ge=2, description="debaters of it")] = 3
    cache_rounds: Annotated[int, Meta(ge=1, description="rounds of it")] = 3
    cache_repeat: Annotated[bool, Meta(description="run its shortest replies twice and compare the texts")] = True


PRESETS: dict[str, dict[str, Any]] = {
    "smoke": {
        "items": 1,
        "examples": 1,
        "max_tokens": 18,
        "problems": 2000,
        "debated": 50,
        "cache_tokens": (4,),
        "cache_agents": 2,
        "cache_rounds": 2,
        "cache_repeat": False,
    },
    "paper": {
        "rounds": 3,
        "max_tokens": 2048,
        "items": None,
        "examples": 0,
        "debated": 2000,
        "baselines": ("mad", "persona", "self_refine", "self_contrast", "mrp"),
    },
}


async def run(run: Run, config: Config) -> None:
    """Measure every claim."""
    task = questions(run, config)  # first: a wrong file or team is said before anything is measured
    players, executor = make_teams(run, config, task)
    await protocol(run)
    await simulated(run, config)
    await debates(run, config, task, players, executor)
    await caching(run, config)


def questions(run: Run, config: Config) -> Benchmark:
    """The benchmark to debate."""
    from palestra import bench

    seed = run.seeds.seed("items")
    if config.task in ("arithmetic", "logic"):
        if config.source:
            raise BadInput("source", config.source, f"none: {config.task} is generated")
        n = 60 if config.items is None else config.items
        return (
            bench.arithmetic(n, seed=seed, level=config.level)
            if config.task == "arithmetic"
            else bench.logic(n, seed=seed)
        )
    if not config.source:
        raise BadInput("source", config.source, f"a file, folder or hub id with {config.task}")
    settings: dict[str, Any] = {"n": config.items, "seed": seed}
    if config.task == "mm-vet":
        settings["grader"] = run.model("grader")
    return bench.CATALOG[config.task](config.source, **settings)


async def protocol(run: Run) -> None:
    """Calls, leaks and losses of a debate on a scripted model."""
    from palestra.analysis.debate_protocol import check_protocol

    found = await check_protocol(rounds=3)
    run.claim(
        "protocol",
        measured=f"{found.calls} calls, {found.leaks} leaks, {found.losses} losses",
        holds=(found.calls, found.leaks, found.losses) == (15, 0, 0),
        evidence="exact",
        note="a leak is a peer's message of the running round, a loss a missing one of an earlier round",
    )


async def simulated(run: Run, config: Config) -> None:
    """Debaters with blind spots: vectorised, and the same error model through the real debate."""
    from palestra import teams
    from palestra.analysis import debate_results, debate_simulation

    rng = run.rng("simulated")
    dmad = debate_simulation.simulate([0, 1, 2], rng=rng, problems=config.problems)
    same = [debate_simulation.simulate([k] * 3, rng=rng, problems=config.problems) for k in range(3)]
    curves = {"dmad": dmad.mean(axis=1), **{f"all method {k}": one.mean(axis=1) for k, one in enumerate(same)}}
    best = max(same, key=lambda one: one[-1].mean())
    gain, interval = debate_results.difference(dmad[-1], best[-1], rng=rng)
    early, early_interval = debate_results.difference(dmad[1], best[-1], rng=rng)

    task, key = debate_simulation.problems(config.debated, seed=run.seeds.seed("problems"))
    debaters = [debate_simulation.SimulatedReasoner(k, key) for k in range(3)]
    pair = {"dmad": teams.Debate(debaters), "all method 0": teams.MAD(debaters[0])}
    result = await run.evaluate(pair, task, name="simulated", seeds=1)
    gold = {one.id: str(one.item.answer) for one in task}
    real = {
        name: debate_results.Debates(result.episodes(lambda one, name=name: one.agent == name), gold).accuracy()
        for name in pair
    }
    shown = ", ".join(f"{name} {'/'.join(f'{value:.3f}' for value in values)}" for name, values in curves.items())
    through = ", ".join(f"{name} {'/'.join(f'{value:.3f}' for value in values)}" for name, values in real.items())
    run.claim(
        "diverse_beats_same",
        measured=gain,
        interval=interval,
        holds=gain >= GAIN and interval[0] > 0,
        evidence="simulated model",
        note=f"lead in round 3 over the best single method; by round: {shown}; {config.debated} through the debate: {through}",
    )
    run.claim(
        "fewer_rounds",
        measured=early,
        interval=early_interval,
        holds=debate_results.verdict(early_interval),
        evidence="simulated model",
        note="lead of round 2 over round 3 of the best single method",
    )
    run.figure("simulated_rounds", debate_results.rounds_figure(curves, title="Debaters with blind spots (simulated)"))
    for name, values in curves.items():
        for number, value in enumerate(values, 1):
            run.log(f"simulated/{name}", value, number)


async def debates(run: Run, config: Config, task: Benchmark, players: dict[str, Any], executor: Local | None) -> None:
    """The chosen model on the chosen questions."""
    from palestra.analysis import debate_results
    from palestra.analysis.debate import choose_methods

    result = await run.evaluate(players, task, name="debates", executor=executor)
    gold = {one.id: str(one.item.answer) for one in task}
    teams = {
        name: debate_results.Debates(result.episodes(lambda one, name=name: one.agent == name), gold)
        for name in players
        if name in ("dmad", "mad")
    }
    dmad = teams["dmad"]
    alone = {name: dmad.alone(name) for name in config.methods}
    shares = {f"{name} alone (round 1)": debate_results.Share.of(right) for name, right in alone.items()}
    if "mad" in teams:
        shares[f"self-consistency, 3 x {config.methods[0]} (round 1)"] = debate_results.Share.of(
            teams["mad"].decided(0)
        )
    lines = [f"{task.name}, {len(dmad.keys)} items, {run.model('default').name}; accuracy with 95 % interval", ""]
    for name, debated in teams.items():
        shares[f"{name}, round {config.rounds}"] = debate_results.Share.of(debated.decided())
    lines += [f"{name:42} {share}" for name, share in shares.items()]
    lines += [f"{name:42} {one.score:.3f} [{one.low:.3f}, {one.high:.3f}]" for name, one in result.summary().items()
              if name not in teams]  # fmt: skip
    for name, debated in teams.items():
        lines += ["", f"{name}: {debated.calls():.1f} calls a debate"]
        lines.append(f"  accuracy by round   {', '.join(f'{value:.3f}' for value in debated.accuracy())}")
        lines.append(f"  disagreement        {', '.join(f'{value:.3f}' for value in debated.diversity())}")
        lines += [f"  flips               {one.wrong_to_right} of {one.wrong} wrong mended, {one.right_to_wrong} of "
                  f"{one.right} right lost" for one in debated.flips()]  # fmt: skip
        for number, value in enumerate(debated.accuracy(), 1):
            run.log(f"debates/{name}", value, number)
    if len(config.methods) > 2:
        lines += ["", f"pair that complements best on these items: {', '.join(choose_methods(alone, n=2))}"]
    run.report("\n".join(lines))
    curves = {name: debated.accuracy() for name, debated in teams.items()}
    run.figure("debate_rounds", debate_results.rounds_figure(curves, title=f"{task.name}, {run.model('default').name}"))
    keep_records(run, task, dmad)

    if "mad" in teams:
        gap, interval = debate_results.difference(*dmad.paired(teams["mad"]), rng=run.rng("beats_mad"))
        run.claim(
            "beats_mad",
            measured=gap,
            interval=interval,
            holds=debate_results.verdict(interval) if len(dmad.keys) >= FEWEST else None,
            evidence="real model",
            note=f"dmad {shares[f'dmad, round {config.rounds}']}, mad {shares[f'mad, round {config.rounds}']}; "
            f"alone: {', '.join(f'{name} {sum(right) / len(right):.3f}' for name, right in alone.items())}",
        )
    if {"cot", "pot"} <= set(config.methods):
        gap, interval = debate_results.difference(dmad.executed("pot"), alone["cot"], rng=run.rng("programs"))
        run.claim(
            "programs",
            measured=gap,
            interval=interval,
            holds=gap >= 0 if len(dmad.keys) >= FEWEST else None,
            evidence="real model",
            note=f"executed {debate_results.Share.of(dmad.executed('pot'))}, cot {shares['cot alone (round 1)']}",
        )


def make_teams(run: Run, config: Config, task: Benchmark) -> tuple[dict[str, Any], Local | None]:
    """The diverse team and what it is compared with; for the embedded model also how many episodes at a time."""
    from palestra import agents, bench, judges, teams, tools

    for name in config.methods:
        if agents.method(name).needs_image and not task.items[0].images:
            raise BadInput("methods", name, f"methods without image: {task.name} has none")
    sampling = Sampling(temperature=config.temperature, max_tokens=config.max_tokens)
    box = tools.Sandbox() if "pot" in config.methods else None
    examples = config.examples if config.task == "arithmetic" else 0

    def debater(model: Any, method: str) -> Any:
        shown = bench.worked_examples(method, level=config.level, n=examples) if examples else ()
        return agents.Reasoner(model, method, examples=shown, sampling=sampling, sandbox=box)

    open_answers = task.items[0].info.get("kind") == "open"
    settings = {
        "rounds": config.rounds,
        "history": config.history,
        "early_stop": config.early_stop,
        "judge": judges.pick_best(run.model("judge")) if open_answers else judges.majority(),
    }
    first, second, executor = _two_models(run, 2 * len(config.methods))
    made: dict[str, Any] = {
        "dmad": teams.Debate([debater(first, method) for method in config.methods], name="dmad", **settings)
    }
    one = debater(second, config.methods[0])
    others = {
        "mad": lambda: teams.MAD(one, n=len(config.methods), name="mad", **settings),
        "persona": lambda: teams.MADPersona(second, rounds=config.rounds, sampling=sampling),
        "self_refine": lambda: teams.SelfRefine(one, second, sampling=sampling),
        "self_contrast": lambda: teams.SelfContrast(second, sampling=sampling),
        "mrp": lambda: teams.MRP(second, [debater(second, method) for method in config.methods], sampling=sampling),
    }
    return made | {name: others[name]() for name in config.baselines}, executor


def _two_models(run: Run, slots: int) -> tuple[Any, Any, Local | None]:
    """The user's model twice; of the embedded one two engines, each on a thread of its own with a slot a debater."""
    from palestra.models import model

    chosen = run.model("default")
    if chosen.name != "smollm2":
        return chosen, chosen, None
    shared = {"cache": chosen.replies, "offline": chosen.offline, "context": 2048, "affinity": "agent"}
    return model("smollm2", slots=slots, **shared), model("smollm2", slots=slots + 1, **shared), Local(4)


def keep_records(run: Run, task: Benchmark, debated: Any) -> None:
    """The debates as the reference's record file."""
    from palestra.bench import debate_record

    items = {one.id: one.item for one in task}
    lines = [msgspec.json.encode(debate_record(items[key], info)) for (key, _), info in
             zip(debated.keys, debated.infos, strict=True)]  # fmt: skip
    run.artifact("dmad.jsonl").write_bytes(b"\n".join(lines) + b"\n")


async def caching(run: Run, config: Config) -> None:
    """Cached debate against naive re-prompting, on the embedded model whatever model was chosen."""
    from palestra import bench
    from palestra.analysis.debate_cache import compare_prefix_cache
    from palestra.models import model

    if run.replayed:
        note = "what a cache saves cannot be measured on replies that are not made again"
        for name in ("cache_tokens", "cache_time"):
            run.claim(name, measured="not measured", holds=None, evidence="real model", note=note)
        return

    def make(cached: bool) -> Any:
        return model("smollm2", slots=config.cache_agents, context=2048, affinity="agent", cache_prompt=cached)

    asked = [bench.arithmetic(1, seed=run.seeds.seed("cache"), level=1).items[0].question]
    shown_first = bench.worked_examples("cot", level=1, n=config.examples) if config.examples else ()
    found = {}
    try:
        with run.progress("prefix cache", len(config.cache_tokens)) as advance:
            for tokens in config.cache_tokens:
                found[tokens] = await compare_prefix_cache(
                    make, questions=asked, tokens=tokens, n=config.cache_agents, rounds=config.cache_rounds,
                    examples=shown_first, twice=config.cache_repeat,
                )  # fmt: skip
                advance(1)
    except MissingExtra as missing:
        for name in ("cache_tokens", "cache_time"):
            run.claim(name, measured="not measured", holds=None, evidence="real model", note=str(missing))
        return
    shown = (config.cache_agents, config.cache_rounds) == CACHE_SCALE
    repeats = [cost.repeats for one in found.values() for cost in (one.cached, one.naive) if cost.repeats is not None]
    stable = all(repeats)
    worst, longest = max(one.tokens for one in found.values()), found[max(found)]
    run.claim(
        "cache_tokens",
        measured=worst,
        holds=worst <= TOKENS and stable if shown and repeats else None,
        evidence="real model",
        note="; ".join(
            f"{tokens} tokens a reply: {one.cached.evaluated} of {one.naive.evaluated}, equal replies {one.equal:.0%}"
            for tokens, one in found.items()
        )
        + f"; same texts when repeated within a mode: {('yes' if stable else 'no') if repeats else 'not tried'}; holds at up to {TOKENS}",
    )
    run.claim(
        "cache_time",
        measured=longest.speedup,
        holds=longest.speedup >= SPEEDUP if shown else None,
        evidence="real model",
        note="; ".join(
            f"{tokens} tokens a reply: wall {one.speedup:.2f}x, processor {one.cpu_speedup:.2f}x"
            for tokens, one in found.items()
        )
        + f"; holds from {SPEEDUP}x at the longest replies",
    )
