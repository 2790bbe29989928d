"""pandas: groups, apply, method chains."""

import pandas as pd


def clean(frame):
    frame = frame.dropna()
    frame = frame.assign(total=lambda rows: rows.price * rows.count_)
    return frame


def best(group):
    top = group.nlargest(1, "total")
    return top.name.iloc[0]


if __name__ == "__main__":
    data = pd.DataFrame(
        {"name": list("abcd"), "kind": ["x", "y", "x", "y"], "price": [1.0, 2.0, None, 4.0], "count_": [3, 1, 2, 5]}
    )
    frame = clean(data)
    print(frame.groupby("kind")["total"].sum().to_dict())
    print({kind: best(group) for kind, group in frame.groupby("kind")})
    print(frame.apply(lambda row: f"{row['name']}{row['count_']}", axis=1).tolist(), len(data))

# Needs: pandas
# Output:
# {'x': 3.0, 'y': 22.0}
# {'x': 'a', 'y': 'd'}
# ['a3', 'b1', 'd5'] 4
