"""Games from elsewhere: `.nfg`/`.efg` files, pygambit and OpenSpiel games, PettingZoo environments, arrays on disk.

Every function returns a `NormalForm` or a `MarkovGame`. The outside packages are imported when asked for, and a
missing one is named together with the extra that brings it.
"""

import itertools
import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from palestra.core.errors import BadInput, MissingExtra
from palestra.envs.games.forms import MarkovGame, NormalForm, check_payoffs

_SUFFIXES = (".nfg", ".efg", ".json", ".npz", ".npy")


class ParallelEnv(Protocol):
    """What is used of a `pettingzoo.ParallelEnv`."""

    agents: list[Any]
    possible_agents: list[Any]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]: ...
    def step(self, actions: dict) -> tuple[dict, dict, dict, dict, dict]: ...
    def action_space(self, agent: Any) -> Any: ...


def load_game(path: str | Path) -> NormalForm | MarkovGame:
    """Read a game from a file, by its suffix.

    `.nfg` and `.efg` go through pygambit (an extensive game becomes its reduced strategic form). `.json` and `.npz`
    hold either `payoffs` (n tensors in player order) or `rewards` and `transitions`; `.npy` is one array of shape
    (n, A_1, ..., A_n).
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise BadInput("path", str(path), choices=_SUFFIXES)
    if not path.is_file():
        raise BadInput("path", str(path), "an existing file")
    if suffix in (".nfg", ".efg"):
        gambit = _need("pygambit", "games")
        try:
            game = (gambit.read_nfg if suffix == ".nfg" else gambit.read_efg)(str(path))
        except ValueError as error:
            raise BadInput("path", str(path), f"a valid {suffix} file ({str(error).splitlines()[0]})") from None
        return from_pygambit(game)
    try:
        if suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
        else:
            content = np.load(path, allow_pickle=False)
    except (ValueError, OSError) as error:
        raise BadInput("path", str(path), f"a readable {suffix} file ({error})") from None
    if isinstance(content, (list, np.ndarray)):
        return from_arrays(*content, name=path.stem)
    keys = set(content.keys())
    if {"rewards", "transitions"} <= keys:
        return MarkovGame(np.asarray(content["rewards"]), np.asarray(content["transitions"]), name=path.stem)
    if "payoffs" in keys:
        return from_arrays(*content["payoffs"], name=str(content["name"]) if "name" in keys else path.stem)
    raise BadInput("path", str(path), f"keys payoffs, or rewards and transitions (found {', '.join(sorted(keys))})")


def from_arrays(*payoffs: ArrayLike, name: str = "game") -> NormalForm:
    """A normal-form game from n payoff arrays in player order; one matrix alone means a zero-sum game.

    >>> from_arrays([[1, -1], [-1, 1]], name="pennies").payoffs[1].tolist()
    [[-1.0, 1.0], [1.0, -1.0]]
    """
    if len(payoffs) == 1:
        first = np.asarray(payoffs[0], float)
        payoffs = tuple(first) if first.ndim == 3 and len(first) == 2 else (first, -first)
    return NormalForm(check_payoffs(payoffs), name=name)


def from_pygambit(game: Any) -> NormalForm:
    """A normal-form game from a `pygambit.Game` (strategic, or extensive through its reduced strategic form)."""
    if len(game.players) < 2:
        raise BadInput("game", game.title, "at least two players")
    payoffs = tuple(np.asarray(array, dtype=float) for array in game.to_arrays(dtype=float))
    labels = tuple(_labels([s.label for s in player.strategies]) for player in game.players)
    return NormalForm(payoffs, name=game.title or "gambit game", actions=labels)


def from_openspiel(game: Any) -> NormalForm:
    """A normal-form game from an OpenSpiel matrix or tensor game, or from its registered name.

    Args:
        game: a `pyspiel` game object, or a name such as "matrix_pd" that `pyspiel.load_game` knows.
    """
    if isinstance(game, str):
        spiel = _need("pyspiel", "games")
        try:
            game = spiel.load_game(game)
        except spiel.SpielError as error:
            raise BadInput("game", game, f"an OpenSpiel game name ({str(error).splitlines()[0]})") from None
    kind = game.get_type()
    if not hasattr(game, "player_utilities") and not hasattr(game, "row_utilities"):
        spiel = _need("pyspiel", "games")
        if kind.dynamics != spiel.GameType.Dynamics.SIMULTANEOUS:
            raise BadInput("game", kind.short_name, "a one-shot matrix or tensor game")
        game = spiel.extensive_to_tensor_game(game)
    name = kind.short_name
    if hasattr(game, "row_utilities"):
        payoffs = (np.array(game.row_utilities(), float), np.array(game.col_utilities(), float))
        shape = (game.num_rows(), game.num_cols())
        payoffs = tuple(p.reshape(shape) for p in payoffs)
        actions = (
            _labels([game.row_action_name(a) for a in range(shape[0])]),
            _labels([game.col_action_name(a) for a in range(shape[1])]),
        )
        return NormalForm(payoffs, name=name, actions=actions)
    shape = tuple(game.shape())
    payoffs = tuple(np.array(game.player_utilities(i), float).reshape(shape) for i in range(len(shape)))
    actions = tuple(_labels([game.action_name(i, a) for a in range(size)]) for i, size in enumerate(shape))
    return NormalForm(payoffs, name=name, actions=actions)


def from_pettingzoo(
    env: ParallelEnv, *, max_states: int = 2000, samples: int = 1, seed: int = 0
) -> NormalForm | MarkovGame:
    """Enumerate a PettingZoo parallel environment with finite action spaces.

    The environment is deep-copied before each joint action, so every branch starts from the same internal state; one
    whose copies start afresh (gymnasium's EzPickle) is reset with the seed and led there again by the same moves. Two
    states are the same when all agents' observations are. An environment that always ends after one step gives a
    NormalForm; otherwise states are explored breadth first from `reset(seed)` and a finished episode goes to an
    absorbing state that pays nothing.

    Args:
        env: a parallel environment whose agents all stay until the episode ends.
        max_states: give up with BadInput beyond this many states.
        samples: copies stepped for each joint action; above 1, transition frequencies estimate random dynamics (each
            copy's NumPy generators are reseeded where the environment exposes `np_random`).
        seed: seed of `reset` and of the reseeding.
    """
    if samples < 1 or max_states < 1:
        raise BadInput("samples" if samples < 1 else "max_states", min(samples, max_states), "at least 1")
    start, _ = env.reset(seed=seed)
    agents = list(env.possible_agents)
    if set(env.agents) != set(agents) or len(agents) < 2:
        raise BadInput("env.agents", list(env.agents), "at least two agents, all present from reset to the end")
    sizes = tuple(_finite(env.action_space(agent), agent) for agent in agents)
    rng = np.random.default_rng(seed)
    first = [int(getattr(env.action_space(agent), "start", 0)) for agent in agents]
    copies = not any(hasattr(layer, "_ezpickle_args") for layer in _layers(env))
    known, edges, one_shot = {_key(start, agents): 0}, [], True
    frontier = [_Place(env, None if copies else ())]
    for index in itertools.count():
        if index >= len(frontier):
            break
        for joint in itertools.product(*map(range, sizes)):
            moves = {agent: first[i] + joint[i] for i, agent in enumerate(agents)}
            for _ in range(samples):
                branch = frontier[index].visit(seed)
                if samples > 1:
                    _reseed(branch, int(rng.integers(2**31)))
                seen, reward, ended, cut, _ = branch.step(moves)
                over = not branch.agents or all(ended.get(a, True) or cut.get(a, True) for a in agents)
                if not over and set(branch.agents) != set(agents):
                    raise BadInput("env.agents", list(branch.agents), "all agents present until the episode ends")
                target = -1 if over else known.setdefault(_key(seen, agents), len(known))
                one_shot &= over
                if target == len(frontier):
                    if len(known) > max_states:
                        raise BadInput("max_states", max_states, "more than the environment's reachable states")
                    frontier.append(frontier[index].next(branch, moves))
                edges.append((index, joint, target, [float(reward.get(agent, 0.0)) for agent in agents]))
    return _assemble(edges, len(known), sizes, samples, one_shot, str(getattr(env, "metadata", {}).get("name", "env")))


class _Place(NamedTuple):
    """The way back to a state: a copy of the environment that is in it or, where copies start afresh, the moves."""

    env: ParallelEnv
    path: tuple[dict, ...] | None  # None: copy

    def visit(self, seed: int) -> ParallelEnv:
        """An environment in this state, free to be stepped."""
        if self.path is None:
            return deepcopy(self.env)
        self.env.reset(seed=seed)
        for moves in self.path:
            self.env.step(moves)
        return self.env

    def next(self, branch: ParallelEnv, moves: dict) -> "_Place":
        """The place that `moves` led `branch` to from here."""
        return _Place(branch, None) if self.path is None else _Place(self.env, (*self.path, moves))


def _assemble(edges, num_states, sizes, samples, one_shot, name) -> NormalForm | MarkovGame:
    source, joint, target, rewards = (np.array(column) for column in zip(*edges, strict=True))
    where = (source, *joint.T)
    mean = np.zeros((len(sizes), num_states + 1, *sizes))
    for i in range(len(sizes)):
        np.add.at(mean[i], where, rewards[:, i] / samples)
    if one_shot:
        return NormalForm(tuple(mean[:, 0]), name=name)
    transitions = np.zeros((num_states + 1, *sizes, num_states + 1))
    np.add.at(transitions, (*where, np.where(target < 0, num_states, target)), 1 / samples)
    transitions[num_states, ..., num_states] = 1.0
    return MarkovGame(mean, transitions, name=name)


def _finite(space: Any, agent: Any) -> int:
    if not hasattr(space, "n") or np.ndim(space.n):
        raise BadInput(f"action_space({agent!r})", space, "a finite Discrete space")
    return int(space.n)


def _key(observations: dict, agents: Sequence[Any]) -> bytes:
    parts = []
    for agent in agents:
        seen = observations[agent]
        seen = seen["observation"] if isinstance(seen, dict) and "observation" in seen else seen
        parts.append(repr(sorted(seen.items())) if isinstance(seen, dict) else repr(np.asarray(seen).tolist()))
    return "|".join(parts).encode()


def _layers(env: object) -> list[object]:
    """The environment and everything it wraps."""
    found: list[object] = []
    queue = [env]
    while queue:
        layer = queue.pop()
        if layer is None or any(layer is one for one in found):
            continue
        found.append(layer)
        queue += [vars(layer).get(name) for name in ("env", "aec_env", "par_env")] if hasattr(layer, "__dict__") else []
        queue.append(getattr(layer, "unwrapped", None))
    return found


def _reseed(env: object, seed: int) -> None:
    for layer in _layers(env):
        for name in ("np_random", "_np_random", "rng"):
            if isinstance(getattr(layer, name, None), np.random.Generator):
                setattr(layer, name, np.random.default_rng(seed))


def _labels(names: Sequence[str]) -> tuple[str, ...]:
    unique = len(set(names)) == len(names) and all(names)
    return tuple(names) if unique else tuple(str(a) for a in range(len(names)))


def _need(module: str, extra: str) -> Any:
    try:
        return __import__(module)
    except ImportError:
        raise MissingExtra({"pyspiel": "open_spiel"}.get(module, module), extra) from None
