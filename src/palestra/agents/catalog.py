"""The agents and teams of the command line: each is made from one model; a team makes its usual members."""

from __future__ import annotations

from palestra.agents.react import react
from palestra.agents.reasoner import ccot, chain_of_thought, ddcot, io, least_to_most, program, step_back
from palestra.core.protocols import LanguageModel
from palestra.teams.debate import Debate
from palestra.teams.mad import MAD
from palestra.teams.mrp import MRP
from palestra.teams.persona import MADPersona
from palestra.teams.self_consistency import SelfConsistency
from palestra.teams.self_contrast import SelfContrast
from palestra.teams.self_refine import SelfRefine


def debate(model: LanguageModel, *, rounds: int = 3, early_stop: bool = False) -> Debate:
    """Debate of three reasoning methods: chain of thought, step-back, program (DMAD)."""
    members = [chain_of_thought(model), step_back(model), program(model)]
    return Debate(members, rounds=rounds, early_stop=early_stop)


def mad(model: LanguageModel, *, n: int = 3, rounds: int = 3) -> Debate:
    """Debate of copies that all use chain of thought."""
    return MAD(chain_of_thought(model), n=n, rounds=rounds)


def mad_persona(model: LanguageModel, *, rounds: int = 3) -> MADPersona:
    """Debate of an affirmative and a negative side before a moderator."""
    return MADPersona(model, rounds=rounds)


def mrp(model: LanguageModel) -> MRP:
    """The model picks the reasoning method for each question."""
    return MRP(model, [chain_of_thought(model), step_back(model), program(model)])


def self_consistency(model: LanguageModel, *, samples: int = 3) -> SelfConsistency:
    """Majority of several chains of thought."""
    return SelfConsistency(chain_of_thought(model), samples=samples)


def self_contrast(model: LanguageModel, *, perspectives: int = 3) -> SelfContrast:
    """Several perspectives, their contrast as a checklist, a revised answer."""
    return SelfContrast(model, perspectives=perspectives)


def self_refine(model: LanguageModel, *, rounds: int = 1) -> SelfRefine:
    """Generate, criticise, refine."""
    return SelfRefine(chain_of_thought(model), model, rounds=rounds)


CATALOG = {
    "ccot": ccot,
    "chain_of_thought": chain_of_thought,
    "ddcot": ddcot,
    "debate": debate,
    "io": io,
    "least_to_most": least_to_most,
    "mad": mad,
    "mad_persona": mad_persona,
    "mrp": mrp,
    "program": program,
    "react": react,
    "self_consistency": self_consistency,
    "self_contrast": self_contrast,
    "self_refine": self_refine,
    "step_back": step_back,
}
