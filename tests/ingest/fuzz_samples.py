"""Decides which sound files fuzzing starts from: rich ones made here, and where it lies the evaluation's, in place."""

from __future__ import annotations

import io
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

import office_maker
from fpdf import FPDF
from fuzz_mutate import (
    BYTES,
    MARKUP,
    Change,
    reencode,
    relines,
    renumber,
    reobject,
    repack,
    retag,
)
from pdf_maker import encrypted, labelled, pdf
from PIL import Image, ImageDraw

EVALUATION = Path(__file__).resolve().parents[2] / "../shared/eval/files"
_LARGEST_BYTES = 200_000
_CHINESE = "机器在夜间停止运行时，操作人员应当检查冷却水的温度，并把读数记录在表格中。"
_PACKED: tuple[Change, ...] = (*[repack(MARKUP)] * 30, *BYTES)
_WRITTEN: tuple[Change, ...] = (*BYTES, reencode, relines)

CHANGES: dict[str, tuple[Change, ...]] = {
    "pdf": (reobject, reobject, reobject, renumber, renumber, *BYTES),
    "docx": _PACKED,
    "pptx": _PACKED,
    "xlsx": _PACKED,
    "epub": _PACKED,
    "html": (*_WRITTEN, retag, retag, retag, *MARKUP),
    "md": _WRITTEN,
    "txt": _WRITTEN,
    "csv": _WRITTEN,
    "png": (*BYTES, renumber),
    "jpg": (*BYTES, renumber),
    "tif": (*BYTES, renumber),
    "eml": (*_WRITTEN, relines, relines, renumber),
}
"""By the ending of a reader's files; what may happen to them."""


def samples(reader: str, evaluation: Path) -> tuple[bytes, ...]:
    """At least one sound file, those made here first."""
    found = [
        path.read_bytes() for path in sorted(evaluation.glob(f"*.{reader}")) if path.stat().st_size < _LARGEST_BYTES
    ]
    return (*_made(reader), *filter(None, found))


def _made(reader: str) -> Sequence[bytes]:
    match reader:
        case "pdf":
            return _pdfs()
        case "docx":
            return [office_maker.docx(_letter)]
        case "pptx":
            return [office_maker.pptx(_slides)]
        case "xlsx":
            rows = [["Item", "Day", "Share"], *([f"n{n}", n / 7, n % 2 == 0] for n in range(40)), ["=1/0", "=A1", None]]
            return [office_maker.xlsx({"Sales": rows, "二": [[_CHINESE, 1e300]]})]
        case "epub":
            return [office_maker.epub({"a.xhtml": _PAGE, "b.xhtml": "<h2>Two</h2><p>It&#160;burns.</p>"})]
        case "html":
            return [f"<!DOCTYPE html><html><head><meta charset='utf-8'><title>T</title></head><body>{_PAGE}".encode()]
        case "md":
            return [f"---\ntitle: x\n---\nlead\n\n# Top #\n\n```sh\n# no\n```\n\n## Sub\n{_CHINESE}\n\f~~~\n".encode()]
        case "txt":
            return [
                _CHINESE.encode("gbk") * 3,
                b"one\ftwo\n\n1. three\n" * 20,
                "Où est la machine à café ?".encode("cp1252"),
            ]
        case "csv":
            return [b'name,note\nAda,"one,two\nlines"\nBob,\n' * 30, f"名称;数量\n{_CHINESE};3\n".encode("gbk")]
        case "png" | "jpg" | "tif":
            return _pictures({"png": "PNG", "jpg": "JPEG", "tif": "TIFF"}[reader])
        case _:
            return [_mail(True), _mail(False)]


_PAGE = (
    f"<h1>Grinding <em>corn</em></h1><p>First<br>second &amp; last.</p><ul><li>stone<li>wheel</ul><pre>a  b\n c</pre>"
    f"<table><caption>P</caption><thead><tr><th>Day</th><th>Fee</th></tr></thead><tr><td rowspan='2'>Mon</td>"
    f"<td>3</td></tr><tr><td colspan='2'>closed</td></tr></table><p>{_CHINESE}</p><img alt='A wheel' src='x.png'/>"
)


def _letter(document) -> None:
    document.sections[0].header.paragraphs[0].text = "Parish council"
    document.add_heading("Roof", 1)
    document.add_paragraph(_CHINESE, style="List Bullet")
    table = document.add_table(rows=3, cols=3, style="Table Grid")
    for row in table.rows:
        for cell in row.cells:
            cell.text = "cell"
    table.cell(0, 0).merge(table.cell(1, 1))
    document.add_comment(document.add_paragraph("The hedge was cut.").runs[0], text="By whom?", author="Ida")


def _slides(show) -> None:
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE
    from pptx.util import Inches

    first = show.slides.add_slide(show.slide_layouts[1])
    first.shapes.title.text, first.placeholders[1].text = "Harvest", "Apples\nPears"
    first.notes_slide.notes_text_frame.text = "Say it slowly."
    second = show.slides.add_slide(show.slide_layouts[6])
    second.shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9).text_frame.text = "Grouped"
    second.shapes.add_table(2, 2, 0, 0, Inches(2), Inches(1)).table.cell(0, 0).text = "Kind"
    data = CategoryChartData()
    data.categories = ["a", "b"]
    data.add_series("s", (1.5, 2.5))
    second.shapes.add_chart(XL_CHART_TYPE.LINE, 0, 0, Inches(2), Inches(2), data)


def _pictures(kind: str) -> Sequence[bytes]:
    page = Image.new("L", (90, 60), 255)
    ImageDraw.Draw(page).text((4, 4), "words", fill=0)
    packed = {"TIFF": [("1", {"compression": "group4"}), ("RGB", {"compression": "tiff_lzw"}), ("L", {})]}
    made = []
    for mode, how in packed.get(kind, [("RGB", {}), ("L", {}), ("CMYK" if kind == "JPEG" else "P", {})]):
        out = io.BytesIO()
        several = {"save_all": True, "append_images": [page.convert(mode)]} if kind == "TIFF" else {}
        page.convert(mode).save(out, kind, **several, **how)
        made.append(out.getvalue())
    return made


def _mail(is_html: bool) -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"] = "Re: 屋顶 roof", "Ida <ida@example.org>"
    message["Date"] = "Tue, 05 Mar 2024 10:00:00 +0000"
    message.set_content(f"The slates came.\n{_CHINESE}\n", cte="base64")
    if is_html:
        message.add_alternative(f"<p>The slates <b>came</b>.</p>{_PAGE}", subtype="html", cte="quoted-printable")
    message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="bill.pdf")
    inner = EmailMessage()
    inner["Subject"] = "Slates?"
    inner.set_content("When do they come?")
    message.add_attachment(inner)
    return message.as_bytes()


def _pdfs() -> Sequence[bytes]:
    made = FPDF()
    made.set_compression(False)  # what is packed can't be changed piece by piece
    made.set_font("Helvetica", size=11)
    for number in range(3):
        made.add_page()
        made.start_section(f"Part {number}", 0)
        made.multi_cell(0, 6, "The pump runs at night. " * 20)
        made.text_annotation(10, 10, "Check this.")
        made.link(10, 10, 5, 5, "http://169.254.169.254/")
    drawn = Image.new("L", (60, 40), 255)
    ImageDraw.Draw(drawn).text((4, 4), "words", fill=0)
    made.add_page()
    made.image(drawn, x=0, y=0, w=60)
    plain = bytes(made.output())
    return [
        plain,
        labelled(pdf(["i", "ii", "one", "two"])),
        encrypted(pdf(["Open."]), user="", owner="secret"),
        _form(),
    ]


def _form() -> bytes:
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(["A form."]))))
    parent = writer._add_object(DictionaryObject({NameObject("/T"): TextStringObject("tenant")}))
    fields = {
        "/Subtype": NameObject("/Widget"),
        "/V": TextStringObject("Ida"),
        "/FT": NameObject("/Tx"),
        "/Parent": parent,
    }
    field = writer._add_object(DictionaryObject({NameObject(key): one for key, one in fields.items()}))
    writer.pages[0][NameObject("/Annots")] = ArrayObject([field])
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()
