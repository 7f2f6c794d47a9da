"""transformers, imported when it is needed and without its progress bars: a run has a progress display of its own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from palestra.core.errors import MissingExtra


def transformers() -> Any:
    """The transformers module.

    Raises:
        MissingExtra: transformers or torch is not installed.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra("transformers and torch", "lm") from error
    del torch
    return transformers


@contextmanager
def quietly() -> Generator[None, None, None]:
    """No progress bars and no advice from transformers inside the block; its settings come back afterwards."""
    import transformers.modeling_gguf_pytorch_utils as reading
    from transformers.utils import logging

    gguf_reading: Any = reading
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    own_bar: Any = getattr(gguf_reading, "tqdm", None)  # reading GGUF has a bar that no setting turns off
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if own_bar is not None:
        gguf_reading.tqdm = partial(own_bar, disable=True)
    try:
        yield
    finally:
        if own_bar is not None:
            gguf_reading.tqdm = own_bar
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
