"""PROVISIONAL: an interpreting stand-in until the real converter lands."""
from __future__ import annotations
import types as _t
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
import attrs
from trio_mcp._errors import StructureError
from trio_mcp.types import _generated as g
from trio_mcp.types._model import NO_EXTRA, UNSET, Model
from trio_mcp.types._tables import PROFILES, SUPERSET, WIRE_NAMES
T = TypeVar("T")
def _wire(cls, name):
    special = WIRE_NAMES.get(cls.__name__, {}).get(name)
    if special: return special
    if name == "meta": return "_meta"
    head, *rest = name.split("_")
    return head + "".join(p.title() for p in rest)
@lru_cache(None)
def _fields(cls):
    import typing; hints = {k: eval(v, {**vars(typing), **vars(g)}) for k, v in cls.__annotations__.items()}
    return [(f.name, _wire(cls, f.name), hints[f.name], f.default) for f in attrs.fields(cls) if f.name != "extra"]
def _do(value, tp, rev, path, faults):
    if tp is Any: return value
    origin = get_origin(tp)
    if isinstance(tp, type) and issubclass(tp, Model):
        if type(value) is not dict: faults.append(f"{path}: expected object"); return None
        prof = PROFILES[rev] if rev else SUPERSET
        req = prof.required.get(tp.__name__, ()); unk = prof.unknown.get(tp.__name__, ())
        kw = {}; extra = dict(value)
        for name, wire, hint, default in _fields(tp):
            if wire in unk and wire in value: continue
            if wire in value:
                extra.pop(wire)
                kw[name] = _do(value[wire], hint, rev, f"{path}.{wire}", faults)
            elif default is attrs.NOTHING or wire in req or (get_origin(hint) is Literal and isinstance(default, str)):
                faults.append(f"{path}: required member {wire!r} is missing"); kw[name] = None
        return tp(**kw, extra=extra or NO_EXTRA)
    if origin in (Union, _t.UnionType):
        best = None
        for arm in sorted(get_args(tp), key=lambda a: a is float):
            mine = []
            r = _do(value, arm, rev, path, mine)
            if not mine: return r
            if best is None or len(mine) < len(best): best = mine
        faults.extend(best); return None
    if origin is Literal:
        if value not in get_args(tp) or type(value) is bool: faults.append(f"{path}: expected one of {get_args(tp)}")
        return value
    if origin in (list, Sequence) or tp is list:
        if type(value) is not list: faults.append(f"{path}: expected array"); return None
        a = get_args(tp)
        return [_do(v, a[0], rev, f"{path}[{i}]", faults) for i, v in enumerate(value)] if a else value
    if origin in (dict, Mapping) or tp is dict:
        if type(value) is not dict: faults.append(f"{path}: expected object"); return None
        a = get_args(tp)
        return {k: _do(v, a[1], rev, f"{path}.{k}", faults) for k, v in value.items()} if a and a[1] is not Any else value
    if tp is type(None):
        if value is not None: faults.append(f"{path}: expected null")
        return None
    ok = {str: (str,), int: (int,), float: (float, int), bool: (bool,)}[tp]
    if type(value) not in ok: faults.append(f"{path}: expected {tp.__name__}")
    return value
def structure(value: Any, cls: type[T] | Any, *, revision: str | None = None) -> T:
    faults: list[str] = []
    r = _do(value, cls, revision, "$", faults)
    if faults: raise StructureError(getattr(cls, "__name__", str(cls)), faults)
    return r
def _un(o, rev):
    if isinstance(o, Model):
        unk = (PROFILES[rev].unknown.get(type(o).__name__, ()) if rev else ())
        out = {}
        for name, wire, hint, default in _fields(type(o)):
            v = getattr(o, name)
            if wire in unk or v is UNSET or (v is None and default is None): continue
            out[wire] = v if name == "meta" else _un(v, rev)
        return {**o.extra, **out}
    if isinstance(o, (list, tuple)): return [_un(v, rev) for v in o]
    if isinstance(o, dict): return {k: _un(v, rev) for k, v in o.items()}
    return o
def unstructure(obj: Any, *, revision: str | None = None) -> Any: return _un(obj, revision)
def structurer(cls: type[T], revision: str | None = None) -> Callable[[Any], T]: return partial(structure, cls=cls, revision=revision)
def unstructurer(cls: type[T], revision: str | None = None) -> Callable[[T], dict[str, Any]]: return partial(unstructure, revision=revision)
