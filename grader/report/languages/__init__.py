"""The languages in which students read a report; English is the source of all.

Records and JSON are English. Renderers say their own sentences with `Language.say` and
`Language.count`, and put the English text of a record through `Language.read`. What has no
translation stays English.
"""

from headcheck.grader.report.languages.language import ENGLISH as ENGLISH
from headcheck.grader.report.languages.language import SOURCE as SOURCE
from headcheck.grader.report.languages.language import Language as Language
from headcheck.grader.report.languages.language import UnknownLanguage as UnknownLanguage
from headcheck.grader.report.languages.language import find_language as find_language
from headcheck.grader.report.languages.language import get_language as get_language
from headcheck.grader.report.languages.language import list_languages as list_languages
