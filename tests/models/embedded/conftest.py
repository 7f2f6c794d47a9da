"""One loaded server for all tests of the embedded model, with slots small enough to overflow quickly."""

import pytest

from palestra.core.errors import MissingExtra
from palestra.models.embedded import smollm2_engine, weights
from palestra.models.model import Model


@pytest.fixture(scope="session")
def smollm2() -> Model:
    try:
        weights.smollm2_gguf()
    except MissingExtra as error:
        pytest.skip(str(error))
    return Model(smollm2_engine(slots=4, context=768), name="smollm2")


@pytest.fixture(scope="session")
def raw_smollm2() -> Model:
    try:
        weights.smollm2_gguf()
    except MissingExtra as error:
        pytest.skip(str(error))
    return Model(smollm2_engine(slots=4, context=768, raw=True), name="smollm2?raw=True")


@pytest.fixture(scope="session")
def float32() -> Model:
    """The torch side in float32, where batches agree to 1e-4."""
    try:
        weights.smollm2_gguf()
    except MissingExtra as error:
        pytest.skip(str(error))
    return Model(smollm2_engine(dtype="float32", backend="torch"), name="smollm2?backend=torch&dtype=float32")
