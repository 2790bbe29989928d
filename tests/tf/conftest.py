"""What holds for every test with TensorFlow: it is there, or the tests fail; and it keeps quiet."""

from __future__ import annotations

import os
import warnings

import pytest

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import keras
    import tensorflow as tf  # noqa: F401


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    keras.utils.set_random_seed(7)
