"""Question files as people have them: every encoding, delimiter and format, and what is said about each."""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from question_files import saved, workbook

from app.batch.question import BatchError
from app.problem import Problem
from app.question_file import Columns, read_questions
from app.question_file.format_openai import OpenAiFormat
from ingest.document import IngestError

CHINESE = "编号,问题,文档\r\n1,年假有多少天？,员工手册.pdf\r\n2,加班费怎么计算？,员工手册.pdf\r\n"
ENGLISH = "id,question,file\na,What does the ferry cost?,harbour.pdf\nb,When does it leave?,\n"
PACK = Path(__file__).parents[4] / "shared" / "eval" / "qa" / "questions.jsonl"


def asked(path: Path, columns: Columns | None = None) -> list[tuple[str, str, str | None]]:
    return [(one.id, one.question, one.document) for one in read_questions(path, columns).questions]


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("gbk", b""),
        ("gb18030", b""),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
    ],
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_chinese_table_is_read_in_any_encoding(tmp_path, encoding, mark, delimiter):
    """What Chinese spreadsheets save, Excel's UTF-16 with tabs among it, gives the same questions."""
    path = saved(tmp_path, "q.csv", mark + CHINESE.replace(",", delimiter).encode(encoding))
    assert asked(path) == [("1", "年假有多少天？", "员工手册.pdf"), ("2", "加班费怎么计算？", "员工手册.pdf")]


@pytest.mark.parametrize(
    ("encoding", "header", "question"),
    [
        ("big5", "問題", "這份合約的有效期限是到什麼時候，可以提前終止嗎？"),
        ("shift_jis", "質問", "この契約はいつまで有効ですか。途中で終わらせることはできますか。"),
        ("cp1252", "question", "Où se trouve l'école, et à quelle heure ferme-t-elle le samedi après-midi ?"),
    ],
)
def test_a_regional_encoding_is_recognised_and_said(tmp_path, encoding, header, question):
    """The guess is made visible, because it may be wrong."""
    read = read_questions(saved(tmp_path, "q.csv", f"{header}\r\n{question}\r\n".encode(encoding)))
    assert [one.question for one in read.questions] == [question]
    head, shown, tail = re.split("[“”]", read.said[0])
    assert (head, tail) == (f"Read as {encoding} (", "): save it as UTF-8 if these words look wrong.")
    assert shown in f"{header} {question}"


def test_the_columns_taken_are_said_in_one_sentence(tmp_path):
    """A wrong guess is seen before anything is asked."""
    read = read_questions(saved(tmp_path, "q.csv", ENGLISH))
    assert read.said == ("Questions stand in “question”, documents in “file”, ids in “id”.",)


def test_each_row_keeps_its_cells_in_order(tmp_path):
    """`extra` is the row as it was read; an empty document means that the search decides."""
    second = read_questions(saved(tmp_path, "q.csv", ENGLISH)).questions[1]
    assert (second.row, second.document) == (1, None)
    assert second.extra == (("id", "b"), ("question", "When does it leave?"), ("file", ""))


def test_columns_are_named_by_the_person_before_any_guess(tmp_path):
    """Names count whatever their case; a number counts columns from 1; an empty name means that there is none."""
    path = saved(tmp_path, "q.csv", "question,Frage,Quelle,Basis,file,Page\nold,Was kostet es?,a.pdf,ops,7,3-\n")
    columns = Columns(("frage",), document="3", kb="BASIS", filters=("file=tags", "page"))
    one = read_questions(path, columns).questions[0]
    assert (one.question, one.document, one.kb, one.filters) == (
        "Was kostet es?",
        "a.pdf",
        "ops",
        (("tags", "7"), ("pages", "3-")),
    )
    assert asked(path, Columns(document=""))[0] == ("row 2", "old", None)


@pytest.mark.parametrize(
    ("filters", "sentence"),
    [
        (
            ("owner",),
            "What “owner” narrows a search by is not known: write --filter-column 'owner=KIND', with pages, tags, "
            "since or until for KIND.",
        ),
        (("colour=tags",), "q.csv has no column “colour” (it has “question”, “owner”, “Tags”): mend --filter-column."),
        (
            ("Tags", "owner=tags"),
            "“Tags” and “owner” both narrow a search by tags: name one of them (--filter-column).",
        ),
    ],
)
def test_a_filter_that_says_nothing_is_refused(tmp_path, filters, sentence):
    """A column narrows by its name, or by what stands behind it; each kind has one column."""
    path = saved(tmp_path, "q.csv", "question,owner,Tags\nWhat?,Ann,x\n")
    with pytest.raises(Problem) as caught:
        read_questions(path, Columns(filters=filters))
    assert (caught.value.code, caught.value.message, caught.value.usage) == ("bad_question_file", sentence, True)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (Columns(("ask",)), "q.csv has no column “ask” (it has “a”, “b”): mend --question-column."),
        (Columns(("a",), kb="base"), "q.csv has no column “base” (it has “a”, “b”): mend --kb-column."),
        (
            Columns(),
            "No column of q.csv is known to hold questions (it has “a”, “b”): name it with --question-column, or write "
            "“question” over it.",
        ),
    ],
)
def test_a_column_that_is_not_there_is_named_with_those_that_are(tmp_path, columns, sentence):
    """The person sees what to choose from."""
    with pytest.raises(Problem) as caught:
        read_questions(saved(tmp_path, "q.csv", "a,b\n1,2\n"), columns)
    assert (caught.value.code, caught.value.message, caught.value.usage) == ("bad_question_file", sentence, True)


@pytest.mark.parametrize("names", ["q1,q2", "Question 1,Question_2", "问题1,问题2"])
def test_numbered_columns_are_several_questions_of_a_row(tmp_path, names):
    """Each has an id of its own, told apart by its column."""
    read = read_questions(saved(tmp_path, "q.csv", f"id,{names}\nx,How long?,How wide?\ny,,How deep?\n"))
    first, second = names.split(",")
    assert [(one.row, one.id, one.question) for one in read.questions] == [
        (0, f"x {first}", "How long?"),
        (1, f"x {second}", "How wide?"),
        (2, f"y {second}", "How deep?"),
    ]


def test_quoted_cells_hold_line_breaks_and_delimiters(tmp_path):
    """A question of two lines is one question."""
    path = saved(tmp_path, "q.csv", 'question;doc\r\n"Which gate,\r\nand when?";"a;b.pdf"\r\n')
    assert asked(path) == [("row 2", "Which gate,\r\nand when?", "a;b.pdf")]


def test_a_first_line_that_names_the_delimiter_is_obeyed(tmp_path):
    """Excel writes and understands `sep=`."""
    assert asked(saved(tmp_path, "q.csv", "sep=|\nquestion|doc\nWho, then?|a.pdf\n")) == [
        ("row 2", "Who, then?", "a.pdf")
    ]


def test_titles_above_the_names_are_passed_over(tmp_path):
    """The names are where they are recognised, not where a program would like them."""
    path = saved(tmp_path, "q.csv", "Audit of the harbour\n\nNo.,Question\n7,How deep is it?\n")
    assert asked(path) == [("7", "How deep is it?", None)]


def test_one_column_may_hold_commas_without_quotes(tmp_path):
    """Under a single name there is nothing that a comma could divide."""
    assert asked(saved(tmp_path, "q.csv", "question\nWho, when, and why?\n")) == [
        ("row 2", "Who, when, and why?", None)
    ]


def test_a_column_without_a_name_is_asked_from_its_first_row(tmp_path):
    """A plain list of questions needs no name; that the first row is asked is said."""
    read = read_questions(saved(tmp_path, "q.csv", "How long is it?\nHow wide is it?\n"))
    assert [one.question for one in read.questions] == ["How long is it?", "How wide is it?"]
    assert read.said == ("Questions stand in column 1. No names stand over the columns: the first row is asked too.",)


def test_empty_rows_are_skipped_and_counted(tmp_path):
    """Rows without a question are counted apart: they hold something that a person wrote."""
    read = read_questions(saved(tmp_path, "q.csv", "id,question\n1,How long?\n\n,\n2,\n3,How wide?\n"))
    assert [one.id for one in read.questions] == ["1", "3"]
    assert read.said[1:] == ("2 empty rows skipped.", "1 row without a question is left as it is.")


def test_an_id_that_stands_twice_gets_a_number_and_no_row_is_lost(tmp_path):
    """The first keeps its name, and a made name never takes that of another row."""
    rows = "".join(f"{one},Question {number}?\n" for number, one in enumerate(["a", "a", "a (2)", "a", "b"]))
    read = read_questions(saved(tmp_path, "q.csv", "id,question\n" + rows))
    assert [one.id for one in read.questions] == ["a", "a (3)", "a (2)", "a (4)", "b"]
    assert read.said[1] == "2 ids stood there before: the later ones are told apart by a number (“a” is “a (3)”)."


def test_a_follow_up_names_the_question_before_it(tmp_path):
    """Where the id stands twice, the nearest earlier one is meant, as a reader takes it."""
    text = "id,question,follow up of\na,One?,\na,Two?,\nb,And three?,a\nc,And four?,b\n"
    read = read_questions(saved(tmp_path, "q.csv", text))
    assert [one.follow_up_of for one in read.questions] == [None, None, "a (2)", "b"]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            "a,One?,z\n",
            "Row 2 of q.csv follows up “z”, which is the id of no other row: mend it, or leave it empty.",
        ),
        (
            "a,One?,b\nb,Two?,a\n",
            "Row 2 of q.csv follows up itself by way of others: leave “follow_up_of” empty for the first question of "
            "each conversation.",
        ),
    ],
)
def test_a_follow_up_of_nothing_is_refused(tmp_path, rows, sentence):
    """Asked without its conversation it would be another question."""
    with pytest.raises(Problem) as caught:
        read_questions(saved(tmp_path, "q.csv", "id,question,follow_up_of\n" + rows))
    assert caught.value.message == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "question,doc\nWho, then?,a.pdf\n",
            "Row 2 of q.csv has 3 cells, but there are 2 names: put texts that hold the delimiter in quotes.",
        ),
        (
            'question,doc\nFine?,a.pdf\n"Never closed?,b.pdf\n',
            "Row 3 of q.csv (line 3) opens a quote that is never closed: double the quotes that stand inside a quoted "
            "cell, and close it.",
        ),
        ("id,question\n1,\n", "q.csv holds no question: write one a row, and try again."),
        (" \n", "q.csv is empty: write a question a row, and try again."),
    ],
)
def test_a_table_that_would_lose_something_is_refused_with_its_row(tmp_path, text, sentence):
    """A question cut at a comma, or rows swallowed by an open quote, would be asked wrongly."""
    with pytest.raises(Problem) as caught:
        read_questions(saved(tmp_path, "q.csv", text))
    assert (caught.value.code, caught.value.message) == ("bad_question_file", sentence)


def test_merged_cells_reach_down_and_empty_rows_stay_empty(tmp_path):
    """A document named once for three rows is asked about by each; below a merged question nothing is asked again."""
    rows = [
        ["Harbour audit", None, None],
        ["Document", "Question", "No"],
        ["a.pdf", "How long?", 1],
        [None, "Wide?", 2],
    ]
    path = workbook(
        tmp_path, "q.xlsx", [*rows, [None, "Deep?", 3], [None, None, None]], merged=["A1:C1", "A3:A5", "B5:B6"]
    )
    assert asked(path) == [("1", "How long?", "a.pdf"), ("2", "Wide?", "a.pdf"), ("3", "Deep?", "a.pdf")]


def test_a_workbook_is_read_from_the_sheet_that_asks(tmp_path):
    """The others are named, hidden rows are asked and said."""

    def build(book):
        sheet = book.create_sheet("Fragen")
        for row in [["question", "id"], ["One?", 1.0], ["Two?", 2], ["Three?", 3]]:
            sheet.append(row)
        sheet.row_dimensions[3].hidden = True

    read = read_questions(workbook(tmp_path, "q.xlsx", [["a", "b"], [1, 2]], build=build))
    assert [(one.id, one.question) for one in read.questions] == [("1", "One?"), ("2", "Two?"), ("3", "Three?")]
    assert read.said == (
        "Only the sheet “Fragen” is read, not “Sheet”.",
        "1 hidden row asked too.",
        "Questions stand in “question”, ids in “id”.",
    )


def test_a_formula_without_a_saved_value_is_told_and_not_skipped(tmp_path):
    """A file that no spreadsheet program has saved holds no words for its formulas."""
    path = workbook(tmp_path, "q.xlsx", [["question"], ["Fine?"], ['="What is "&"it?"'], ["x"]])
    with pytest.raises(Problem) as caught:
        read_questions(path)
    assert caught.value.message == (
        "Row 3 of q.xlsx makes its question by a formula whose value was not saved (1 such cell): open the file in a "
        "spreadsheet program and save it."
    )


def test_a_stray_cell_at_the_end_of_a_sheet_costs_nothing(tmp_path):
    """A colour in the last of a million rows makes no rows."""
    from openpyxl.styles import PatternFill

    def build(book):
        book.active["C1048576"].fill = PatternFill("solid", fgColor="FFFF00")

    read = read_questions(workbook(tmp_path, "q.xlsx", [["question"], ["One?"]], build=build))
    assert (len(read.table.rows), len(read.questions)) == (1, 1)


def test_lines_of_json_keep_their_keys(tmp_path):
    """Numbers are read as text, a missing key is an empty cell, empty lines are nothing."""
    lines = ['{"id": 7, "question": "One?", "doc_id": "bash"}', "", '{"question": "Two?", "knowledge_base": "ops"}']
    read = read_questions(saved(tmp_path, "q.jsonl", "\n".join(lines)))
    assert [(one.id, one.question, one.document, one.kb) for one in read.questions] == [
        ("7", "One?", "bash", None),
        ("line 3", "Two?", None, "ops"),
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{bad", "Line 2 of q.jsonl is no JSON (Expecting property name enclosed in double quotes at character 2)"),
        ("[1]", "Line 2 of q.jsonl is a list"),
        ('{"question": ["a"]}', "“question” on line 2 of q.jsonl is no text but a list: write one text there."),
        ('{"question": ' + "[" * 100_000, "Line 2 of q.jsonl is no JSON (nested too deep)"),
    ],
)
def test_a_line_that_is_no_object_is_named(tmp_path, line, sentence):
    """The line and the character are told."""
    with pytest.raises(Problem) as caught:
        read_questions(saved(tmp_path, "q.jsonl", '{"question": "Fine?"}\n' + line + "\n"))
    assert caught.value.code == "bad_question_file"
    assert caught.value.message.startswith(sentence)


def test_text_is_a_question_a_line(tmp_path):
    """Ids are the lines' numbers, so that they stay when a file is run again."""
    read = read_questions(saved(tmp_path, "q.txt", "How long?\n\n  How wide?  \n".encode("utf-16")))
    assert [(one.id, one.question) for one in read.questions] == [("line 1", "How long?"), ("line 3", "How wide?")]
    assert read.said == ("1 empty line skipped.",)


def test_excels_unicode_text_is_a_table(tmp_path):
    """Excel saves UTF-16 with tabs under the ending .txt."""
    data = codecs.BOM_UTF16_LE + CHINESE.replace(",", "\t").encode("utf-16-le")
    assert [one[0] for one in asked(saved(tmp_path, "q.txt", data))] == ["1", "2"]


def request(custom_id: str, *messages: tuple[str, object], **more: object) -> str:
    body = {"model": "m", "messages": [{"role": role, "content": content} for role, content in messages]}
    metadata = more.pop("metadata", None)
    if metadata is not None:
        body["metadata"] = metadata
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body} | more)


def test_a_few_zero_bytes_are_left_out_of_utf8(tmp_path):
    """They make no UTF-16 of it; a file of nothing but a mark is empty."""
    path = saved(tmp_path, "q.csv", b"id,question\n1,What\x00 does the ferry cost?\n")
    file = read_questions(path)
    assert [one.question for one in file.questions] == ["What does the ferry cost?"]
    assert file.said[0] == "1 zero byte left out."
    with pytest.raises(Problem) as caught:
        read_questions(saved(tmp_path, "empty.csv", b"\xef\xbb\xbf\r\n"))
    assert caught.value.message == "empty.csv is empty: write a question a row, and try again."


def test_a_batch_of_requests_is_read_as_questions(tmp_path):
    """The last user message is the question; document and what it follows up stand in the metadata."""
    lines = [
        request("r1", ("system", "Be kind."), ("user", "How long?"), metadata={"document": "a.pdf", "kb": "ops"}),
        request("r2", ("user", [{"type": "text", "text": "And wide?"}]), metadata={"follow_up_of": "r1"}),
    ]
    read = read_questions(saved(tmp_path, "q.jsonl", "\n".join(lines)))
    assert [(one.id, one.question, one.document, one.kb, one.follow_up_of) for one in read.questions] == [
        ("r1", "How long?", "a.pdf", "ops", None),
        ("r2", "And wide?", None, None, "r1"),
    ]
    assert read.said[0] == "1 system message not used: --system FILE gives the batch's instructions."


def test_a_request_that_is_no_question_is_refused_alone(tmp_path):
    """The others are asked."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    lines = [
        request("r1", ("user", "One?"), url="/v1/embeddings"),
        request("r2", ("user", "One?"), ("assistant", "Yes."), ("user", "Two?")),
        request("r3", ("user", "Three?")),
        request("r4", ("user", [{"type": "text", "text": "What is this?"}, picture])),
        request("r5", ("user", [{"type": "text"}])),
    ]
    read = read_questions(saved(tmp_path, "q.jsonl", "\n".join(lines)))
    assert ([one.id for one in read.questions], read.num_refused) == (["r3"], 4)
    assert isinstance(read.format, OpenAiFormat)
    assert read.format.refused[3] == BatchError(
        "bad_request", "The message has a part that is no text (image_url): only texts can be asked."
    )


def test_what_is_not_used_of_requests_is_said(tmp_path):
    """Whoever asks for JSON or a longer answer there learns that it was not heard."""
    line = json.loads(request("r1", ("user", "One?")))
    line["body"] |= {"max_tokens": 900, "response_format": {"type": "json_object"}}
    read = read_questions(saved(tmp_path, "q.jsonl", json.dumps(line)))
    assert read.said[0] == "Not used of the requests: max_tokens, response_format."


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("q.docx", b"x", "q.docx ends in .docx, but a file of questions can be jsonl, csv, tsv, xlsx and txt"),
        ("q.json", b"[]", "q.json ends in .json, but"),
        ("q.jsonl", b"\n\n", "q.jsonl is empty"),
        ("q.xlsx", b"not a zip", "q.xlsx is damaged or cut short"),
    ],
)
def test_a_file_that_can_not_be_one_is_told_in_a_sentence(tmp_path, name, data, sentence):
    """Whatever is wrong with it, nobody sees a traceback."""
    with pytest.raises((Problem, IngestError)) as caught:
        read_questions(saved(tmp_path, name, data))
    assert caught.value.message.startswith(sentence)


PIECES = st.sampled_from(
    [
        *(b"question", b"sep=", b'{"question": "a"}', b"[", b"?", b",", b";", b'"', b"\r\n", b"\n", b"\0"),
        *(b"\xff\xfe", b"PK\x03\x04"),
    ]
)


@pytest.mark.parametrize("name", ["q.csv", "q.tsv", "q.xlsx", "q.jsonl", "q.txt"])
@given(data=st.one_of(st.binary(max_size=80), st.lists(PIECES, max_size=12).map(b"".join)))
def test_any_bytes_are_questions_or_a_sentence(tmp_path_factory, name, data):
    """Nothing else is ever raised, and what is read counts its rows from 0 under ids that differ."""
    path = saved(tmp_path_factory.mktemp("bytes"), name, data)
    with contextlib.suppress(Problem, IngestError):
        questions = read_questions(path).questions
        assert [one.row for one in questions] == list(range(len(questions)))
        assert len({one.id for one in questions}) == len(questions) > 0


@pytest.mark.parametrize("name", ["q.csv", "q.xlsx", "q.jsonl"])
def test_ten_thousand_rows_are_all_read(tmp_path, name):
    """Every one of them, in order, whatever the format."""
    rows = [[str(number), f"What is number {number}?", f"doc{number % 50}.pdf"] for number in range(10_000)]
    if name == "q.xlsx":
        path = workbook(tmp_path, name, [["id", "question", "document"], *rows])
    elif name == "q.csv":
        path = saved(tmp_path, name, "id,question,document\n" + "".join(",".join(row) + "\n" for row in rows))
    else:
        keys = ("id", "question", "document")
        path = saved(tmp_path, name, "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows))
    assert asked(path) == [tuple(row) for row in rows]


@pytest.mark.skipif(not PACK.is_file(), reason="the shared evaluation material is not beside this checkout")
def test_the_shared_packs_questions_are_read_as_they_are():
    """Its 214 lines need no option."""
    read = read_questions(PACK)
    assert len(read.questions) == 214
    assert read.said == (
        "Questions stand in “question”, documents in “doc_id”, ids in “id”, what they follow up in “follow_up_of”.",
    )
