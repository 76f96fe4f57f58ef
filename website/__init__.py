"""Builds the site of the documentation: `python -m website` stages its pages, runs Zensical, and checks the result.

The pages of `docs` are read on the site and in the repository. In the repository they link to other files, such as the
README and examples; on the site each of these files has a page of its own.
"""

from ._check import broken_links as broken_links
from ._check import outside_assets as outside_assets
from ._classes import attribute_texts as attribute_texts
from ._classes import class_text as class_text
from ._classes import is_described as is_described
from ._classes import parameters_of as parameters_of
from ._classes import value_text as value_text
from ._layout import MODULES as MODULES
from ._layout import PAGES as PAGES
from ._layout import groups_of as groups_of
from ._layout import is_alias as is_alias
from ._layout import listed_members as listed_members
from ._layout import names_on as names_on
from ._layout import public_names as public_names
from ._layout import shown_names as shown_names
from ._layout import value_of as value_of
from ._links import linked as linked
from ._llms import first_sentence as first_sentence
from ._llms import navigation as navigation
from ._llms import summaries as summaries
from ._llms import write_llms as write_llms
from ._pages import outside_of_blocks as outside_of_blocks
from ._pages import stage_pages as stage_pages
from ._pictures import IMAGES as IMAGES
from ._pictures import picture_sources as picture_sources
from ._pictures import read_picture as read_picture
from ._reference import COMMANDS as COMMANDS
from ._reference import classes_of_reference as classes_of_reference
from ._reference import entry_members as entry_members
from ._reference import entry_text as entry_text
from ._reference import stage_reference as stage_reference
from ._reference import summary_of as summary_of
from ._reference import text_of as text_of
from ._reference import without_async as without_async
from ._search import order_search as order_search
from ._terminals import TERMINALS as TERMINALS
from ._terminals import terminal_picture as terminal_picture
