import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from app.features import add_features, clean

TODAY = pd.Timestamp("2024-05-01")
NUM = ["age", "income", "tenure", "log_income", "city_mean"]
CAT = ["city", "age_bin"]
clf = None
settings = {"cutoff": 0.5}


def halve(x):
    return x / 2


def train(df, y):
    global clf
    numeric = Pipeline([("imp", SimpleImputer(strategy="median")), ("half", FunctionTransformer(halve)), ("sc", StandardScaler())])
    categorical = Pipeline([("imp", SimpleImputer(strategy="most_frequent")), ("oh", OneHotEncoder(handle_unknown="ignore"))])
    pre = ColumnTransformer([("num", numeric, NUM), ("cat", categorical, CAT)])
    clf = Pipeline([("pre", pre), ("rf", RandomForestClassifier(n_estimators=20, random_state=0))])
    clf.fit(add_features(clean(df), TODAY), y)


def score(df):
    features = add_features(clean(df), TODAY)
    p = clf.predict_proba(features)[:, 1]
    out = df[["age", "city"]].copy()
    out["p"] = p.round(4)
    out["flag"] = (p > settings["cutoff"]).astype(int)
    high = features.query("income > 50 and age < 60")
    return {"rows": out.reset_index(drop=True), "high": len(high), "mean": float(p.mean()) if len(p) else None}
