import json
from pathlib import Path

import lightgbm as lgb
import numpy as np

from app import features

booster = None
threshold = 0.5
names = []


def fit(rows, y):
    global booster, names
    features.CATEGORIES["kind"] = sorted({r["kind"] for r in rows})
    x = features.build(rows)
    names = list(x.columns)
    data = lgb.Dataset(x, label=y)
    booster = lgb.train({"objective": "binary", "verbose": -1, "min_data_in_leaf": 5, "num_threads": 1}, data, 20)
    booster.save_model("model.txt")
    Path("meta.json").write_text(json.dumps({"threshold": 0.4}))


def load():
    global booster, threshold
    booster = lgb.Booster(model_file="model.txt")
    threshold = json.loads(Path("meta.json").read_text())["threshold"]


def score(rows):
    if not rows:
        return []
    x = features.build(rows)[names]
    p = booster.predict(x)
    contrib = booster.predict(x, pred_contrib=True)
    out = []
    for row, prob, c in zip(rows, p, contrib):
        top = np.argsort(-np.abs(c[:-1]))[:2]
        out.append({"id": row.get("id"), "p": float(prob), "fraud": bool(prob > threshold), "why": [names[i] for i in top]})
    return out
