import pandas as pd

CATEGORIES = {}


def build(rows):
    df = pd.DataFrame(rows)
    for name, levels in CATEGORIES.items():
        known = df[name].where(df[name].isin(levels))
        df[name] = pd.Categorical(known, categories=levels)
    df["ratio"] = df["amount"] / (df["balance"] + 1)
    df["hour"] = pd.to_datetime(df["time"]).dt.hour
    df["weekend"] = pd.to_datetime(df["time"]).dt.day_of_week.isin([5, 6]).astype(int)
    return df.drop(columns=["time"])
