"""The node's numbers for Prometheus; counters of the hot path are plain integers, read when scraped."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Counters that the node keeps, and gauges that it is asked for at a scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.appended = 0
        self.snapshots = 0
        self.trouble = 0
        self.alarms_fired = 0
        self.readers = 0
        self.requests: dict[tuple[str, int], int] = {}
        self.gauges: dict[str, float] = {}
        self.moves = Counter(
            "cellz_cell_moves_total", "Cells that came to rest, by where.", ["state"], registry=self.registry
        )
        self.activation = Histogram(
            "cellz_activation_seconds",
            "Time to restore and open a cell.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.registry.register(self)

    def request(self, route: str, status: int) -> None:
        """Count a request that was answered."""
        key = (route, status)
        self.requests[key] = self.requests.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Yield the plain numbers as metric families (the protocol of prometheus_client)."""
        counters: tuple[tuple[str, str, int], ...] = (
            ("cellz_events_appended", "Events appended.", self.appended),
            ("cellz_snapshots", "Snapshots published.", self.snapshots),
            ("cellz_store_trouble", "Upkeep that failed and is tried again.", self.trouble),
            ("cellz_alarms_fired", "Alarms fired.", self.alarms_fired),
        )
        for name, text, count in counters:
            yield CounterMetricFamily(name, text, value=count)
        requests = CounterMetricFamily(
            "cellz_http_requests", "Requests answered.", labels=["route", "status"]
        )
        for (route, status), number in self.requests.items():
            requests.add_metric([route, str(status)], number)
        yield requests
        yield GaugeMetricFamily("cellz_stream_readers", "Open streams.", value=self.readers)
        for name, value in self.gauges.items():
            yield GaugeMetricFamily(f"cellz_{name}", f"See /state: {name}.", value=value)

    def text(self) -> bytes:
        """Return the exposition text."""
        return generate_latest(self.registry)
