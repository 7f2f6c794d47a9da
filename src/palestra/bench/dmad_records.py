"""The record files of the DMAD reference: one row a question, for a single method and for the whole debate.

Field names are the reference's own, odd plurals included, so that its evaluation scripts read our files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palestra.core.errors import BadInput
from palestra.core.records import JSON, Usage
from palestra.core.tasks import Item

_PROCESSES = {"ccot": "scene_graphs", "ddcot": "subquestion_answerses"}


def method_record(item: Item, infos: Sequence[Mapping[str, Any]], *, usage: Usage | None = None) -> JSON:
    """One row of a single method's file.

    Args:
        item: the question.
        infos: `Action.info` of each independent sample of one method (the reference takes 3).
        usage: what they cost.

    Returns:
        The example's fields, `outputs` (one reply a sample), `scene_graphs` for ccot or `subquestion_answerses` for
        ddcot, and `usage`.
    """
    if not infos:
        raise BadInput("infos", infos, "the info of at least one sample")
    record: JSON = {**_example(item), "outputs": [info["reply"] for info in infos]}
    if (field := _PROCESSES.get(infos[0].get("method", ""))) is not None:
        record[field] = [info["process"] for info in infos]
    total = usage or Usage()
    record["usage"] = {"prompt_tokens": total.input_tokens, "completion_tokens": total.output_tokens}
    return record


def debate_record(item: Item, info: Mapping[str, Any], *, singles: Mapping[str, str] | None = None) -> JSON:
    """One row of a debate's file.

    Args:
        item: the question.
        info: `Action.info` of a `teams.Debate`.
        singles: the reply of each single method (`io`, `ccot`, `ddcot`, …) to the same question, if there are.

    Returns:
        The example's fields; `agent_contexts` (for each debater two messages a round), `answers_` (rounds × debaters),
        for open questions `eval_index`, `eval_reason`, `eval_answer` of the last round, and `METHOD_output` fields.

    Raises:
        BadInput: `info` is not that of a debate.
    """
    for key in ("contexts", "answers", "decisions", "verdicts"):
        if key not in info:
            raise BadInput("info", sorted(info), f"the info of a debate, which has {key!r}")
    record: JSON = {**_example(item), "agent_contexts": info["contexts"], "answers_": info["answers"]}
    if item.info.get("kind", "open") == "open":
        verdict = info["verdicts"][-1]
        record |= {
            "eval_index": verdict["index"],
            "eval_reason": verdict["reason"],
            "eval_answer": info["decisions"][-1],
        }
    return record | {f"{name}_output": text for name, text in (singles or {}).items()}


def _example(item: Item) -> JSON:
    fields = {key: value for key, value in item.info.items() if key != "kind"}
    return {"id": item.id, "question": item.question, "answer": item.answer, **fields}
