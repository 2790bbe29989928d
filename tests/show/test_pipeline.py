"""A trace as text: stages in order, each call with what it got and gave, and nothing left out in silence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from clew.records import Kept, NotKept, Object, Summary
from clew.show.pipeline import text
from clew.show.pipeline_values import value_rows
from clew.values import capture, decode
from show.pipelines import IMAGE, passage, trace_of, whole


def lines_of(value: Any, **devices: str) -> list[str]:
    return ["  " * row.depth + row.line.text for row in value_rows("x", value, 0, devices)]


def line_of(value: Any, **devices: str) -> str:
    (output,) = lines_of(value, **devices)
    return output


def hash_of(value: Any) -> str:
    output = re.search(r"hash ([0-9a-f]{8})\b", line_of(value))
    assert output is not None
    return output[1]


class Hostile:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"user code ran: {name}")

    def __repr__(self) -> str:
        raise AssertionError("user code ran: repr")

    def __len__(self) -> int:
        raise AssertionError("user code ran: len")


# ---- a trace


def test_the_head_says_how_many_and_how_it_ended() -> None:
    assert text(whole()).splitlines()[:5] == [
        "2 items, 4 stages, 5 calls in 1.2 ms",
        "failed: ValueError: no <gradient>",
        "altered: the batch size was 64, and is 2",
        "note: one worker & no more",
        "stored in /runs/one",
    ]


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("running", "still running"),
        ("finished", "the program ran to its end"),
        ("stopped", "stopped: the items had passed the last stage"),
    ],
)
def test_every_ending_has_its_words(state: str, said: str) -> None:
    assert text(trace_of(passage(), state=state)).splitlines()[1] == said


def test_a_trace_of_nothing_says_so() -> None:
    assert text(trace_of()).splitlines() == [
        "0 items, 0 stages, 0 calls",
        "the program ran to its end",
        "nothing passed a stage",
    ]


def test_stages_stand_in_the_order_they_were_reached() -> None:
    output = [line for line in text(whole()).splitlines()[5:] if not line.startswith(" ")]
    assert output == ["dataset  2 calls", "collate  1 call", "loss  1 call", "optimizer  1 call"]


def test_a_call_shows_its_items_its_worker_its_place_and_its_time() -> None:
    assert "  Scenes.__getitem__  item 3  worker 1  data.py:12  1.2 ms" in text(whole()).splitlines()
    assert "  collate  batch 0 (items 3, 7)  1.2 ms" in text(whole()).splitlines()


def test_what_a_call_got_and_gave_stands_below_it() -> None:
    lines = text(whole()["dataset"][0]).splitlines()
    assert lines[:4] == [
        "dataset: Scenes.__getitem__  item 3 of train  worker 1  data.py:12  1.2 ms",
        "  file /data/3.png",
        "  in   index: 3",
        "  out  sample: dict[3]",
    ]
    assert lines[4].startswith("    image: ndarray uint8 (6, 8, 3)  3…146  hash ")


def test_an_error_and_lost_items_and_missing_rows_are_reported_at_their_call() -> None:
    lines = [line.strip() for line in text(whole()["optimizer"]).splitlines()]
    assert lines[2:5] == [
        "raised ValueError: no <gradient>",
        "which items: not known, because the optimizer sees no batch",
        "some of 1,000 rows",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": (1, 2, 3)}, "3 of 1,000 rows"),
        ({"outputs": {"x": np.zeros((4, 2))}}, "4 of 1,000 rows"),
        ({"inputs": {"x": pd.DataFrame({"a": [1, 2]})}}, "2 of 1,000 rows"),
    ],
)
def test_how_many_rows_were_kept_is_counted(given: dict[str, Any], said: str) -> None:
    assert said in text(trace_of(passage(rows=1000, **given)))


def test_a_call_that_goes_on_has_not_ended() -> None:
    assert "load  not ended" in text(trace_of(passage(duration=None)))


def test_a_model_shows_its_mode() -> None:
    assert "Net  eval" in text(trace_of(passage("model", "Net", mode="eval")))


def test_the_source_is_named_where_there_are_two() -> None:
    first, second = (passage(ids=(1,), source=source, started=at) for at, source in enumerate(("train", "valid")))
    assert "item 1 of train" in text(trace_of(first, second))
    assert "of train" not in text(trace_of(first))


def test_many_items_and_files_are_counted() -> None:
    output = text(trace_of(passage(ids=tuple(range(40)), files=tuple(f"/{i}.png" for i in range(9)))))
    assert "items 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 28 more" in output
    assert "/4.png" in output and "/5.png" not in output and "… 4 more files" in output


# ---- long traces


def test_a_trace_of_some_hundred_lines_is_shown_whole() -> None:
    output = text(trace_of(*(passage(inputs={"index": i}, started=i) for i in range(70))))
    assert "more" not in output and "index: 69" in output


def test_a_longer_one_is_folded_and_says_how_to_see_the_rest() -> None:
    calls = [passage("load", function, inputs={"index": i}, started=i) for i in range(300) for function in ("a", "b")]
    lines = text(trace_of(*calls)).splitlines()
    assert sum(line.startswith("  a  ") for line in lines) == 3
    assert lines[-2:] == [
        "  … 297 more calls of a; `print(trace.load[6])` shows the next",
        "  … 297 more calls of b; `print(trace.load[7])` shows the next",
    ]


def test_a_call_that_raised_is_never_folded() -> None:
    calls = [passage(inputs={"index": i}, started=i) for i in range(300)]
    calls[250].error = "KeyError: 250"
    assert "raised KeyError: 250" in text(trace_of(*calls))
    assert "… 296 more calls of load" in text(trace_of(*calls))


@pytest.mark.parametrize("stage", ["to tensor", "items", "check"])
def test_a_stage_whose_name_is_not_an_identifier_is_named_by_its_key(stage: str) -> None:
    calls = [passage(stage, inputs={"index": i}, started=i) for i in range(300)]
    assert f'`print(trace["{stage}"][3])`' in text(trace_of(*calls))


def test_the_expression_that_is_said_to_show_the_rest_shows_it() -> None:
    trace = trace_of(*(passage(inputs={"index": i}, started=i) for i in range(300)))
    output = re.search(r"`print\((.+)\)`", text(trace))
    assert output is not None
    assert "index: 3" in text(eval(output[1], {"trace": trace}))


def test_a_long_stage_by_itself_is_folded_too() -> None:
    trace = trace_of(*(passage(inputs={"index": i}, started=i) for i in range(300)))
    assert "… 297 more calls of load; `print(stage[3])` shows the next" in text(trace["load"])


# ---- items


def test_an_item_is_shown_in_every_stage_with_its_own_row() -> None:
    lines = text(whole().item(7)).splitlines()
    assert lines[0] == "item 7 of train  batch 0, row 1"
    assert lines[1].startswith("loss: 1.5")
    assert lines[2:5] == ["file /data/7.png", "dataset", "  Scenes.__getitem__  item 7  worker 1  data.py:12  1.2 ms"]
    assert "  collate  batch 0, row 1 of 2  1.2 ms" in lines
    assert f"      image: ndarray uint8 (6, 8, 3)  7…150  hash {hash_of(IMAGE + 7)}" in lines


def test_a_lineage_leads_from_the_batch_back_to_the_file() -> None:
    lines = text(whole().lineage(batch=0, row=1)).splitlines()
    assert lines[:2] == ["batch 0, row 1 is item 7 of train", "file /data/7.png"]
    assert [line for line in lines[2:] if not line.startswith(" ")] == ["loss", "collate", "dataset"]


# ---- values


def test_an_array_shows_its_range_and_what_is_not_finite() -> None:
    value = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)
    value[0, 1], value[0, 2], value[0, 3] = np.nan, np.nan, np.inf
    assert line_of(value).startswith("x: ndarray float32 (4, 5)  -1.0…1.0  nan 2 inf 1  hash ")


def test_few_numbers_are_shown_themselves() -> None:
    assert line_of(np.array([3, 0, 2])).startswith("x: ndarray int64 (3,)  [3, 0, 2]  hash ")


def test_equal_content_has_an_equal_hash_however_it_lies_in_memory() -> None:
    assert hash_of(IMAGE) == hash_of(np.asfortranarray(IMAGE)) == hash_of(IMAGE.copy()[::1])


def test_other_content_another_shape_or_another_dtype_has_another_hash() -> None:
    values = [IMAGE, IMAGE + 1, IMAGE.reshape(8, 6, 3), IMAGE.view(np.int8), IMAGE.astype(np.int64)]
    assert len({hash_of(value) for value in values}) == 5


def test_the_hash_is_that_of_xxh3_over_dtype_shape_and_bytes() -> None:
    from xxhash import xxh3_64

    assert hash_of(IMAGE) == xxh3_64(b"uint8 (6, 8, 3) " + IMAGE.tobytes()).hexdigest()[:8]


def test_an_array_of_objects_has_no_hash() -> None:
    value = np.empty(1, object)
    value[0] = Hostile
    assert "hash" not in line_of(value)


def test_an_empty_array_is_shown() -> None:
    assert line_of(np.zeros((0, 3))).startswith("x: ndarray float64 (0, 3)  hash ")


def test_an_image_of_pillow_shows_mode_size_and_hash() -> None:
    assert re.fullmatch(r"x: Image RGB 8 × 6  hash [0-9a-f]{8}", line_of(Image.fromarray(IMAGE)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "x: None"),
        (2.5, "x: 2.5"),
        ("short", "x: 'short'"),
        ([1, 2], "x: list[2] [1, 2]"),
        ({"a": 1, "b": None}, "x: dict[2] {a: 1, b: None}"),
        ([], "x: list[0]"),
    ],
)
def test_what_is_short_is_one_line(value: Any, said: str) -> None:
    assert line_of(value) == said


def test_containers_are_opened_with_their_keys() -> None:
    value = {"image": None, "more": [np.zeros(0), ("a", {"deep": np.array(1)})]}
    assert [re.sub("  hash .*", "", line) for line in lines_of(value)] == [
        "x: dict[2]",
        "  image: None",
        "  more: list[2]",
        "    [0]: ndarray float64 (0,)",
        "    [1]: tuple[2]",
        "      [0]: 'a'",
        "      [1]: dict[1]",
        "        deep: ndarray int64 ()  1",
    ]


def test_of_a_long_container_the_rest_is_counted() -> None:
    lines = lines_of([np.zeros(2)] * 40)
    assert len(lines) == 14 and lines[-1] == "  … 28 more"


def test_a_value_of_thousands_of_arrays_stays_short() -> None:
    value: Any = np.zeros(2)
    for _ in range(4):
        value = [value] * 12
    assert len(lines_of(value)) < 200


def test_a_container_inside_itself_ends() -> None:
    value: list[Any] = [np.zeros(2)]
    value.append(value)
    assert len(lines_of(value)) < 20


def test_an_object_is_its_type_and_its_attributes() -> None:
    assert lines_of(Object("cfg.Config", {"lr": 0.1})) == ["x: Config", "  lr: 0.1"]


def test_what_was_not_kept_says_so_itself() -> None:
    value = NotKept("torch.Tensor", Kept.SUMMARY, "over 32 MiB", Summary((9, 9), "float32", "cuda:0", min=0.0, max=2.5))
    assert line_of(value) == "x: <not kept in full: torch.Tensor float32 (9, 9); over 32 MiB> 0.0…2.5  cuda:0"


def test_an_image_that_was_not_read_shows_its_file(tmp_path: Path) -> None:
    Image.fromarray(IMAGE).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        output = line_of(decode(capture(image).value))
    assert "uint8 (6, 8, 3); not read from its file yet>" in output and "'mode': 'RGB'" in output


def test_the_part_that_was_kept_is_shown_below() -> None:
    value = NotKept("list", Kept.PART, "over 2 items", Summary(length=9), [np.zeros(2), np.zeros(3)])
    lines = lines_of(value)
    assert lines[0] == "x: <not kept in full: list of 9; over 2 items>"
    assert lines[1].startswith("  [0]: ndarray float64 (2,)")


def test_a_long_text_is_shortened_and_stays_on_its_line() -> None:
    output = line_of("first\nsecond " * 50)
    assert output.startswith(r"x: str[650] 'first\nsecond ") and "…" in output and "\n" not in output


def test_control_characters_cannot_act_on_the_terminal() -> None:
    output = text(trace_of(passage("st\x1bage", "f\x1b", inputs={"n\x1b": "\x1b[2J"}, where="w\x1b", error="e\x1b[2J")))
    assert "\x1b" not in output


def test_code_of_a_users_class_does_not_run() -> None:
    assert "Hostile" in line_of(Hostile())
    assert "Hostile" in lines_of([np.zeros(2), Hostile()])[2]


# ---- tables


def test_a_table_shows_its_first_rows_and_counts_the_rest() -> None:
    frame = pd.DataFrame({"age": range(9), "name": ["ann", "bob", "cy"] * 3})
    frame["name"] = frame["name"].astype(object)
    assert lines_of(frame) == [
        "x: DataFrame (9, 2)  age int64, name object",
        "     age  name",
        "  0    0   ann",
        "  1    1   bob",
        "  2    2    cy",
        "  3    3   ann",
        "  4    4   bob",
        "  … 4 more rows",
    ]


def test_dates_and_missing_values_of_a_table_are_shown() -> None:
    frame = pd.DataFrame({"when": pd.to_datetime(["2024-05-01", None]), "count": pd.array([1, None], "Int64")})
    assert lines_of(frame)[2:] == ["  0  2024-05-01 00:00:00      1", "  1                  NaT   <NA>"]


@pytest.mark.parametrize("cell", [0, "a long text in every cell"], ids=["narrow", "wide"])
def test_of_a_wide_table_the_first_columns_are_shown(cell: Any) -> None:
    lines = lines_of(pd.DataFrame([[cell] * 30] * 2))
    assert re.search(r", … \d+ more$", lines[0])
    assert all(line.endswith("  …") for line in lines[1:])
    assert max(map(len, lines)) <= 120


def test_a_column_shows_its_first_rows() -> None:
    lines = lines_of(pd.Series(range(7), name="age"))
    assert lines[0] == "x: Series 'age' (7,)  int64"
    assert lines[1] == "  0  0" and lines[-1] == "  … 2 more rows"


@pytest.mark.parametrize("table", [pd.DataFrame(), pd.Series([], dtype=float), pd.DataFrame({"a": []})], ids=str)
def test_a_table_without_rows_is_shown(table: Any) -> None:
    assert lines_of(table)[0].startswith(f"x: {type(table).__name__}")


def test_lines_are_not_wider_than_a_terminal() -> None:
    assert max(map(len, text(whole()).splitlines())) <= 120
