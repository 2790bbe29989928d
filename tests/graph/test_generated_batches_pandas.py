"""Whatever a pipeline does with frames or arrays of rows, batches of its graph are what the pipeline gives for them."""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import clew
from clew.errors import GraphError
from clew.values import capture

FRAMES = [
    "f['c'] = f['a'] + f['b']", "f = f.assign(d=f['a'] * 2 - f['b'])", "f['a'] = f['a'].clip(0, 3)",
    "f = f.fillna(0.0)",
    "f['t'] = f['t'].str.upper()", "f = f.sort_values('a')", "f = f.reset_index(drop=True)", "f['n'] = len(f)",
    "f['r'] = f['a'].rank()", "f['m'] = f['a'] - f['a'].mean()", "f['w'] = np.where(f['a'] > f['b'], 1, 0)",
    "if (f['a'] > 2).any():\n    f['a'] = f['a'] / 2", "if len(f) > 2:\n    f['b'] = 0.0", "f = f.dropna()",
    "f['k'] = f['t'].map({'x': 1.0}).fillna(-1.0)", "f = f[['b', 'a', 't']]", "f = f.drop(columns=['b'])",
    "f['l'] = f['t'].str.len() + f['a']", "f['s'] = f['a'].cumsum()", "f = f.set_index('t', drop=False)",
    "f.loc[f['a'] < 0, 'a'] = 0.0", "f['z'] = f['a'].apply(lambda v: v * v)", "total = f['a'].sum()\nf['p'] = total",
]  # fmt: skip
ARRAYS = [
    "x = x * 2 + 1", "x = np.clip(x, 0, 5)", "x = x - x.mean(axis=0)", "x = x[:, ::-1]", "x = np.where(x > 1, x, 0.0)",
    "x = x.sum(axis=1)", "x = np.sort(x, axis=0)", "x[x < 0] = 0", "x = x / (1 + np.abs(x))", "x = x.astype(int)",
    "if x.shape[0] > 2:\n    x = -x", "if (x > 3).any():\n    x = x / 3", "x = np.concatenate([x, x], axis=-1)",
    "x = x + len(x)", "x = x[x.sum(axis=-1) > -100]",
]  # fmt: skip
numbers = st.sampled_from([-2.0, 0.0, 1.5, 3.0, 4.0])
fast = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def _pipeline(parameter: str, statements: list[str]) -> Any:
    body = "".join(f"    {line}\n" for statement in statements for line in statement.split("\n"))
    source = f"import numpy as np\n\n\ndef pipeline({parameter}):\n{body}    return {parameter}\n"
    name = f"<generated-batches-{hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "generated"}
    exec(compile(source, name, "exec"), scope)
    return scope["pipeline"]


@st.composite
def frames(draw: Any, least: int) -> pd.DataFrame:
    count = draw(st.integers(least, 7))
    columns = {name: draw(st.lists(numbers, min_size=count, max_size=count)) for name in "ab"}
    texts = draw(st.lists(st.sampled_from(["x", "yy", ""]), min_size=count, max_size=count))
    return pd.DataFrame({**columns, "t": pd.Series(texts, dtype=str)}).set_axis(list(range(10, 10 + count)))


@st.composite
def arrays(draw: Any, least: int) -> Any:
    count = draw(st.integers(least, 7))
    return np.array(draw(st.lists(numbers, min_size=2 * count, max_size=2 * count))).reshape(count, 2)


def _check(pipeline: Any, examples: list[Any], items: Any, batch: int, cut: Any, join: Any) -> None:
    """Batches of the graph are what the pipeline gives for the same rows; or it is said that they are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            chunks = [pipeline(cut(items, at, at + batch)) for at in range(0, len(items), batch)]
            graph = clew.record(pipeline, [example.copy() for example in examples], library="operator")
        except Exception:
            return  # the pipeline itself fails, or is refused
        try:
            results = graph.map(items, batch=batch, workers=1)
            joined = results.join("drop")
        except GraphError:
            return  # it takes no such batches, and says so
    if results.ok and not results.batches_split and len(items):
        assert capture(joined).digest == capture(join(chunks)).digest, graph.source


def _joined_frames(chunks: list[pd.DataFrame]) -> pd.DataFrame:
    fresh = len(chunks) > 1 and all(chunk.index.tolist() == list(range(len(chunk))) for chunk in chunks)
    return pd.concat(chunks, ignore_index=fresh)


@fast
@given(
    st.lists(st.sampled_from(FRAMES), min_size=1, max_size=4),
    st.lists(frames(1), min_size=1, max_size=2),
    frames(0),
    st.integers(1, 4),
)
def test_batches_of_frames_are_what_the_pipeline_gives_for_them(
    statements: list[str], examples: list[pd.DataFrame], frame: pd.DataFrame, batch: int
) -> None:
    pipeline = _pipeline("f", statements)
    before = frame.copy()
    _check(pipeline, examples, frame, batch, lambda rows, begin, end: rows.iloc[begin:end].copy(), _joined_frames)
    pd.testing.assert_frame_equal(frame, before)


@fast
@given(
    st.lists(st.sampled_from(ARRAYS), min_size=1, max_size=4),
    st.lists(arrays(1), min_size=1, max_size=2),
    arrays(0),
    st.integers(1, 4),
)
def test_batches_of_arrays_are_what_the_pipeline_gives_for_them(
    statements: list[str], examples: list[Any], array: Any, batch: int
) -> None:
    pipeline = _pipeline("x", statements)
    before = array.copy()
    _check(pipeline, examples, array, batch, lambda rows, begin, end: rows[begin:end].copy(), np.concatenate)
    assert np.array_equal(array, before)
