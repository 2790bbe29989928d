import io

import torch
from PIL import Image, UnidentifiedImageError
from torch import nn

from app.transforms import CenterCrop, Compose, Resize, ToTensor, to_rgb

transform = Compose([to_rgb, Resize(36), CenterCrop(32), ToTensor()])


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.MaxPool2d(2))


class CNN(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(conv(3, 8), conv(8, 16), conv(16, 16))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(self.pool(self.features(x)).flatten(1))


class Classifier:
    def __init__(self, names, topk=3):
        self.names = names
        self.topk = topk
        self.model = CNN(len(names)).eval()

    def predict(self, data: bytes):
        try:
            img = Image.open(io.BytesIO(data))
        except UnidentifiedImageError:
            return {"error": "not an image"}
        size = img.size
        x = transform(img).unsqueeze(0)
        with torch.inference_mode():
            probs = self.model(x).softmax(1)
        top = probs.topk(self.topk)
        pairs = [(self.names[i], round(p, 5)) for p, i in zip(top.values[0].tolist(), top.indices[0].tolist())]
        return {"size": size, "top": pairs}
