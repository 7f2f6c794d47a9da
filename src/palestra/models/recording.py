"""A model call as it is recorded, and the reply back from the record: what the store keeps and a replay reads.

The two directions stand side by side because a replayed reply must be equal to the recorded one, field by field.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from palestra.core import errors
from palestra.core.errors import PalestraError
from palestra.core.records import JSON, Call, Completion, Message, TokenLogprob, Usage
from palestra.core.scope import Scope
from palestra.models.engine import Failure, Output, Request

LOGPROBS = "$logprobs"  # key of a call's output that holds the reply's token log-probabilities


def call_of(
    scope: Scope,
    request: Request,
    *,
    key: bytes,
    engine: str,
    started: float,
    usage: Usage,
    reply: Any,
    error: BaseException | None = None,
) -> Call:
    """The record of one call: its reply (a Completion, an Output, or None), or why there is none.

    Args:
        scope: whose call it was.
        key: the request's digest.
        engine: what answered, for replies that do not say.
        started: seconds since the epoch.
        error: what was raised; with a `reply`, why that reply was refused.
    """
    completion = reply if isinstance(reply, Completion) else None
    if completion is not None:
        engine, reason = completion.engine, completion.finish_reason
    else:
        engine, reason = getattr(reply, "engine", "") or engine, "error" if error is not None else ""
    return Call(
        agent=scope.agent,
        role=scope.role,
        stage=scope.stage,
        step=scope.recorder.step,
        kind=request.kind,
        model=request.model,
        engine=engine,
        request=key,
        messages=request.messages or _prompt_of(request),
        reply=None if completion is None else completion.message,
        usage=usage,
        finish_reason=reason,
        started=started,
        retries=getattr(reply if completion is not None else error, "retries", 0),
        error=None if error is None else f"{type(error).__name__}: {error}",
        seed=request.sampling.seed,
        output=_output_of(request, reply) if error is None else _details_of(error),
    )


def reply_of(call: Call) -> Completion | Output | Failure | None:
    """The reply that `call` records; None when it records none (arrays, a call that was cancelled).

    A reply that was refused for its schema is given back as it was: the Model refuses it again.

    >>> call = Call(
    ...     "solver",
    ...     "",
    ...     "",
    ...     0,
    ...     "score",
    ...     "smollm2",
    ...     "torch",
    ...     b"digest",
    ...     (Message("user", "2+2="), Message("user", " 4"), Message("user", " 5")),
    ...     None,
    ...     Usage(),
    ...     "",
    ...     0.0,
    ...     output={" 4": -0.1, " 5": -3.0},
    ... )
    >>> reply_of(call).value
    [-0.1, -3.0]
    """
    if call.kind == "complete" and call.reply is not None:
        parsed: Any = None if call.error is not None else call.output
        logprobs: tuple[TokenLogprob, ...] = ()
        if isinstance(parsed, dict) and LOGPROBS in parsed:
            output = cast(JSON, parsed)
            logprobs = msgspec.convert(_finite(output[LOGPROBS]), tuple[TokenLogprob, ...])
            parsed = output["parsed"]
        return Completion(
            message=call.reply,
            usage=call.usage,
            finish_reason=call.finish_reason,
            model=call.model,
            engine=call.engine,
            retries=call.retries,
            logprobs=logprobs,
            parsed=parsed,
        )
    if call.error is not None:
        error = _error_of(call)
        return None if error is None else Failure(error, call.usage)
    by_text: dict[str, float | None] | None = call.output
    if call.kind == "score" and isinstance(by_text, dict):
        scores = [by_text[message.text] for message in call.messages[1:]]
        return Output([float("-inf") if score is None else score for score in scores], call.usage, call.engine)
    return None


def _prompt_of(request: Request) -> tuple[Message, ...]:
    texts = (request.prompt, *request.options) if request.kind == "score" else request.texts
    return tuple(Message("user", text) for text in texts)


def _output_of(request: Request, reply: Any) -> Any:
    """What is worth keeping besides the message: scores and log-probabilities whole, arrays by shape only."""
    if isinstance(reply, Completion):
        if not reply.logprobs:
            return reply.parsed
        return {LOGPROBS: msgspec.to_builtins(reply.logprobs), "parsed": reply.parsed}
    if request.kind == "score":
        return dict(zip(request.options, reply.value, strict=True))
    return {"shape": [list(getattr(item, "shape", ())) for item in reply.value]}


def _details_of(error: BaseException) -> dict[str, Any] | None:
    """The attributes of a typed error (counts, limits), so that a replay can raise it whole."""
    if not isinstance(error, PalestraError):
        return None
    kept = {name: value for name, value in vars(error).items() if isinstance(value, str | int | float | None)}
    kept.pop("retries", None)  # has a field of its own
    return kept or None


def _error_of(call: Call) -> PalestraError | None:
    name, _, text = (call.error or "").partition(": ")
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, PalestraError)):
        return None  # cancelled, or a fault of the program: not the model's answer
    error = kind.__new__(kind)
    error.args = (text,)
    details: JSON | None = call.output
    if isinstance(details, dict):
        error.__dict__.update(details)
    if call.retries:
        error.__dict__["retries"] = call.retries
    return error


def _finite(value: Any) -> Any:
    """Minus infinity where JSON, which has no infinities, kept null."""
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in cast(JSON, value).items()}
    return float("-inf") if value is None else value
