"""TensorTracer's saver of values to an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from clew.export.flat_hdf5_saver import FlatHDF5Saver

from .results import GlobalVariableResult


class H5PYSaverCallback(FlatHDF5Saver):
    """Moves values into an HDF5 file as they come: `forward.x`, `forward.x_iterations`, `forward.x_ranks`."""

    def __init__(
        self,
        dataset_file: Any,
        iteration_dtype: Any = np.int64,
        float_dtype: Any = np.float32,
        int_dtype: Any = np.int32,
        compression: Any = None,
        compression_opts: Any = None,
        shuffle: bool = False,
        existing_ok: bool = True,
    ) -> None:
        self.dataset_file = Path(dataset_file)
        distributed = torch.distributed
        ready = distributed.is_available() and distributed.is_initialized()
        self._is_main = not ready or distributed.get_rank() == 0
        if self._is_main:
            self.dataset_file.absolute().parent.mkdir(parents=True, exist_ok=True)
        super().__init__(
            dataset_file,
            iteration_dtype=iteration_dtype,
            float_dtype=float_dtype,
            int_dtype=int_dtype,
            compression=compression,
            compression_opts=compression_opts,
            shuffle=shuffle,
            existing="replace" if existing_ok or not self._is_main else "error",
        )
        self.iteration_dtype, self.float_dtype, self.int_dtype = iteration_dtype, float_dtype, int_dtype
        self.compression, self.compression_opts, self.shuffle = compression, compression_opts, shuffle

    @property
    def h5_file(self) -> Any:
        """The open h5py file, on rank 0."""
        return self.file if self._is_main else None

    def __call__(self, name: str, values: Any, iterations: Any = None, ranks: Any = None) -> None:
        """Write the values of a name, and empty the lists. A result may be given in place of the three lists."""
        if isinstance(values, GlobalVariableResult):
            result = values
            held = list(result.values)
            super().__call__(name, held, result.iterations, result.ranks)
            result.values = held
        else:
            super().__call__(name, values, iterations, [] if ranks is None else ranks)


__all__ = ["H5PYSaverCallback"]
