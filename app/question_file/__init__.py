"""THE TWO WAYS OF A QUESTION FILE: in as questions, out with their answers. Commands and other programs call these.

in    read -> format_csv, _xlsx, _jsonl, _openai or _txt -> columns (which means what) -> rows -> BatchQuestion
out   BatchAnswer -> write -> answers (which columns are added) -> the same format, or another one
                  -> report -> Markdown or HTML
"""

from app.question_file.columns import Columns
from app.question_file.read import QuestionFile, read_questions
from app.question_file.report import RunFigures, check_report, file_address, write_report
from app.question_file.write import LiveAnswers, check_output, write_answers

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
