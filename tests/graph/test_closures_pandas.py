"""Functions that see recorded values, given to NumPy and pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from graph.comparing import holds


def test_frames_and_arrays_call_functions_that_look_things_up_in_recorded_values() -> None:
    def pipeline(texts: Any) -> Any:
        lengths = {text: len(text) for text in texts}
        numbers = np.arange(len(texts)) * 1.5
        frame = pd.DataFrame({"text": texts, "at": range(len(texts))})
        frame["length"] = frame["text"].map(lambda text: lengths[text])
        frame["sum"] = frame.apply(lambda row: numbers[row["at"]] + lengths[row["text"]], axis=1)
        frame = frame.assign(share=lambda rows: rows["sum"] / numbers.sum())
        centred = np.apply_along_axis(lambda values: values - numbers.mean(), 0, numbers)
        return frame.to_dict("list"), centred.tolist()

    graph = holds(pipeline, ["a", "bb"], ["x", "yyy", "zz", "y"])
    assert not graph.guards
