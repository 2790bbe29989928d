"""A grid search with a scorer and a transformer of the program's own, in two processes."""

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer


class Shift(BaseEstimator, TransformerMixin):
    def __init__(self, by=0.0):
        self.by = by

    def fit(self, x, y=None):
        self.fitted_ = True
        return self

    def transform(self, x):
        moved = x + self.by
        return moved


def loss(truth, predicted):
    error = np.abs(truth - predicted)
    return float(error.max())


def score(estimator, x, y):
    value = estimator.score(x, y)
    return round(value, 6)


def double(x):
    twice = x * 2
    return twice


if __name__ == "__main__":
    x = np.arange(40.0).reshape(20, 2)
    y = x @ [1.0, 2.0] + 3
    steps = [("shift", Shift()), ("double", FunctionTransformer(double)), ("ridge", Ridge())]
    search = GridSearchCV(
        Pipeline(steps),
        {"shift__by": [0.0, 1.0], "ridge__alpha": [0.1, 10.0]},
        scoring={"loss": make_scorer(loss, greater_is_better=False), "score": score},
        refit="score",
        n_jobs=2,
        cv=2,
    )
    search.fit(x, y)
    print(search.best_params_)
    print(np.round(search.cv_results_["mean_test_loss"], 4))
    print(cross_val_score(Ridge(), x, y, scoring=lambda e, a, b: round(e.score(a, b), 4), n_jobs=2, cv=2))

# Needs: sklearn
# Output:
# {'ridge__alpha': 0.1, 'shift__by': 0.0}
# [-0.0033 -0.0033 -0.3283 -0.3283]
# [1. 1.]
