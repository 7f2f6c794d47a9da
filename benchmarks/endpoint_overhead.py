"""What a call costs through Model and endpoint, beside a raw httpx call to the same server in the same run.

A loopback server in another process answers at once, over kept-alive connections, with the same chat completion. Raw calls
(`AsyncClient.post(json=...)`, then `json()`) and Model calls (seeded, metered, recorded) take turns; medians are printed.

    python benchmarks/endpoint_overhead.py [--calls 2000] [--concurrent 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection

import httpx

from palestra.core import Account, Recorder, Scope, enter
from palestra.models import Endpoint, Model

PROMPT = "What is the capital of France? Answer in one word."
REPLY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "bench",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 22},
    }
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(REPLY), REPLY)


def serve(pipe: Connection) -> None:
    """Answer every request with the same reply, over kept-alive connections, until the process is ended."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def raw_call(client: httpx.AsyncClient, url: str) -> None:
    body = {"model": "bench", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 256, "temperature": 0.7}
    reply = await client.post(f"{url}/chat/completions", json=body)
    assert reply.json()["choices"][0]["message"]["content"] == "Paris"


async def model_call(model: Model) -> None:
    assert (await model.complete(PROMPT)).text == "Paris"


async def measure(url: str, calls: int, concurrent: int) -> None:
    """Print the medians of both, alone and at some concurrency."""
    enter(Scope(account=Account("benchmark"), recorder=Recorder()))
    model = Model(Endpoint(url, "bench"), name="bench")
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, trust_env=False) as client:
        for _ in range(50):
            await raw_call(client, url)
            await model_call(model)
        raw, ours = list[float](), list[float]()
        for turn in range(calls):
            pair = [(raw, lambda: raw_call(client, url)), (ours, lambda: model_call(model))]
            for times, call in pair if turn % 2 else reversed(pair):
                started = time.perf_counter()
                await call()
                times.append(1e3 * (time.perf_counter() - started))
        report(f"one call after the other, {calls} each", raw, ours, unit="ms a call")

        raw, ours = [], []
        for turn in range(max(4, calls // concurrent // 2)):
            pair = [(raw, lambda: raw_call(client, url)), (ours, lambda: model_call(model))]
            for times, call in pair if turn % 2 else reversed(pair):
                started = time.perf_counter()
                await asyncio.gather(*(call() for _ in range(concurrent)))
                times.append(1e3 * (time.perf_counter() - started) / concurrent)
        report(f"{concurrent} calls at once, {len(raw)} rounds each", raw, ours, unit="ms a call")


def report(title: str, raw: list[float], ours: list[float], *, unit: str) -> None:
    low, high = statistics.median(raw), statistics.median(ours)
    print(title)
    print(f"  raw httpx        {low:7.3f} {unit} (median)")
    print(f"  Model + endpoint {high:7.3f} {unit} (median)")
    print(f"  overhead         {high - low:+7.3f} {unit}, ratio {high / low:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="calls of each kind, one after the other")
    parser.add_argument("--concurrent", type=int, default=64, help="calls at once in the second part")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        asyncio.run(measure(f"http://127.0.0.1:{ours.recv()}/v1", options.calls, options.concurrent))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
