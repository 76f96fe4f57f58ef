"""JSON Schema: schemas of Python types with the conversion of their values, and validation at a bounded cost.

Each name is imported from its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._facade import lazy_names

if TYPE_CHECKING:
    from ._annotations import FORMATS as FORMATS
    from ._annotations import AnnotationReader as AnnotationReader
    from ._annotations import Definitions as Definitions
    from ._annotations import Inexpressible as Inexpressible
    from ._annotations import Shape as Shape
    from ._annotations import publish_member as publish_member
    from ._conversion import MISSING as MISSING
    from ._conversion import PLAIN as PLAIN
    from ._conversion import Form as Form
    from ._conversion import Loader as Loader
    from ._conversion import Misfit as Misfit
    from ._conversion import form_of as form_of
    from ._conversion import resolve_hints as resolve_hints
    from ._conversion import to_json as to_json
    from ._docstrings import Docstring as Docstring
    from ._docstrings import parse_docstring as parse_docstring
    from ._keywords import LISTS_OF_SCHEMAS as LISTS_OF_SCHEMAS
    from ._keywords import NAMED_SCHEMAS as NAMED_SCHEMAS
    from ._keywords import SINGLE_SCHEMAS as SINGLE_SCHEMAS
    from ._validate import TYPE_NAMES as TYPE_NAMES
    from ._validate import LazyValidator as LazyValidator
    from ._validate import SchemaError as SchemaError
    from ._validate import Validator as Validator
    from ._validate import compile_schema as compile_schema
    from ._validate import dialect_of as dialect_of
    from ._validate import render_path as render_path
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "_annotations": (
                "FORMATS", "AnnotationReader", "Definitions", "Inexpressible", "Shape", "publish_member",
            ),
            "_conversion": ("MISSING", "PLAIN", "Form", "Loader", "Misfit", "form_of", "resolve_hints", "to_json"),
            "_docstrings": ("Docstring", "parse_docstring"),
            "_keywords": ("LISTS_OF_SCHEMAS", "NAMED_SCHEMAS", "SINGLE_SCHEMAS"),
            "_validate": (
                "TYPE_NAMES", "LazyValidator", "SchemaError", "Validator", "compile_schema", "dialect_of",
                "render_path",
            ),
        },
    )  # fmt: skip
