"""What a study gave: read back from the store, as rows, a DataFrame, a summary by agent, a printable table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from palestra.core.errors import BadInput
from palestra.core.intervals import mean_interval
from palestra.core.records import Episode, Usage
from palestra.store.codec import decode
from palestra.store.reading import Reading

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table


class Summary(Struct, frozen=True):
    """One agent's results: mean score over finished episodes with a 95 % interval, failures, cost."""

    agent: str
    episodes: int
    failed: int
    score: float
    low: float
    high: float
    steps: float  # mean
    usage: Usage
    seconds: float  # mean wall seconds of an episode


class Result:
    """The episodes of one study. Nothing is held in memory: every method reads the store."""

    def __init__(self, reading: Reading, study: int, name: str) -> None:
        self.reading, self.study, self.name = reading, study, name

    def __repr__(self) -> str:
        from rich.console import Console

        console = Console(width=110)
        with console.capture() as captured:
            console.print(self.table())
        return captured.get().rstrip()

    def _repr_html_(self) -> str:
        import pandas as pd

        with pd.option_context("display.max_colwidth", None):  # pandas would cut long names
            return self._summary_frame().to_html(index=False, float_format=lambda value: f"{value:.3g}")

    def frame(self) -> pd.DataFrame:
        """One row an episode, with a column for each metric that the environment reported."""
        import pandas as pd

        frame = self.reading.table("episodes", study=self.study)
        metrics = pd.DataFrame.from_records([decode(text) for text in frame.pop("metrics")], index=frame.index)
        metrics = metrics.drop(columns=[name for name in metrics if name in frame])
        return pd.concat([frame, metrics], axis=1)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary an episode: the columns of the store, `metrics` and `output` decoded."""
        rows = self.reading.rows("episodes", study=self.study)
        for row in rows:
            row["metrics"] = decode(row["metrics"])
            row["output"] = None if row["output"] is None else decode(row["output"])
        return rows

    def episodes(self, where: Callable[[Episode], bool] = lambda episode: True) -> list[Episode]:
        """The whole records, with steps and calls, of the episodes that `where` accepts."""
        return [episode for episode in self.reading.episodes(study=self.study) if where(episode)]

    def scores(self, agent: str, *, metric: str = "score") -> dict[tuple[str, int], float]:
        """The agent's `metric` in each finished episode, by (task, seed): agents pair up by these keys."""
        found: dict[tuple[str, int], float] = {}
        for row in self.rows():
            if row["agent"] == agent and row["status"] == "done":
                value = row["score"] if metric == "score" else row["metrics"].get(metric)
                if value is not None:
                    found[row["task"], row["seed"]] = value
        return found

    def summary(self) -> dict[str, Summary]:
        """Results by agent."""
        scores = self.reading.scores(self.study)
        return {row["agent"]: _summary(row, scores.get(row["agent"], ())) for row in self.reading.totals(self.study)}

    def of(self, agent: str) -> Summary:
        """One agent's results."""
        summary = self.summary()
        if agent not in summary:
            raise BadInput("agent", agent, choices=summary)
        return summary[agent]

    def table(self) -> Table:
        """The summary as a rich table."""
        from rich.table import Table

        table = Table(title=f"{self.name} · run {self.reading.run.id}", title_justify="left")
        for heading in ("agent", "score", "95 % interval", "episodes", "failed", "tokens", "cost", "s/episode"):
            table.add_column(heading, justify="left" if heading == "agent" else "right")
        for one in self.summary().values():
            table.add_row(
                one.agent,
                f"{one.score:.3f}",
                f"{one.low:.3f} … {one.high:.3f}",
                str(one.episodes),
                str(one.failed),
                f"{one.usage.tokens:,}",
                f"${one.usage.usd:.4f}",
                f"{one.seconds:.2f}",
            )
        return table

    def _summary_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame.from_records(
            [
                {
                    "agent": one.agent,
                    "score": one.score,
                    "low": one.low,
                    "high": one.high,
                    "episodes": one.episodes,
                    "failed": one.failed,
                    "tokens": one.usage.tokens,
                    "usd": one.usage.usd,
                    "seconds": one.seconds,
                }
                for one in self.summary().values()
            ]
        )


def _summary(row: Mapping[str, Any], scores: Sequence[float]) -> Summary:
    score, low, high = mean_interval(scores)
    episodes = int(row["episodes"])
    return Summary(
        agent=row["agent"],
        episodes=episodes,
        failed=int(row["failed"]),
        score=score,
        low=low,
        high=high,
        steps=float(row["steps"]) / episodes,
        usage=Usage(
            calls=int(row["calls"]),
            input_tokens=int(row["input_tokens"]),
            output_tokens=int(row["output_tokens"]),
            cached_tokens=int(row["cached_tokens"]),
            usd=float(row["usd"]),
            seconds=float(row["model_seconds"]),
        ),
        seconds=float(row["seconds"]) / episodes,
    )
