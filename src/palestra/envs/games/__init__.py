"""Game forms and data sets: normal-form games, tabular Markov games, published laboratory games, importers.

Everything here needs NumPy only; gambit, OpenSpiel and PettingZoo are imported by the functions that read them.
"""

from palestra.envs.games.cliff_pair import cliff_pair
from palestra.envs.games.forms import MarkovGame, NormalForm
from palestra.envs.games.ghp import ghp
from palestra.envs.games.imports import from_arrays, from_openspiel, from_pettingzoo, from_pygambit, load_game
from palestra.envs.games.selten_chmura import ObservedGame, selten_chmura

__all__ = [
    "MarkovGame",
    "NormalForm",
    "ObservedGame",
    "cliff_pair",
    "from_arrays",
    "from_openspiel",
    "from_pettingzoo",
    "from_pygambit",
    "ghp",
    "load_game",
    "selten_chmura",
]
