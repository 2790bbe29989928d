"""What `matx.trace` gives: a clew graph under the names Matx has for what one can do with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from clew.errors import GraphError, OptionError
from clew.graph import Graph
from clew.graph.bundle import notices
from clew.graph.bundle.layout import GRAPH
from clew.graph.bundle.saving import save as save_graph
from clew.graph.running.measuring import Profile

from . import timeline

_INSIDE = "model.clew"  # the bundle in a folder that holds other files too
_LISTED = 8  # files that are named


class Names(list[str]):
    """The names of the inputs; Matx has them as an attribute and as a method."""

    def __call__(self) -> list[str]:
        return list(self)


class Module:
    """A traced pipeline, under the names Matx has for what one can do with it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, feed_dict: Mapping[str, Any]) -> Any:
        """Run it. As in Matx, names that are no inputs are left aside."""
        return self.graph.run(self._inputs_of(feed_dict))

    def _inputs_of(self, feed_dict: Any) -> Any:
        if not isinstance(feed_dict, Mapping):
            return feed_dict  # the graph says what is wrong with it
        names = set(self.graph.input_names)
        return {name: value for name, value in feed_dict.items() if name in names}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.graph(*args, **kwargs)

    def save(
        self,
        folder: str | os.PathLike[str],
        name: str = "model.spec.json",
        force_override: bool = True,
        assets: Any = "anywhere",
    ) -> None:
        """Save it as a bundle, with the files that constructors were given, wherever they are: stderr names them.

        Matx constructs operators again when it loads them. If a loaded bundle gives other values than the pipeline did,
        as with a constructor that reads the clock, that is a warning here and an error of `graph.save`.


        name     the file that Matx writes: a bundle has names of its own
        assets   as in `graph.save`: a list, or a function of a path that decides whether the file is taken
        """
        if not force_override and os.path.exists(folder):
            raise OptionError("bundle-there", f"{os.fspath(folder)} is there already.", "Say force_override=True.")
        target = bundle_in(folder) or os.path.join(folder, _INSIDE if _holds_others(folder) else "")
        try:
            save_graph(self.graph, target, assets, on_taken=_name_files)
        except GraphError as error:
            if error.slug != "bundle-test":
                raise
            save_graph(self.graph, target, assets, on_taken=_name_files, test=False)
            notices.warn(f"saved, but {error.what}")

    def warmup(self, feed_dict: Mapping[str, Any]) -> Any:
        """Run once; as in Matx, what comes out is given."""
        return self.run(feed_dict)

    def profile(self, feed_dict: Mapping[str, Any], warmup_times: int = 10) -> Profile:
        """Print how long each step takes, after a few runs, and give it."""
        for _ in range(warmup_times):
            self.run(feed_dict)
        found = self.graph.profile(self._inputs_of(feed_dict))
        sys.stdout.write(f"{found}\n")
        return found

    def gen_step_meta(self, feed_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Run once, and give when each operator began and ended, in nanoseconds, with its inputs and its output."""
        return timeline.step_meta(self.graph, self._inputs_of(feed_dict))

    @staticmethod
    def gen_timeline(meta: dict[str, Any]) -> list[list[str]]:
        """The rows of a table: operator, start, end, duration, share of the whole."""
        return timeline.rows(meta)

    def get_nested_op_attributes(self, op_cls: str, op_name: str) -> dict[str, Any]:
        """Where the model of a torch operator is: in the bundle that this module was loaded from."""
        return {"location": self.graph.__dict__.get("bundle", "")}

    def set_sess_attr(self, key: str, value: Any) -> None:
        self.graph.attrs[key] = value

    def get_sess_attr(self, key: str) -> Any:
        return self.graph.attrs.get(key)

    def has_sess_attr(self, key: str) -> bool:
        return key in self.graph.attrs

    # ---- threads: Matx has three pools, a graph one

    def set_op_parallelism_threads(self, thread_num: int = 2, share: bool = False) -> None:
        self.graph.parallel = thread_num

    def get_op_parallelism_threads(self) -> int:
        return self.graph.parallel

    def disable_op_parallelism(self) -> None:
        self.graph.parallel = 1

    def set_pmap_threads(self, thread_num: int = 8, share: bool = False) -> None:
        self.set_op_parallelism_threads(thread_num)

    set_apply_async_threads = set_op_parallelism_threads
    get_pmap_threads = get_apply_async_threads = get_op_parallelism_threads
    disable_pmap_threads = disable_apply_async_threads = disable_op_parallelism

    # ---- names that Matx has had since its first versions

    Run, Save, GenStepMeta = run, save, gen_step_meta
    GetAttr, SetAttr, HasAttr = get_sess_attr, set_sess_attr, has_sess_attr
    SetOpParallelismThreads, DisableOpParallelism = set_op_parallelism_threads, disable_op_parallelism

    def InputNames(self) -> list[str]:
        return self.graph.input_names

    @property
    def input_names(self) -> Names:
        return Names(self.graph.input_names)

    def __repr__(self) -> str:
        return repr(self.graph)


def bundle_in(folder: str | os.PathLike[str]) -> str | None:
    """The bundle that a folder is, or holds beside other files; None if there is none yet."""
    for place in (os.fspath(folder), os.path.join(folder, _INSIDE)):
        if not os.path.isdir(place) or os.path.isfile(os.path.join(place, GRAPH)):
            return place if os.path.exists(place) else None
    return None


def _holds_others(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder must stay: a bundle takes the place of a whole folder, which the working folder cannot leave."""
    here, place = os.path.realpath(os.getcwd()), os.path.realpath(folder)
    return os.path.isdir(place) and (bool(os.listdir(place)) or os.path.commonpath([here, place]) == place)


def _name_files(target: str, files: list[str]) -> None:
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    try:
        sys.stderr.write(f"clew: {target} takes along {', '.join(files[:_LISTED])}{more}\n")
    except (AttributeError, OSError, ValueError):
        pass  # there is no stderr, or it is closed
