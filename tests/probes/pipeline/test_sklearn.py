"""The steps of scikit-learn's pipelines are stages: fitted on everything, shown for the rows of the items."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import base
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import clew

X = np.random.default_rng(0).normal(size=(200, 3))
y = (X[:, 0] > 0).astype(int)


def people(count: int = 100) -> pd.DataFrame:
    ages = np.arange(count, dtype=float)
    ages[1] = np.nan
    return pd.DataFrame({"age": ages, "city": list("abcd") * (count // 4)}, index=[f"p{i}" for i in range(count)])


def functions_of(*classes: type) -> dict[tuple[type, str], tuple[Any, Any]]:
    """Every attribute of classes and of their bases, with its code."""
    found = {}
    for cls in classes:
        for owner in cls.__mro__:
            for name, value in vars(owner).items():
                function = getattr(value, "fn", value)
                found[owner, name] = value, getattr(function, "__code__", None)
    return found


def test_each_step_is_a_stage_named_after_it() -> None:
    pipe = Pipeline([("scaler", StandardScaler()), ("clf", LogisticRegression())])
    with clew.items(3) as trace:
        pipe.fit(X, y)
    assert list(trace.stages) == ["scaler", "clf"]
    assert [call.function for call in trace.calls] == ["StandardScaler.fit_transform", "LogisticRegression.fit"]
    assert list(trace.scaler[0]) == ["X", "y", "Xt"]
    assert list(trace.clf[0]) == ["X", "y"]


def test_it_is_fitted_on_all_rows_and_only_the_items_are_kept() -> None:
    pipe = Pipeline([("scaler", StandardScaler()), ("clf", LogisticRegression())])
    with clew.items(3) as trace:
        pipe.fit(X, y)
    alone = Pipeline([("scaler", StandardScaler()), ("clf", LogisticRegression())]).fit(X, y)
    np.testing.assert_array_equal(pipe["clf"].coef_, alone["clf"].coef_)
    np.testing.assert_array_equal(trace.scaler[0].X, X[:3])
    np.testing.assert_array_equal(trace.scaler[0].Xt, alone["scaler"].transform(X)[:3])
    assert trace.scaler[0].passage.rows == 200
    assert trace.altered == []
    assert trace.notes == ["scikit-learn: fitted on all 200 rows; 3 rows of each table are shown"]


def test_the_trace_opens_again_from_the_run() -> None:
    with clew.items(3):
        Pipeline([("scaler", StandardScaler())]).fit_transform(X)
    again = clew.open("latest").trace
    np.testing.assert_array_equal(again.scaler[0].X, X[:3])
    assert again.scaler[0].passage.rows == 200


def test_predictions_and_scores_are_outputs() -> None:
    pipe = Pipeline([("scaler", StandardScaler()), ("clf", LogisticRegression())]).fit(X, y)
    with clew.items(2) as trace:
        predicted = pipe.predict(X)
        probable = pipe.predict_proba(X)
        score = pipe.score(X, y)
    first, second, third = trace.clf
    np.testing.assert_array_equal(first.prediction, predicted[:2])
    np.testing.assert_array_equal(second.prediction, probable[:2])
    assert third.score == score
    np.testing.assert_array_equal(third.y, y[:2])
    assert trace.item(1).batch == 0


def test_predictions_of_several_outputs_are_cut_one_by_one() -> None:
    pipe = Pipeline([("clf", MultiOutputClassifier(LogisticRegression()))]).fit(X, np.stack([y, 1 - y], axis=1))
    with clew.items(2) as trace:
        pipe.predict_proba(X)
    assert [part.shape for part in trace.clf[0].prediction] == [(2, 2), (2, 2)]


def test_items_are_called_by_the_index_and_found_in_every_step() -> None:
    prep = ColumnTransformer([("num", StandardScaler(), ["age"]), ("cat", OneHotEncoder(), ["city"])])
    with clew.items(3) as trace:
        Pipeline([("prep", prep), ("last", FunctionTransformer())]).fit_transform(people().fillna(0.0))
    assert [item.id for item in trace.items] == ["p0", "p1", "p2"]
    item = trace.item("p2")
    assert item.stages == ["prep", "num", "cat", "last"]
    assert item["cat"][0].inputs["X"]["city"] == "c"
    np.testing.assert_array_equal(item["cat"][0].outputs["Xt"], [0, 0, 1, 0])
    assert [step.row for step in item] == [2, 2, 2, 2]


def test_transformers_of_a_column_transformer_are_seen_through_their_clones() -> None:
    inner = Pipeline([("scaler", StandardScaler()), ("pca", PCA(1))])
    columns = ColumnTransformer([("num", inner, [0, 1]), ("off", "drop", [0])], remainder=StandardScaler())
    with clew.items(2) as trace:
        columns.fit(X)
        columns.transform(X)
    assert list(trace.stages) == ["num", "scaler", "pca", "remainder"]
    assert [call.function for call in trace.num] == ["Pipeline.fit_transform", "Pipeline.transform"]
    assert trace.scaler[0].X.shape == (2, 2)
    assert trace.remainder[0].X.shape == (2, 1)


def test_what_is_passed_through_or_dropped_is_no_stage() -> None:
    columns = ColumnTransformer([("kept", "passthrough", [0]), ("off", "drop", [1]), ("num", StandardScaler(), [2])])
    with clew.items(2) as trace:
        Pipeline([("skip", "passthrough"), ("columns", columns), ("none", None)]).fit(X).transform(X)
    assert list(trace.stages) == ["columns", "num"]


def test_a_feature_union_shows_its_parts() -> None:
    union = FeatureUnion([("same", FunctionTransformer()), ("pca", PCA(2))], transformer_weights={"pca": 2.0})
    with clew.items(2) as trace:
        made = Pipeline([("union", union)]).fit_transform(X)
    assert list(trace.stages) == ["union", "same", "pca"]
    np.testing.assert_array_equal(trace.union[0].Xt, made[:2])
    assert trace.pca[0].passage.parent == trace.union[0].passage.key


def test_sparse_rows_are_written_out() -> None:
    texts = ["red fish", "blue fish", "one fish"] * 20
    with clew.items(2) as trace:
        Pipeline([("words", CountVectorizer()), ("clf", LogisticRegression())]).fit(texts, [0, 1, 0] * 20)
    assert trace.words[0].X == ["red fish", "blue fish"]
    assert trace.words[0].Xt.tolist() == [[0, 1, 0, 1], [1, 1, 0, 0]]
    np.testing.assert_array_equal(trace.clf[0].X, trace.words[0].Xt)


def test_of_very_wide_sparse_rows_what_is_not_zero_is_kept() -> None:
    from scipy import sparse

    wide = sparse.csr_matrix(([5.0, 7.0], ([0, 1], [3, 999_999])), shape=(4, 1_000_000))
    with clew.items(2) as trace:
        Pipeline([("same", FunctionTransformer(accept_sparse=True))]).fit_transform(wide)
    assert trace.same[0].X == [{3: 5.0}, {999_999: 7.0}]


def test_rows_are_followed_by_label_when_some_are_dropped() -> None:
    steps = [("clean", FunctionTransformer(lambda table: table.dropna())), ("same", FunctionTransformer())]
    with clew.items(3) as trace:
        Pipeline(steps).fit_transform(people())
    assert trace["same"][0].passage.ids == ("p0", "p2")
    assert list(trace["same"][0].X.index) == ["p0", "p2"]
    assert "clean: 'p1' has no row in what came out" in trace.notes


def test_shuffled_rows_are_followed_by_label() -> None:
    with clew.items(2) as trace:
        Pipeline([("mix", FunctionTransformer(lambda table: table.iloc[::-1]))]).fit_transform(people())
    assert trace.item("p1")["mix"][0].outputs["Xt"]["city"] == "b"


def test_where_rows_cannot_be_followed_it_is_said_from_there_on() -> None:
    steps = [("half", FunctionTransformer(lambda table: table[100:])), ("scaler", StandardScaler())]
    with clew.items(3) as trace:
        Pipeline(steps).fit(X)
    assert "200 rows went in, 100 came out" in trace.half[0].passage.lost
    assert not trace.half[0].passage.by_row  # else row 0 of what came out would be taken for item 0
    assert trace.scaler[0].passage.ids == ()
    assert "200 rows went in, 100 came out" in trace.scaler[0].passage.lost


def test_an_index_that_is_counted_anew_is_not_believed() -> None:
    table = pd.DataFrame({"a": [np.nan, 1.0, 2.0, 3.0]})
    clean = FunctionTransformer(lambda table: table.dropna().reset_index(drop=True))
    with clew.items(2) as trace:
        Pipeline([("clean", clean)]).fit_transform(table)
    assert trace.clean[0].passage.lost


def test_the_first_rows_of_a_table_are_still_themselves() -> None:
    table = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    with clew.items(2) as trace:
        Pipeline([("head", FunctionTransformer(lambda table: table.head(3)))]).fit_transform(table)
    assert trace["head"][0].passage.lost == ""
    assert trace.item(1)["head"][0].outputs["Xt"]["a"] == 1.0


def test_the_table_of_a_test_set_brings_its_own_items() -> None:
    pipe = Pipeline([("scaler", StandardScaler())])
    with clew.items(2) as trace:
        pipe.fit(X[:100])
        pipe.transform(X[100:])
        pipe.transform(X[:100].copy())
    assert [call.passage.source for call in trace.scaler] == ["Pipeline.fit", "Pipeline.transform", "Pipeline.fit"]
    np.testing.assert_array_equal(trace.item(0, source="Pipeline.transform")["scaler"][0].inputs["X"], X[100])


def test_the_same_labels_on_other_rows_are_other_items() -> None:
    one, other = pd.DataFrame({"a": [1.0, 2.0, 3.0]}), pd.DataFrame({"a": [7.0, 8.0, 9.0]})
    pipe = Pipeline([("scaler", StandardScaler())])
    with clew.items(1) as trace:
        pipe.fit(one)
        pipe.transform(other)
        pipe.transform(one.assign(a=one["a"]))
    assert [call.passage.source for call in trace.scaler] == ["Pipeline.fit", "Pipeline.transform", "Pipeline.fit"]


def test_id_names_a_column() -> None:
    with clew.items(2, id="city") as trace:
        Pipeline([("same", FunctionTransformer())]).fit_transform(people())
    assert [item.id for item in trace.items] == ["a", "b"]


def test_fewer_rows_than_were_asked_for_are_said() -> None:
    with clew.items(5) as trace:
        Pipeline([("scaler", StandardScaler())]).fit(X[:2])
    assert "Pipeline.fit had 2 items; 5 were asked for" in trace.notes
    assert trace.scaler[0].passage.rows is None


def test_a_step_that_raises_is_the_last_of_the_trace() -> None:
    def bad(table: Any) -> Any:
        raise ValueError("no such column")

    with pytest.raises(ValueError, match="no such column"), clew.items(2) as trace:
        Pipeline([("scaler", StandardScaler()), ("bad", FunctionTransformer(bad)), ("clf", PCA())]).fit(X)
    assert list(trace.stages) == ["scaler", "bad"]
    assert "no such column" in trace.bad[0].passage.error
    np.testing.assert_array_equal(trace.bad[0].X, trace.scaler[0].Xt)


@pytest.mark.parametrize("fails", [False, True])
def test_afterwards_everything_is_as_before(fails: bool) -> None:
    classes = (Pipeline, ColumnTransformer, FeatureUnion, StandardScaler, PCA, LogisticRegression, FunctionTransformer)
    before, clone = functions_of(*classes), base.clone.__code__
    pipe = Pipeline([("scaler", StandardScaler()), ("pca", PCA()), ("clf", LogisticRegression())])
    try:
        with clew.items(2):
            assert base.clone.__code__ is not clone
            pipe.fit(X, y[:5] if fails else y)
    except ValueError:
        assert fails
    after = functions_of(*classes)
    assert before.keys() == after.keys()
    for key, (value, code) in before.items():
        assert after[key][0] is value
        assert after[key][1] is code
    assert base.clone.__code__ is clone


class Doubling(TransformerMixin, BaseEstimator):
    """A user's own: `fit_transform` is inherited."""

    def fit(self, X: Any, y: Any = None) -> Doubling:
        return self

    def transform(self, X: Any) -> Any:
        return X * 2


def test_a_method_that_calls_another_one_is_one_call() -> None:
    with clew.items(2) as trace:
        Pipeline([("double", Doubling())]).fit_transform(X)
    assert [call.function for call in trace.double] == ["Doubling.fit_transform"]


def test_estimators_outside_of_a_pipeline_are_left_alone() -> None:
    pipe = Pipeline([("scaler", StandardScaler())]).fit(X)
    with clew.items(2) as trace:
        pipe.transform(X)
        pipe["scaler"].transform(X)
        StandardScaler().fit_transform(X)
    assert len(trace.calls) == 1


def test_steps_that_come_from_the_cache_are_named(tmp_path: Path) -> None:
    pipe = Pipeline([("scaler", StandardScaler()), ("clf", LogisticRegression())], memory=str(tmp_path))
    with clew.items(2) as first:
        pipe.fit(X, y)
    with clew.items(2) as second:
        pipe.fit(X, y)
    assert list(first.stages) == ["scaler", "clf"]
    assert list(second.stages) == ["clf"]
    assert second.clf[0].passage.ids == (0, 1)
    assert any("scaler of Pipeline.fit not seen: memory=" in note for note in second.notes)


def test_threads_of_joblib_belong_to_the_trace() -> None:
    import joblib

    union = FeatureUnion([("double", Doubling()), ("pca", PCA(1))], n_jobs=2)
    with clew.items(2) as trace, joblib.parallel_config("threading"):
        union.fit_transform(X)
    assert set(trace.stages) == {"double", "pca"}
    assert trace.double[0].passage.ids == (0, 1)


def test_what_runs_in_other_processes_is_said_not_to_be_seen() -> None:
    import joblib

    union = FeatureUnion([("double", Doubling()), ("pca", PCA(1))], n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # joblib's own, about its processes
        with clew.items(2) as trace, joblib.parallel_config("loky", n_jobs=2):
            made = union.fit_transform(X)
    assert made.shape == (200, 4)
    assert any("double, pca of FeatureUnion.fit_transform not seen: n_jobs=2" in note for note in trace.notes)


def test_a_search_over_parameters_shows_the_pipelines_it_makes() -> None:
    pipe = Pipeline([("scaler", StandardScaler()), ("clf", LogisticRegression())])
    table = pd.DataFrame(X, columns=list("abc"))
    with clew.items(1) as trace:
        GridSearchCV(pipe, {"clf__C": [1.0, 2.0]}, cv=2).fit(table, y)
    assert trace.item(0).stages == ["scaler", "clf"]
    assert len(trace.scaler["StandardScaler.fit_transform"]) == 5


def test_a_pipeline_inside_a_stage_of_one_item_is_about_that_item() -> None:
    pipe = Pipeline([("scaler", StandardScaler())]).fit(X)

    @clew.stage("later")
    def later() -> None:
        """Not reached, so the program goes on after the two items."""

    @clew.stage("sample")
    def sample(number: int) -> Any:
        return pipe.transform(X[number : number + 1])

    with clew.items(2) as trace:
        for number in range(10):
            sample(number)
    assert [call.passage.ids for call in trace.scaler] == [(0,), (1,)]
    later()


def test_with_other_plug_ins_only_it_is_not_seen() -> None:
    with clew.items(2, auto=["pandas"]) as trace:
        Pipeline([("scaler", StandardScaler())]).fit(X)
    assert len(trace) == 0
