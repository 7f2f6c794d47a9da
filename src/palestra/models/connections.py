"""HTTP connections of one event loop, kept in many small pools.

A connection pool of httpx looks at all its connections whenever a request starts or ends, so its cost for a request grows
with the requests under way. Pools of a few connections each keep that cost flat.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import httpx

CROWD = 4  # requests under way in a pool before the next pool is opened
MOST = 64  # pools
KEEPALIVE = 30.0  # seconds an idle connection is kept


class Connections:
    """The pools of one event loop, for loopback (past any proxy) or for everything else."""

    def __init__(self, *, loopback: bool) -> None:
        self.loopback = loopback
        self._clients: list[httpx.AsyncClient] = []
        self._loads: list[int] = []
        self._keepers: list[Any] = []

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient]:
        """A client for one request: of the pool with the fewest under way."""
        index = min(range(len(self._loads)), key=self._loads.__getitem__, default=-1)
        if index < 0 or (self._loads[index] >= CROWD and len(self._loads) < MOST):
            index = await self._open()
        self._loads[index] += 1
        try:
            yield self._clients[index]
        finally:
            self._loads[index] -= 1

    async def _open(self) -> int:
        import httpx

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE)
        client = httpx.AsyncClient(limits=limits, trust_env=not self.loopback, verify=_trusted())
        keeper = _closed_with_loop(client)
        self._clients.append(client)
        self._loads.append(0)
        self._keepers.append(keeper)
        index = len(self._clients) - 1
        await anext(keeper)
        return index


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bool, Connections]] = WeakKeyDictionary()


def connections(*, loopback: bool) -> Connections:
    """The connections of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        for old in [one for one in _of_loops if one.is_closed()]:
            _of_loops.pop(old, None)
        found = _of_loops[loop] = {}
    if loopback not in found:
        found[loopback] = Connections(loopback=loopback)
    return found[loopback]


@cache
def _trusted() -> Any:
    """The certificates to trust: read once, as that takes longer than many a call."""
    import httpx

    return httpx.create_ssl_context()


async def _closed_with_loop(client: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Closes `client` when its event loop shuts its asynchronous generators down, as `asyncio.run` does at its end."""
    try:
        yield
    finally:
        await client.aclose()
