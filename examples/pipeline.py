"""What goes through a small pipeline: `python examples/pipeline.py` prints the tree of calls while it grows."""

import numpy as np

import clew


def load(path):
    return np.random.default_rng(len(path)).integers(0, 256, (8, 64, 96, 3), dtype=np.uint8)


def normalise(video):
    video = video.astype("float32")
    video = video / 255
    video = np.transpose(video, (3, 0, 1, 2))
    return video  # noqa: RET504  # a name of its own, to be seen


def augment(frame, k):
    if k == 7:
        raise ValueError("bad frame")
    return frame * k


class Dataset:
    def __init__(self, paths):
        self.paths = paths

    @clew.follow("video")
    def get(self, index):
        video = load(self.paths[index])
        video = normalise(video)
        clew.log("normalised", video)
        for k in range(20):
            try:
                augment(video[0], k)
            except ValueError:
                pass
        return {"video": video, "caption": "a cat " * 20, "index": index}


if __name__ == "__main__":
    Dataset(["a.mp4", "b.mp4"]).get(1)
