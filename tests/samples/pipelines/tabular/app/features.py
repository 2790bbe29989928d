import numpy as np
import pandas as pd

REQUIRED = ["age", "income", "city", "joined"]


def clean(df: pd.DataFrame) -> pd.DataFrame:
    df = df.copy()
    missing = [c for c in REQUIRED if c not in df.columns]
    if missing:
        raise ValueError(f"missing columns: {missing}")
    df["age"] = pd.to_numeric(df["age"], errors="coerce")
    df["city"] = df["city"].str.strip().str.lower().fillna("unknown")
    df["joined"] = pd.to_datetime(df["joined"], format="%Y-%m-%d", errors="coerce")
    return df


def add_features(df, today):
    df["tenure"] = (today - df["joined"]).dt.days
    df["log_income"] = np.log1p(df["income"].clip(lower=0))
    df["age_bin"] = pd.cut(df["age"], [0, 18, 35, 60, 120], labels=["child", "young", "mid", "old"]).astype(object)
    df["city_mean"] = df.groupby("city")["income"].transform("mean")
    return df.drop(columns=["joined"])
