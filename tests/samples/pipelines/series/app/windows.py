import numpy as np


def sliding(values, width, step=1):
    """Windows of the series; short series give one padded window."""
    values = np.asarray(values, dtype=np.float32)
    if len(values) < width:
        values = np.pad(values, (width - len(values), 0), mode="edge")
    return np.stack([values[i : i + width] for i in range(0, len(values) - width + 1, step)])


def zscore(x, eps=1e-6):
    mean = x.mean(axis=-1, keepdims=True)
    std = x.std(axis=-1, keepdims=True)
    return (x - mean) / (std + eps)
