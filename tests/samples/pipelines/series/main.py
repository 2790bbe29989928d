"""Windows whose width varies, a forecast by an LSTM, anomalies found by a `while` loop."""
import torch
from app import forecast

CHANGED = "nothing"


def prepare():
    torch.manual_seed(0)
    forecast.forecaster = forecast.LSTMForecaster()
    forecast.forecaster.eval()
    return forecast.pipeline, [{"values": [1.0, 2.0, 3.0, 2.0, 9.0, 1.0]}, {"values": [1.0] * 12}, {"values": []}]


def random_input(rng):
    def value():
        return None if rng.random() < 0.1 else rng.choice([rng.random() * 10, rng.randint(0, 3), 100.0])

    return {"values": [value() for _ in range(rng.randint(0, 30))]}
