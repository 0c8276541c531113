"""What picture files say: a photographed or scanned page is read like a scanned page of a PDF, within limits."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

import ingest.read_picture
from ingest.document import IngestError
from ingest.ocr_pictures import LONGEST_SIDE_PX, drawn_pages
from ingest.read import NAMED_SUFFIXES, SUFFIXES, read
from ingest.render import render_sheet
from ingest.settings import IngestSettings
from ingest.worker import read_bytes

WITHOUT_OCR = IngestSettings(embedder="hashing", ocr=False)


def paper(text: str, mode: str = "RGB") -> Image.Image:
    page = Image.new("L", (900, 400), 255)
    ImageDraw.Draw(page).multiline_text((50, 50), text, fill=0, font=ImageFont.load_default(34), spacing=18)
    return page.convert(mode)


def saved(kind: str, *pages: Image.Image, **how) -> bytes:
    out = io.BytesIO()
    pages[0].save(out, kind, **({"save_all": True, "append_images": pages[1:]} if pages[1:] else {}), **how)
    return out.getvalue()


def code_of(data: bytes, name: str, max_pages: int = 100) -> str:
    with pytest.raises(IngestError) as caught:
        read_bytes(data, name, max_pages, lambda done, total: None)
    assert caught.value.message.startswith(name)
    return caught.value.code


def test_a_scanned_file_of_two_pages_is_recognised_page_by_page(write):
    """Each page is marked as recognised, and the person is told."""
    scan = saved("TIFF", paper("The harbour master", "1"), paper("keeps nine lanterns", "1"), compression="group4")
    document = read(write("scan.tiff", scan), IngestSettings(embedder="hashing"))
    assert [(page.number, page.origin, page.text.split()) for page in document.pages] == [
        (1, "ocr", ["The", "harbour", "master"]),
        (2, "ocr", ["keeps", "nine", "lanterns"]),
    ]
    assert document.kind == "picture"
    assert document.warnings == (
        "0 of 2 pages have text, 2 were read by OCR (Pages 1-2): compare with the page before you rely on a number or "
        "a name.",
    )


def test_a_picture_can_be_searched_and_knows_that_it_was_recognised(corpus, write):
    added = corpus.add(write("photo.jpg", saved("JPEG", paper("Nine lanterns burn"))))
    assert (added.status, added.pages) == ("ok", 1)
    assert corpus.search("lanterns")[0].page == 1
    assert corpus.read_document(added.document_id).pages[0].origin == "ocr"


@pytest.mark.parametrize(("kind", "name"), [("PNG", "a.png"), ("JPEG", "a.jpg"), ("TIFF", "a.tif"), ("PNG", "a.txt")])
def test_a_picture_without_recognition_has_no_text_and_says_what_to_do(write, kind, name):
    """The bytes tell what it is, whatever the name says."""
    document = read(write(name, saved(kind, paper("Words"))), WITHOUT_OCR)
    assert (document.kind, document.text) == ("picture", "")
    assert document.warnings == ("Page 1 is a picture without text (a scan?): turn ocr on to have them read.",)


PICTURE = saved("PNG", paper("Words"))


@pytest.mark.parametrize(
    ("data", "name", "code"),
    [
        (PICTURE[: len(PICTURE) // 2], "cut.png", "corrupt"),
        (saved("JPEG", paper("Words"))[:900], "cut.jpg", "corrupt"),
        (b"II*\0\x08\0\0\0", "cut.tif", "corrupt"),
        (b"no picture at all", "a.jpg", "corrupt"),
        (saved("GIF", paper("x", "P")), "a.gif", "unsupported_type"),
    ],
)
def test_a_spoilt_picture_has_its_own_code(data, name, code):
    assert code_of(data, name) == code


def test_a_picture_of_very_many_dots_is_refused_before_it_is_decoded(monkeypatch):
    """A few bytes may claim any size."""
    monkeypatch.setattr(ingest.read_picture, "MOST_PIXELS", 900 * 400 - 1)
    monkeypatch.setattr(Image.Image, "load", lambda *arguments: pytest.fail("it was decoded"))
    assert code_of(PICTURE, "a.png") == "too_large"


def test_more_pages_than_allowed_are_refused():
    assert code_of(saved("TIFF", *[paper(str(n), "1") for n in range(3)]), "a.tif", max_pages=2) == "too_large"


def test_a_page_that_can_not_be_decoded_costs_itself_alone():
    """The pages beside it are there, and the lost one is named."""
    first, second = paper("one"), paper("two")
    data = bytearray(saved("TIFF", first, second, compression="tiff_deflate"))
    at = data.index(b"\x78\x9c")  # where the first page's packed dots begin
    data[at : at + 40] = bytes(40)
    document = read_bytes(bytes(data), "a.tif", 100, lambda done, total: None)
    assert [page.origin for page in document.pages] == ["unread", "picture"]
    assert document.warnings == ("Page 1 could not be opened: the file is damaged.",)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_dark_words_on_light_paper_stay_so_in_every_kind_of_colour(tmp_path, mode):
    """What can be seen through lies on white."""
    page = Image.new("RGBA", (40, 20), (0, 0, 0, 0))
    page.paste((0, 0, 0, 255), (0, 0, 10, 20))
    flat = Image.new("L", (40, 20), 255)
    flat.paste(0, (0, 0, 10, 20))
    if mode == "I;16":
        made = Image.fromarray(np.asarray(flat, dtype="uint16") * 257)
    else:
        made = page.convert(mode) if mode in ("LA", "RGBA") else flat.convert("RGB" if mode == "CMYK" else mode)
        made = made.convert("CMYK") if mode == "CMYK" else made
    path = tmp_path / "a"
    made.save(path, "TIFF" if mode == "CMYK" else "PNG")
    drawn = drawn_pages(path)(1)
    assert drawn.shape == (20, 40, 3)
    assert drawn[:, :10].max() < 20
    assert drawn[:, 10:].min() > 235


def test_a_photograph_is_made_smaller_and_turned_as_the_camera_was_held(tmp_path):
    """Its left edge is dark; held upright, that is the top."""
    photo = Image.new("RGB", (4000, 3000), "white")
    photo.paste("black", (0, 0, 1000, 3000))
    exif = Image.Exif()
    exif[0x0112] = 6
    photo.save(tmp_path / "a.jpg", "JPEG", exif=exif)
    drawn = drawn_pages(tmp_path / "a.jpg")(1)
    assert drawn.shape == (LONGEST_SIDE_PX, LONGEST_SIDE_PX * 3 // 4, 3)
    assert drawn[:300].max() < 30
    assert drawn[500:].min() > 225


def test_a_pictures_page_is_shown_beside_an_answer(tmp_path):
    """As it is, without a mark: where its words stand was not kept."""
    path = tmp_path / "scan"
    path.write_bytes(saved("TIFF", paper("one", "1"), paper("two", "1"), compression="group4"))
    sheet = render_sheet(path, 2, "two", width_px=450)
    assert (sheet.width_px, sheet.height_px, sheet.boxes, sheet.num_pages) == (450, 200, (), 2)
    shown = np.asarray(Image.open(io.BytesIO(sheet.png)).convert("L"))
    assert shown[:10].min() > 235
    assert shown.min() < 100
    with pytest.raises(IngestError, match="There is no page 3: the document has 2 pages"):
        render_sheet(path, 3)


def test_pictures_are_read_where_they_are_named_and_not_picked_out_of_folders():
    assert {".png", ".jpg", ".jpeg", ".tif", ".tiff"} == NAMED_SUFFIXES - SUFFIXES
