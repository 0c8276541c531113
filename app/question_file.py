"""THE TWO WAYS OF A QUESTION FILE: in as questions, out with their answers. Commands and other programs call these.

in    question_file_in -> _csv, _xlsx, _jsonl, _openai or _txt -> _columns (which means what) -> _rows -> BatchQuestion
out   BatchAnswer -> question_file_out -> _answers (which columns are added) -> the same format, or another one
                  -> question_file_report -> Markdown or HTML
"""

from app.question_file_columns import Columns
from app.question_file_in import QuestionFile, read_questions
from app.question_file_out import LiveAnswers, check_output, write_answers
from app.question_file_report import RunFigures, check_report, file_address, write_report

__all__ = [
    "Columns",
    "LiveAnswers",
    "QuestionFile",
    "RunFigures",
    "check_output",
    "check_report",
    "file_address",
    "read_questions",
    "write_answers",
    "write_report",
]
