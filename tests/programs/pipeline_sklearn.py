"""scikit-learn: a pipeline with a transformer of the program, cloned and pickled."""

import pickle

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline


class Scale(BaseEstimator, TransformerMixin):
    def __init__(self, by=1.0):
        self.by = by

    def fit(self, x, y=None):
        self.mean_ = x.mean(axis=0)
        return self

    def transform(self, x):
        moved = (x - self.mean_) * self.by
        return moved


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    x = rng.normal(size=(80, 3))
    y = (x[:, 0] > 0).astype(int)
    model = make_pipeline(Scale(2.0), LogisticRegression()).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    print(round(model.score(x, y), 2), (again.predict(x) == model.predict(x)).all(), clone(model)[0].get_params())

# Needs: sklearn
# Output:
# 0.97 True {'by': 2.0}
