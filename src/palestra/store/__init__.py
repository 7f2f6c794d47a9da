"""The run store: everything a run recorded, in SQLite or PostgreSQL, readable as records and as tables."""

from palestra.store.reading import Reading
from palestra.store.store import RunRow, Store
from palestra.store.writer import Writer

__all__ = ["Reading", "RunRow", "Store", "Writer"]
