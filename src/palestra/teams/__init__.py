"""Teams: agents made of agents. Debates, and the single-model baselines they are compared with."""

from palestra.teams.debate import Debate, check_judge
from palestra.teams.debater import HISTORIES, SHARES, Debater, Turn, peers_block
from palestra.teams.mad import MAD
from palestra.teams.mrp import MRP
from palestra.teams.persona import MADPersona
from palestra.teams.self_consistency import SelfConsistency
from palestra.teams.self_contrast import SelfContrast
from palestra.teams.self_refine import SelfRefine

__all__ = [
    "HISTORIES", "MAD", "MRP", "SHARES", "Debate", "Debater", "MADPersona", "SelfConsistency", "SelfContrast",
    "SelfRefine", "Turn", "check_judge", "peers_block",
]  # fmt: skip
