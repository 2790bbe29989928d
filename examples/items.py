"""Is my data right? `python examples/items.py` lets six images of each loader through, and says what it found.

The images are made here and lie in files, as real ones would. The script trains without complaint, and its accuracy on
the validation images is that of guessing. Why? `Compose(flip, normalise)` for both loaders cures it.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import clew

SHAPES = ("disc", "square", "stripes")


def draw(number):
    """A picture of one of the shapes, 32 × 32, in some colour."""
    random = np.random.default_rng(number)
    y, x = np.mgrid[0:32, 0:32] - random.integers(11, 21, (2, 1, 1))
    inside = (x**2 + y**2 < 90, np.maximum(abs(x), abs(y)) < 9, (x + y) % 8 < 4)[number % 3]
    picture = np.where(inside[..., None], random.integers(120, 256, 3), random.integers(0, 80, 3))
    return picture.astype(np.uint8)


def draw_all(folder, count):
    for number in range(count):
        np.save(folder / f"{number:04}.npy", draw(number))


class Shapes(Dataset):
    def __init__(self, folder, numbers, transform):
        self.folder, self.numbers, self.transform = folder, numbers, transform

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        number = self.numbers[index]
        picture = np.load(self.folder / f"{number:04}.npy")
        return self.transform(torch.from_numpy(picture).permute(2, 0, 1).float()), number % 3


class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, picture):
        for transform in self.transforms:
            picture = transform(picture)
        return picture


def flip(picture):
    return picture.flip(-1)


def normalise(picture):
    return (picture / 255 - 0.37) / 0.33


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 5, stride=2), nn.Conv2d(8, 16, 5, stride=2)
        self.head = nn.Linear(16 * 5 * 5, 3)

    def forward(self, pictures):
        return self.head(self.second(self.first(pictures).tanh()).tanh().flatten(1))


def train(folder, epochs=3):
    torch.manual_seed(0)
    training = DataLoader(Shapes(folder, range(300), Compose(flip, normalise)), batch_size=4, shuffle=True)
    validation = DataLoader(Shapes(folder, range(300, 400), Compose(flip)), batch_size=4)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    accuracy = 0.0
    for _ in range(epochs):
        model.train()
        for pictures, shapes in training:
            loss = nn.functional.cross_entropy(model(pictures), shapes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = [model(pictures).argmax(1).eq(shapes).float() for pictures, shapes in validation]
        accuracy = torch.cat(right).mean().item()
    return accuracy


def main():
    torch.set_num_threads(1)  # the network is too small for more
    with tempfile.TemporaryDirectory() as folder:
        draw_all(Path(folder), 400)
        print(f"accuracy: {train(Path(folder)):.2f}")
        with clew.items(6) as trace:
            train(Path(folder))
    print(trace.check())


if __name__ == "__main__":
    main()
