"""Bytes of images through Pillow, NumPy and a convolution."""
import io
import random

import torch
from app.classify import Classifier
from PIL import Image

CHANGED = "nothing"


def encoded(rng, size, mode="RGB", format="PNG"):
    count = size[0] * size[1] * len(Image.new(mode, (1, 1)).tobytes())
    file = io.BytesIO()
    Image.frombytes(mode, size, rng.randbytes(count)).save(file, format)
    return file.getvalue()


def prepare():
    torch.manual_seed(0)
    classifier = Classifier(["cat", "dog", "cow", "hen", "fox"])
    classifier.model.train()
    with torch.no_grad():
        classifier.model(torch.randn(8, 3, 32, 32) * 2)
    classifier.model.eval()
    rng = random.Random(1)
    return classifier.predict, [encoded(rng, (40, 50)), encoded(rng, (20, 20), "L"), b"nope"]


def random_input(rng):
    if rng.random() < 0.05:
        return {"data": rng.randbytes(20)}
    mode = rng.choice(["RGB", "RGB", "L", "RGBA", "LA"])
    format = "PNG" if mode in ("RGBA", "LA") else rng.choice(["PNG", "JPEG"])
    return {"data": encoded(rng, (rng.randint(5, 60), rng.randint(5, 60)), mode, format)}
