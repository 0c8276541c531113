"""Answers beside their questions: the same format, order, encoding and cells, whatever the file was."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from question_files import saved, workbook

from app.answer import Citation
from app.batch.question import BatchAnswer, BatchError
from app.problem import Problem
from app.question_file import Columns, LiveAnswers, check_output, read_questions, write_answers
from app.question_file.format_csv import harmless, original

CITED = Citation(1, "d1", "Harbour", 8, "6", 10, 20, 3, "lifts up to 12 tonnes")
ANSWER = BatchAnswer(
    0, "1", "?", "12 tonnes [1].", False, (CITED,), "Harbour", "d1", 2048, 2079, 9, 0.31251
)  # fmt: skip
FAILED = BatchAnswer(1, "2", "?", error=BatchError("timed_out", "No answer came in 60 s: try again."))
NAMES = ["answer", "abstained", "source", "pages", "quotes", "cached_tokens", "seconds", "error"]
SAID = ["12 tonnes [1].", "false", "Harbour", "8", "lifts up to 12 tonnes", "2048", "0.313", ""]
TIMED_OUT = ["", "", "", "", "", "", "", "timed_out: No answer came in 60 s: try again."]


def grid(path: Path, encoding: str = "utf-8", delimiter: str = ",") -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode(encoding), newline=""), delimiter=delimiter))


@pytest.mark.parametrize(
    ("encoding", "mark", "delimiter"),
    [
        ("utf-8", b"", ","),
        ("utf-8", codecs.BOM_UTF8, ";"),
        ("utf-16-le", codecs.BOM_UTF16_LE, "\t"),
        ("utf-16-be", codecs.BOM_UTF16_BE, "\t"),
        ("gb18030", b"", ","),
    ],
)
@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_a_table_goes_out_as_it_came(tmp_path, encoding, mark, delimiter, newline):
    """Encoding, mark, delimiter and line ends are the file's; every row keeps its cells, empty ones too."""
    rows = [
        ["编号", "问题", "备注"],
        ["1", "起重机能吊多少吨？", "甲\n乙"],
        ["", "", ""],
        ["2", "浴室有几个淋浴？", "-5"],
    ]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=newline).writerows(rows)
    file = read_questions(saved(tmp_path, "q.csv", mark + out.getvalue().encode(encoding)))
    assert write_answers(file, [FAILED, ANSWER], tmp_path / "a.csv") == ()
    written = (tmp_path / "a.csv").read_bytes()
    assert written.startswith(mark)
    text = written[len(mark) :].decode(encoding)
    assert text.count(newline) == 4 + (newline == "\n")
    assert list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) == [
        rows[0] + NAMES,
        rows[1] + SAID,
        rows[2] + [""] * 8,
        rows[3] + TIMED_OUT,
    ]


def test_what_an_encoding_lacks_makes_the_file_utf8_and_is_said(tmp_path):
    """An answer is never written with question marks in it."""
    question = "この契約はいつまで有効ですか。途中で終わらせることはできますか。"
    file = read_questions(saved(tmp_path, "q.csv", f"質問\n{question}\n".encode("shift_jis")))
    answer = BatchAnswer(0, "row 2", question, "До 2031 года — 한국어")
    said = write_answers(file, [answer], tmp_path / "a.csv")
    assert said == ("Written as UTF-8: shift_jis lacks characters that the answers use.",)
    assert grid(tmp_path / "a.csv", "utf-8-sig")[1][:2] == [question, "До 2031 года — 한국어"]


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "＝1+1", "'=1", "- one\n- two"]
)
def test_no_cell_of_a_table_is_run_by_a_spreadsheet(tmp_path, text):
    """Question, note and answer alike; read again, the cells are what they were."""
    path = tmp_path / "q.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([["question", "note"], [harmless(text), harmless(text)]])
    file = read_questions(path)
    assert file.table.rows[0].cells == (text, text)
    write_answers(file, [BatchAnswer(0, "row 2", text, text)], tmp_path / "a.csv")
    cells = grid(tmp_path / "a.csv")[1][:3]
    assert cells == [f"'{text}"] * 3
    assert read_questions(tmp_path / "a.csv").table.rows[0].cells[:3] == (text, text, text)


@given(st.text(alphabet=st.sampled_from("'=+-@\t\r a1.%"), max_size=8))
def test_what_makes_a_cell_harmless_is_undone_by_reading(text):
    """No text is lost, whatever apostrophes it had, and none that begins like a formula stays one."""
    assert original(harmless(text)) == text
    assert re.match(r"[=@\t\r]|[+-][^\d.,-]", harmless(text)) is None


@pytest.mark.parametrize("text", ["-5", "+3,2 %", "-1.5e-3", "-", "--", "12"])
def test_numbers_and_dashes_stay_what_they_are(text):
    """A spreadsheet goes on counting with them."""
    assert harmless(text) == text


# A file that is mostly what UTF-8 looks like in the wrong encoding is refused as spoilt.
SPOILT = "Ãâåæç锟烫"
CELL = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\r\t", exclude_characters=SPOILT), max_size=12
)
LINE = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=SPOILT), max_size=20)
ROWS = st.lists(st.tuples(CELL.filter(str.strip), CELL, CELL), min_size=1, max_size=6)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.xlsx", "a.jsonl"])
@settings(max_examples=40)
@given(rows=ROWS)
def test_what_is_written_is_read_again_as_the_same_questions(tmp_path_factory, name, rows):
    """From any format to any: every output row keeps the input's cells, and the questions are asked alike."""
    folder = tmp_path_factory.mktemp("laws")
    keys = ("question", "id", "note")
    lines = "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
    file = read_questions(saved(folder, "q.jsonl", lines))
    answers = [BatchAnswer(one.row, one.id, one.question, "=yes") for one in file.questions]
    write_answers(file, answers, folder / name)
    again = read_questions(folder / name)
    assert [row.cells[:4] for row in again.table.rows] == [(*row, "=yes") for row in rows]
    assert [one.question for one in again.questions] == [row[0].strip() for row in rows]
    second = folder / f"again{(folder / name).suffix}"
    write_answers(again, [], second)
    assert [row.cells[:4] for row in read_questions(second).table.rows] == [(*row, "=yes") for row in rows]


@given(st.lists(LINE, min_size=1, max_size=6))
def test_text_is_read_again_without_the_answers(tmp_path_factory, lines):
    """Answers stand on lines of their own below their questions, and are not asked in the next run."""
    folder = tmp_path_factory.mktemp("laws")
    path = saved(folder, "q.txt", "\n".join(["What first?", *lines, ""]))
    file = read_questions(path)
    answers = [
        BatchAnswer(one.row, one.id, one.question, "One\n\tline\n\nmore", False, (CITED,), late_s=2.5)
        for one in file.questions
    ]
    write_answers(file, answers, folder / "a.txt", with_late=True)
    again = read_questions(folder / "a.txt")
    assert [one.question for one in again.questions] == [one.question for one in file.questions]
    write_answers(again, [], folder / "b.txt")
    assert (folder / "b.txt").read_bytes() == path.read_bytes()


def test_lines_of_json_keep_their_bytes_before_the_answer(tmp_path):
    """Numbers, spaces and escapes of the input are not rewritten; lists and the error are lists and an object."""
    lines = ['{"question":"One?", "weight": 1.10}', '{"question": "Tw\\u00f6?"}', '{"question": "", "x": {}}']
    file = read_questions(saved(tmp_path, "q.jsonl", "\n".join(lines)))
    write_answers(file, [FAILED, ANSWER], tmp_path / "a.jsonl")
    written = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [made.startswith(line[:-1] + ", ") for made, line in zip(written, lines, strict=True)] == [True] * 3
    first, second, third = (json.loads(line) for line in written)
    assert first | {"citations": None} == {
        "question": "One?",
        "weight": 1.1,
        "answer": "12 tonnes [1].",
        "abstained": False,
        "source": "Harbour",
        "pages": [8],
        "quotes": ["lifts up to 12 tonnes"],
        "cached_tokens": 2048,
        "seconds": 0.313,
        "error": None,
        "citations": None,
    }
    assert first["citations"][0]["label"] == "6"
    assert (second["answer"], second["error"]["code"]) == (None, "timed_out")
    assert third["answer"] is None


def test_a_name_that_the_file_has_already_gets_a_prefix(tmp_path):
    """What stood there is never written over, in the second run neither."""
    file = read_questions(saved(tmp_path, "q.csv", "question,answer,readonce_answer\nOne?,mine,first\n"))
    write_answers(file, [ANSWER], tmp_path / "a.csv")
    header, row = grid(tmp_path / "a.csv")
    assert header[:5] == ["question", "answer", "readonce_answer", "readonce_2_answer", "abstained"]
    assert row[:4] == ["One?", "mine", "first", "12 tonnes [1]."]


def test_several_questions_of_a_row_have_answers_of_their_own(tmp_path):
    """Their columns are named after the questions'."""
    file = read_questions(saved(tmp_path, "q.csv", "q1,q2\nOne?,Two?\n,Three?\n"))
    answers = [BatchAnswer(row, "", "", text) for row, text in enumerate(["a", "b", "c"])]
    write_answers(file, answers, tmp_path / "a.csv")
    header, *rows = grid(tmp_path / "a.csv")
    at = [header.index("q1_answer"), header.index("q2_answer")]
    assert [[row[column] for column in at] for row in rows] == [["a", "b"], ["", "c"]]


def test_a_workbook_keeps_its_cells_and_gets_columns(tmp_path):
    """Types, formulas, widths, merged cells and other sheets stay; an answer is never a formula."""
    import datetime

    import openpyxl

    def build(book):
        book.active.column_dimensions["A"].width = 44
        book.create_sheet("Other")["B2"] = "kept"

    day = datetime.datetime(2031, 5, 4)
    rows = [["question", "when", "sum"], ["One?", day, "=1+2"], ["Two?", None, 7.5]]
    file = read_questions(workbook(tmp_path, "q.xlsx", rows, merged=["B2:B3"], build=build))
    assert file.questions[1].extra[1] == ("when", "2031-05-04")
    first = BatchAnswer(0, "", "", "=HYPERLINK(1)\x07", False, (CITED,), cached_tokens=5, seconds=1.0)
    write_answers(file, [first], tmp_path / "a.xlsx")
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    sheet = book.worksheets[0]
    assert [cell.value for cell in sheet[1]] == ["question", "when", "sum", *NAMES]
    assert [cell.value for cell in sheet[2]][:9] == [
        *("One?", day, "=1+2", "=HYPERLINK(1)\ufffd", False, "Harbour", 8, "lifts up to 12 tonnes", 5)
    ]
    assert (sheet["C2"].data_type, sheet["D2"].data_type, sheet["D2"].quotePrefix) == ("f", "s", True)
    assert (sheet["C3"].value, sheet.column_dimensions["A"].width, book["Other"]["B2"].value) == (7.5, 44, "kept")
    assert [str(merged) for merged in sheet.merged_cells.ranges] == ["B2:B3"]


def test_a_batch_of_requests_is_answered_in_its_own_format(tmp_path):
    """A response a request, in their order; what was not asked or failed has an error instead."""

    def request(custom_id, content, url="/v1/chat/completions"):
        body = {"model": "m1", "messages": [{"role": "user", "content": content}]}
        return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body})

    lines = [request("r1", "One?"), request("r2", "Two?"), request("r3", "Three?", "/v1/x"), request("r1", "Four?")]
    file = read_questions(saved(tmp_path, "q.jsonl", "\n".join(lines)))
    assert [one.id for one in file.questions] == ["r1", "r2", "r1 (2)"]
    write_answers(file, [FAILED, ANSWER], tmp_path / "a.jsonl")
    said = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [one["custom_id"] for one in said] == ["r1", "r2", "r3", "r1"]
    body = said[0]["response"]["body"]
    assert (said[0]["error"], said[0]["response"]["status_code"], body["model"]) == (None, 200, "m1")
    assert body["choices"][0]["message"]["content"] == "12 tonnes [1]."
    assert body["usage"] == {
        "prompt_tokens": 2079,
        "completion_tokens": 9,
        "total_tokens": 2088,
        "prompt_tokens_details": {"cached_tokens": 2048},
    }
    assert [one["error"]["code"] for one in said[1:]] == ["timed_out", "bad_request", "not_answered"]
    assert len({one["id"] for one in said}) == 4
    with pytest.raises(Problem, match=r"answered in a \.jsonl file"):
        check_output(file, tmp_path / "a.csv")


def test_lines_are_on_the_disk_as_answers_come(tmp_path, monkeypatch):
    """A row is written once all its questions are answered, each line synced; the end brings the file's order."""
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), fsync(handle))[1])
    rows = [{"q1": "One?", "q2": "Two?"}, {"q1": "Three?"}]
    file = read_questions(saved(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows))))
    out = tmp_path / "a.jsonl"
    with LiveAnswers(file, out) as live:
        live.add(BatchAnswer(1, "", "", "b"))
        assert out.read_bytes() == b""
        live.add(BatchAnswer(2, "", "", "c"))
        assert [json.loads(line)["q1_answer"] for line in out.read_text().splitlines()] == ["c"]
        live.add(BatchAnswer(0, "", "", "a"))
    assert [json.loads(line)["q1"] for line in out.read_text().splitlines()] == ["Three?", "One?"]
    assert len(synced) == 2
    live_lines = out.read_text().splitlines()
    write_answers(file, [BatchAnswer(row, "", "", text) for row, text in enumerate("abc")], out)
    assert out.read_text().splitlines() == live_lines[::-1]


def test_a_table_is_not_touched_until_its_end(tmp_path):
    """A half-written table would open in a spreadsheet as if it were all."""
    file = read_questions(saved(tmp_path, "q.csv", "question\nOne?\n"))
    out = saved(tmp_path, "a.csv", "before")
    with LiveAnswers(file, out) as live:
        live.add(BatchAnswer(0, "", "", "a"))
    assert out.read_text() == "before"


def test_a_failed_writing_leaves_what_was_there(tmp_path, monkeypatch):
    """The new file takes the old one's place in one step, or not at all; no draft is left."""
    file = read_questions(saved(tmp_path, "q.csv", "question\nOne?\n"))
    out = saved(tmp_path, "a.csv", "before")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_answers(file, [ANSWER], out)
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [
        ("a.csv", "before"),
        ("q.csv", "question\nOne?\n"),
    ]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("q.csv", "is the file of questions itself"),
        ("a.docx", "a.docx ends in .docx, but answers can be jsonl, csv, tsv, xlsx and txt"),
        ("none/a.csv", "isn't there: make it first"),
        ("a.xlsm", "a.xlsm would be a workbook with macros"),
    ],
)
def test_a_place_that_can_not_be_written_is_said_before_anything_is_asked(tmp_path, name, sentence):
    """An hour of answers is not lost to a name."""
    file = read_questions(saved(tmp_path, "q.csv", "question\nOne?\n"))
    with pytest.raises(Problem, match=re.escape(sentence)) as caught:
        check_output(file, tmp_path / name)
    assert (caught.value.code, caught.value.usage) == ("bad_output", True)


def test_ten_thousand_answers_are_written_in_order(tmp_path):
    """None is lost or swapped, whatever order they come in."""
    text = "q\n" + "".join(f"What is {number}?\n" for number in range(10_000))
    file = read_questions(saved(tmp_path, "q.csv", text), Columns(("q",)))
    answers = [BatchAnswer(row, "", "", f"It is {row}.") for row in reversed(range(10_000))]
    write_answers(file, answers, tmp_path / "a.csv")
    assert [row[:2] for row in grid(tmp_path / "a.csv")[1:]] == [
        [f"What is {row}?", f"It is {row}."] for row in range(10_000)
    ]


SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"price": {"type": "number"}, "until": {"type": "string", "format": "date"}, "tags": {}},
    }
)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.xlsx"])
def test_each_property_of_a_schema_is_a_column(tmp_path, name):
    """Numbers are numbers and days are days where the format has them; an answer without one leaves it empty."""
    import datetime

    import openpyxl

    file = read_questions(saved(tmp_path, "q.csv", "question,price\nOne?,old\nTwo?,old\n"))
    answer = BatchAnswer(0, "", "", '{"price": 12.5, "until": "2031-05-04", "tags": ["a", "b"]}')
    write_answers(file, [answer, FAILED], tmp_path / name, schema=SCHEMA)
    columns = ("price", "readonce_price", "until", "tags")
    if name == "a.csv":
        header, *rows = grid(tmp_path / name, "utf-8")
        said = [tuple(row[header.index(column)] for column in columns) for row in rows]
        assert said == [("old", "12.5", "2031-05-04", '["a", "b"]'), ("old", "", "", "")]
    elif name == "a.jsonl":
        said = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert [said[0][column] for column in columns] == ["old", 12.5, "2031-05-04", '["a", "b"]']
    else:
        header, *rows = openpyxl.load_workbook(tmp_path / name).active.iter_rows(values_only=True)
        said = [tuple(row[header.index(column)] for column in columns) for row in rows]
        day = datetime.datetime(2031, 5, 4)
        assert said == [("old", 12.5, day, '["a", "b"]'), ("old", None, None, None)]


def test_an_answer_that_is_no_object_fills_no_property(tmp_path):
    """A cut answer stays to be seen, and nothing is made up."""
    file = read_questions(saved(tmp_path, "q.txt", "One?\n"))
    write_answers(file, [BatchAnswer(0, "", "", '{"price": 1')], tmp_path / "a.jsonl", schema=SCHEMA)
    said = json.loads((tmp_path / "a.jsonl").read_text())
    assert (said["answer"], said["price"], said["until"]) == ('{"price": 1', None, None)


def test_how_late_an_answer_came_stands_in_files_with_deadlines_only(tmp_path):
    """Empty where it came in time; nobody who gave no deadline gets a column for it."""
    late = replace(ANSWER, late_s=12.5)
    plain = read_questions(saved(tmp_path, "p.csv", "question\nOne?\nTwo?\n"))
    dated = read_questions(saved(tmp_path, "d.csv", "question,deadline\nOne?,2031-05-04\nTwo?,2 h\n"))
    for file, with_late, names in (
        (plain, False, NAMES),
        (plain, True, [*NAMES, "seconds_late"]),
        (dated, False, ["deadline", *NAMES, "seconds_late"]),
    ):
        write_answers(file, [late, replace(ANSWER, row=1)], tmp_path / "a.csv", with_late=with_late)
        header, first, second = csv.reader((tmp_path / "a.csv").open(encoding="utf-8", newline=""))
        assert header[1:] == names
        if "seconds_late" in header:
            assert (first[-1], second[-1]) == ("12.5", "")


def test_a_request_whose_answer_was_cut_says_so_in_its_formats_words(tmp_path):
    """`length`, as a client of OpenAI's knows it; and how late it came."""
    line = {"custom_id": "r1", "body": {"messages": [{"role": "user", "content": "How long?"}]}}
    file = read_questions(saved(tmp_path, "q.jsonl", json.dumps(line)))
    for answer, reason, late_s in ((ANSWER, "stop", None), (replace(ANSWER, is_cut=True, late_s=2.5), "length", 2.5)):
        write_answers(file, [answer], tmp_path / "a.jsonl")
        body = json.loads((tmp_path / "a.jsonl").read_text(encoding="utf-8"))["response"]["body"]
        assert (body["choices"][0]["finish_reason"], body["readonce"]["seconds_late"]) == (reason, late_s)
