"""Records, protocols, budgets, seeds, errors, the registry, claims and the rollout: what everything else stands on."""

from palestra.core.budget import Account, Budget
from palestra.core.claims import Card, ClaimResult, PaperClaim
from palestra.core.config import configure, parse_pairs
from palestra.core.loops import LoopDetector
from palestra.core.protocols import Agent, Environment, Frame, Judge, LanguageModel, Snapshots, Task
from palestra.core.records import (
    GREEDY,
    JSON,
    SCALES,
    Action,
    Call,
    Completion,
    Episode,
    Evidence,
    Image,
    Message,
    Observation,
    Sampling,
    Scale,
    Step,
    Text,
    TokenLogprob,
    ToolCall,
    ToolSpec,
    Usage,
    Verdict,
)
from palestra.core.registry import System, slugs, system
from palestra.core.rollout import rollout
from palestra.core.scope import Recorder, Scope, current, enter, scope
from palestra.core.seeds import SeedTree, derive
from palestra.core.tasks import AGENT, Benchmark, EnvironmentTask, Item, ItemTask, Question, tasks_of

__all__ = [
    "AGENT", "GREEDY", "JSON", "SCALES", "Account", "Action", "Agent", "Benchmark", "Budget", "Call", "Card",
    "ClaimResult", "Completion", "Environment", "EnvironmentTask", "Episode", "Evidence", "Frame", "Image", "Item",
    "ItemTask", "Judge", "LanguageModel", "LoopDetector", "Message", "Observation", "PaperClaim", "Question",
    "Recorder", "Sampling", "Scale", "Scope", "SeedTree", "Snapshots", "Step", "System", "Task", "Text",
    "TokenLogprob", "ToolCall", "ToolSpec", "Usage", "Verdict", "configure", "current", "derive", "enter",
    "parse_pairs", "rollout", "scope", "slugs", "system", "tasks_of",
]  # fmt: skip
