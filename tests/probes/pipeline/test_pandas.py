"""The functions of `.pipe` chains are stages; the items are the first rows, by their labels."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

import clew


def table() -> pd.DataFrame:
    return pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0, 5.0], "k": list("vwxyz")}, index=[10, 11, 12, 13, 14])


def drop(df: pd.DataFrame) -> pd.DataFrame:
    return df.dropna()


def scale(df: pd.DataFrame, by: float = 2.0, *, column: str = "a") -> pd.DataFrame:
    return df.assign(**{column: df[column] * by})


def total(df: pd.DataFrame) -> float:
    return float(df["a"].sum())


def test_a_chain_is_stages_named_after_the_functions() -> None:
    with clew.items(3) as trace:
        result = table().pipe(drop).pipe(scale, 10.0).pipe(total)
    assert result == 130.0
    assert list(trace.stages) == ["drop", "scale", "total"]
    assert trace.scale[0].df["a"].tolist() == [1.0, 3.0]
    assert trace.scale[0].by == 10.0
    assert trace.scale[0]["result"]["a"].tolist() == [10.0, 30.0]
    assert trace.total[0]["result"] == 130.0
    assert trace.total[0].passage.rows == 4


def test_arguments_that_are_what_they_would_be_anyhow_are_not_shown() -> None:
    with clew.items(3) as trace:
        table().pipe(scale, column="a", by=3.0)
    assert list(trace.scale[0].inputs) == ["df", "by"]


def test_items_are_the_first_rows_and_called_by_their_labels() -> None:
    with clew.items(3) as trace:
        table().pipe(drop).pipe(scale)
    assert [item.id for item in trace.items] == [10, 11, 12]
    assert trace.item(11).stages == ["drop"]
    assert trace.item(12)["scale"][0].outputs["result"]["a"] == 6.0
    assert trace.notes == ["drop: 11 has no row in what came out"]


def test_a_label_that_comes_twice_is_said() -> None:
    with clew.items(2) as trace:
        table().pipe(lambda df: pd.concat([df, df.head(1)])).pipe(scale)
    assert trace["<lambda>"][0].passage.lost == "item 10 has 2 rows in what came out"
    assert trace.scale[0].passage.ids == (10, 10, 11)
    assert list(trace.scale[0].df.index) == [10, 10, 11]
    assert trace.scale[0].passage.lost == ""


def test_rows_in_as_many_but_other_rows_out_are_not_taken_for_each_other() -> None:
    with clew.items(2) as trace:
        table().pipe(lambda df: df.iloc[[0, 0, 2, 3, 4]])
    (call,) = trace["<lambda>"]
    assert list(call["result"].index) == [10, 10]
    assert not call.passage.by_row


def test_when_no_item_is_left_it_is_said() -> None:
    with clew.items(2) as trace:
        table().pipe(lambda df: df[3:]).pipe(scale)
    assert trace.scale[0].passage.lost == "none of the items has a row in what came out"


def test_sorting_by_label_is_followed() -> None:
    with clew.items(2) as trace:
        table().pipe(lambda df: df.sort_values("k", ascending=False))
    assert trace.item(10)["<lambda>"][0].outputs["result"]["k"] == "v"


@pytest.mark.parametrize("column", ["a", "k"])
def test_sorting_and_counting_anew_is_not_followed(column: str) -> None:
    counted = table().dropna().reset_index(drop=True)
    with clew.items(2) as trace:
        counted.pipe(lambda df: df.sort_values(column, ascending=False, ignore_index=True))
    (call,) = trace["<lambda>"]
    assert call.passage.lost == "the rows are in another order, and counted anew"
    assert not call.passage.by_row


def test_a_changed_column_is_no_other_order() -> None:
    flags = pd.Series([1.0, 0.0, 3.0, 9.0], name="flag")
    with clew.items(4) as trace:
        flags.pipe(lambda s: s * 3)
    assert trace["<lambda>"][0].passage.lost == ""
    assert trace.item(2)["<lambda>"][0].outputs["result"] == 9.0


def test_an_index_made_of_a_column_keeps_the_places() -> None:
    with clew.items(2) as trace:
        table().pipe(lambda df: df.set_index("k")).pipe(scale)
    assert trace.scale[0].passage.ids == (10, 11)
    assert list(trace.scale[0].df.index) == ["v", "w"]


def test_labels_that_are_not_unique_are_not_gone_by() -> None:
    twice = pd.concat([table(), table()])
    with clew.items(2) as trace:
        twice.pipe(scale).pipe(drop)
    assert trace.scale[0].passage.ids == (0, 1)
    assert "10 rows went in, 8 came out" in trace.drop[0].passage.lost


def test_the_order_of_labels_that_are_not_unique_says_nothing() -> None:
    twice = pd.concat([table(), table()])
    with clew.items(2) as trace:
        twice.pipe(lambda df: df.iloc[::-1])
    assert "same label" in trace["<lambda>"][0].passage.lost


def test_a_series_has_pipes_too() -> None:
    with clew.items(2) as trace:
        table()["a"].pipe(np.log1p).pipe(lambda s: s.fillna(0.0))
    assert list(trace.stages) == ["log1p", "<lambda>"]
    assert trace.item(11)["<lambda>"][0].outputs["result"] == 0.0


def test_a_function_that_takes_the_table_by_keyword() -> None:
    def join(left: pd.DataFrame, df: pd.DataFrame) -> pd.DataFrame:
        return df.join(left)

    other = pd.DataFrame({"v": range(5)}, index=[14, 13, 12, 11, 10])
    with clew.items(2) as trace:
        made = table().pipe((join, "df"), other)
    assert list(made["v"]) == [4, 3, 2, 1, 0]
    assert trace.join[0].df["k"].tolist() == ["v", "w"]
    assert list(trace.join[0].inputs) == ["df", "left"]


def test_partials_go_by_the_function_in_them() -> None:
    with clew.items(2) as trace:
        table().pipe(functools.partial(scale, by=7.0))
    assert trace.scale[0]["result"]["a"].tolist()[0] == 7.0


def test_a_large_table_that_is_an_argument_is_not_captured() -> None:
    large = pd.DataFrame({"a": np.zeros(200_000)})
    with clew.items(2) as trace:
        table().pipe(lambda df, other: df, large)
    assert trace["<lambda>"][0].other == "DataFrame of 200,000 rows, not captured"


def test_pipes_inside_of_pipes_are_seen() -> None:
    def outer(df: pd.DataFrame) -> pd.DataFrame:
        return df.pipe(drop)

    with clew.items(2) as trace:
        table().pipe(outer)
    assert trace.drop[0].passage.parent == trace.outer[0].passage.key
    assert trace.drop[0].passage.ids == (10, 11)


def test_another_table_of_as_many_rows_inside_of_a_pipe_is_not_about_the_items() -> None:
    def look_up(df: pd.DataFrame) -> pd.DataFrame:
        pd.DataFrame({"a": [7.0, 8.0]}).pipe(scale)
        return df

    with clew.items(2) as trace:
        table().pipe(look_up)
    assert trace.look_up[0].passage.source == "DataFrame"
    assert trace.scale[0].passage.source == "DataFrame#2"
    assert trace.scale[0].passage.ids == (0, 1)


def test_groups_have_pipes_that_just_pass() -> None:
    with clew.items(2) as trace:
        sums = table().groupby("k").pipe(lambda groups: groups["a"].sum())
    assert sums["z"] == 5.0
    assert len(trace) == 0


def test_an_exception_is_the_programs_own() -> None:
    def bad(df: pd.DataFrame) -> Any:
        return df["nothing"]

    with pytest.raises(KeyError, match="nothing"), clew.items(2) as trace:
        table().pipe(drop).pipe(bad)
    assert "nothing" in trace.bad[0].passage.error
    assert list(trace.bad[0].df.index) == [10]


def test_a_call_that_cannot_be_made_raises_what_it_would_raise() -> None:
    with pytest.raises(TypeError, match="func"), clew.items(2):
        table().pipe()  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="not callable"), clew.items(2):
        table().pipe(3)  # type: ignore[call-overload]


def test_the_users_own_stage_is_recorded_once() -> None:
    @clew.stage("own")
    def own(df: pd.DataFrame) -> pd.DataFrame:
        return df

    with clew.items(2) as trace:
        table().pipe(own)
    assert [call.stage for call in trace.calls] == ["own"]


def test_dates_are_names_of_items() -> None:
    dated = table().set_index(pd.date_range("2026-01-01", periods=5))
    with clew.items(2) as trace:
        dated.pipe(scale)
    assert trace.item(pd.Timestamp("2026-01-02"))["scale"][0].inputs["df"]["k"] == "w"


@pytest.mark.parametrize("id", ["k", lambda row: row["k"]])
def test_id_names_the_items(id: Any) -> None:
    with clew.items(2, id=id) as trace:
        table().pipe(drop).pipe(scale)
    assert [item.id for item in trace.items] == ["v", "w"]
    assert trace.item("v").stages == ["drop", "scale"]


def test_an_id_that_does_not_fit_is_said() -> None:
    with clew.items(2, id="nothing") as trace:
        table().pipe(scale)
    assert [item.id for item in trace.items] == [10, 11]
    assert any("id= does not fit" in note for note in trace.notes)


def test_the_last_tables_are_kept_for_a_crash() -> None:
    with pytest.raises(ZeroDivisionError), clew.items(keep="last batch") as trace:
        for number in range(30):
            table().assign(number=number).pipe(scale).pipe(lambda df, number=number: df if number < 25 else 1 // 0)
    assert trace.scale[0].df["number"].tolist() == [25] * 5


def test_a_table_that_comes_into_a_scikit_learn_pipeline_keeps_its_items() -> None:
    sklearn = importlib.import_module("sklearn.pipeline")
    from sklearn.preprocessing import StandardScaler

    with clew.items(3) as trace:
        cleaned = table().pipe(drop)
        sklearn.Pipeline([("scaler", StandardScaler())]).fit(cleaned[["a"]])
    assert trace.item(12).stages == ["drop", "scaler"]


def test_afterwards_everything_is_as_before() -> None:
    function = pd.DataFrame.pipe
    code = function.__code__
    with clew.items(2):
        assert function.__code__ is not code
        table().pipe(drop)
    assert pd.DataFrame.pipe is function
    assert function.__code__ is code
