"""The ranking of tools for a query in natural language, by the words that both have in common.

Rules of this file:

1. The score of a tool is BM25F: an occurrence of a word counts by its field. The name counts most, then the title, the
   description, and the names and descriptions of the parameters. Rare words count more than frequent ones.
2. Text is split where there is neither a letter nor a digit. ``listUsers20`` is one word and also the words ``list``,
   ``users`` and ``20``. Case and marks such as accents are ignored. Scripts without spaces are split into pairs of
   characters.
3. English words lose the endings ``-s``, ``-ing``, ``-ed``, ``-ment`` and ``-e``. Frequent words that say nothing
   about a tool are ignored.
4. A word of the query also finds related words, which count less: those of its groups in `_GROUPS`, and words that
   begin with it, or with which it begins. All of them together count as one word.
5. A tool whose name is the query comes first. Tools of equal score keep their order.
6. Servers are not trusted: a member of the wrong shape counts as missing, and only the beginning of a long text is
   read, so the work is linear in the size of the tools. Of a schema, only the parameters themselves are read, and not
   what is nested in them.
"""

from __future__ import annotations

import heapq
import math
import re
import unicodedata
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import Any, Final

from attrs import define

from ..types import JSONObject
from ..wire import is_array, is_object

__all__ = ["ToolIndex"]

MAX_FIELD_LENGTH: Final = 4_000
"""The number of characters of a field that are read."""
MAX_QUERY_LENGTH: Final = 1_000
"""The number of characters of a query that are read."""
MAX_QUERY_WORDS: Final = 40
"""The number of different words of a query that are searched for."""

_FIELD_WEIGHTS: Final = {
    "name": 3.0,
    "title": 1.5,
    "description": 1.0,
    "parameter names": 0.5,
    "parameter descriptions": 0.5,
}
_SATURATION: Final = 1.2
"""How fast further occurrences of a word lose value; ``k1`` of BM25."""
_LENGTH_EFFECT: Final = 0.5
"""How much a word loses in a field that is longer than the average; ``b`` of BM25."""
_RELATED_WEIGHT: Final = 0.6
_PREFIX_WEIGHT: Final = 0.3
_SHORTEST_PREFIX: Final = 4
_LONGEST_ENDING: Final = 5
"""The number of characters by which two words with a common beginning may differ."""
_MOST_EXTENSIONS: Final = 20
"""The number of words that begin with a word of the query and are searched for."""


@define(eq=False, init=False)
class ToolIndex:
    """An index of tools that finds those that fit a query. It is made anew when the tools change.

    The time to make it grows with the text of the tools: 2,000 tools take some tenths of a second.

    Args:
        tools: the tools in their JSON form, as in the result of ``tools/list``.

    Specification: https://modelcontextprotocol.io/specification/2026-07-28/server/tools
    """

    _frequencies: dict[str, dict[int, float]]
    """How often each word occurs in each tool that has it, weighted by fields; tools are given by their positions."""
    _words: Sequence[str]
    """All words, sorted."""
    _positions: Mapping[str, Sequence[int]]
    """The positions of the tools with each name, as `_name_key` writes it."""
    _size: int
    """The number of tools."""

    def __init__(self, tools: Sequence[JSONObject]) -> None:
        forms = _Forms()
        fields = [_fields_of(tool, forms) for tool in tools]
        frequencies: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for name, weight in _FIELD_WEIGHTS.items():
            lengths = [len(words) for each in fields if (words := each[name])]
            average = sum(lengths) / len(lengths) if lengths else 1.0
            for position, each in enumerate(fields):
                length = 1 - _LENGTH_EFFECT + _LENGTH_EFFECT * len(each[name]) / average
                for word, times in Counter(each[name]).items():
                    of_word = frequencies[word]
                    of_word[position] = of_word.get(position, 0.0) + weight * times / length
        positions: defaultdict[str, list[int]] = defaultdict(list)
        for position, tool in enumerate(tools):
            positions[_name_key(_text(tool.get("name")))].append(position)
        self._frequencies = dict(frequencies)
        self._words = sorted(frequencies)
        self._positions = {key: places for key, places in positions.items() if key}
        self._size = len(fields)

    def search(self, query: str, at_most: int) -> list[int]:
        """Return the positions of the tools that fit a query best, the best one first.

        Args:
            query: words, a sentence, or the name of a tool.
            at_most: the greatest number of positions. There are fewer if fewer tools fit at all.
        """
        query = query[:MAX_QUERY_LENGTH]
        scores = dict.fromkeys(self._positions.get(_name_key(query), ()), math.inf)
        for word in islice(dict.fromkeys(self._words_of_query(query)), MAX_QUERY_WORDS):
            for position, score in self._scores_of_word(word):
                scores[position] = scores.get(position, 0.0) + score
        return heapq.nsmallest(at_most, scores, key=lambda position: (-scores[position], position))

    def _words_of_query(self, query: str) -> Iterator[str]:
        """Yield the words of a query, then those that it splits in two, as in "log in" and "back up"."""
        yield from _words_of(query, _Forms())
        for first, second in pairwise(_WORD.findall(_plain(query).casefold())):
            joined = _stem(first + second)
            if joined in self._frequencies or joined in _RELATED:
                yield joined

    def _scores_of_word(self, word: str) -> Iterator[tuple[int, float]]:
        """Yield the tools that have a word or one that is related to it, each with its score."""
        own = self._frequencies.get(word, {})
        together = dict(own)
        for other, weight in self._related_to(word).items():
            for position, frequency in self._frequencies.get(other, {}).items():
                together[position] = together.get(position, 0.0) + weight * frequency
        rarity, rarity_together = self._rarity(len(own)), self._rarity(len(together))
        for position, frequency in together.items():
            saturated = frequency * (_SATURATION + 1) / (frequency + _SATURATION)
            yield position, saturated * (rarity if position in own else rarity_together)

    def _rarity(self, found: int) -> float:
        """Return the weight of a word that so many tools have; it is always positive."""
        return math.log(1 + (self._size - found + 0.5) / (found + 0.5))

    def _related_to(self, word: str) -> dict[str, float]:
        """Return the words that a word finds besides itself, with their weights."""
        related = dict.fromkeys(_RELATED.get(word, ()), _RELATED_WEIGHT)
        longest = len(word) + _LONGEST_ENDING
        if len(word) >= _SHORTEST_PREFIX:
            start = bisect_left(self._words, word)
            for other in self._words[start : start + _MOST_EXTENSIONS]:
                if other != word and other.startswith(word) and len(other) <= longest:
                    related.setdefault(other, _PREFIX_WEIGHT)
        for length in range(max(_SHORTEST_PREFIX, len(word) - _LONGEST_ENDING), len(word)):
            related.setdefault(word[:length], _PREFIX_WEIGHT)
        return related


# --- The text of a tool ---


def _fields_of(tool: JSONObject, forms: _Forms) -> dict[str, list[str]]:
    """Return the words of each field of a tool."""
    annotations, schema = tool.get("annotations"), tool.get("inputSchema")
    other_title = annotations.get("title") if is_object(annotations) else None
    properties: Any = schema.get("properties") if is_object(schema) else None
    if not is_object(properties):
        properties = {}
    texts = {
        "name": _text(tool.get("name")),
        "title": _text(tool.get("title")) or _text(other_title),
        "description": _text(tool.get("description")),
        "parameter names": _joined(properties),
        "parameter descriptions": _joined(_descriptions_of(properties.values())),
    }
    return {name: _words_of(text, forms) for name, text in texts.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _descriptions_of(properties: Iterable[Any]) -> Iterator[str]:
    """Yield the descriptions of parameters, and the texts that are allowed as their values."""
    for schema in properties:
        if is_object(schema):
            yield _text(schema.get("description"))
            values = schema.get("enum")
            if is_array(values):
                yield from map(_text, values)


def _joined(texts: Iterable[str]) -> str:
    """Return texts with spaces between them, as far as they are read."""
    taken: list[str] = []
    room = MAX_FIELD_LENGTH
    for text in texts:
        if room <= 0:
            break
        taken.append(text[:room])
        room -= len(text) + 1
    return " ".join(taken)


# --- Words ---

_WORD: Final = re.compile(r"[^\W_]+")
_PART: Final = re.compile(
    r"^[a-z][A-Z][a-z]+"  # iPhone
    r"|[A-Z]{1,2}[0-9]+"  # the S3 of listS3Buckets
    r"|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9]+"
)
_SHORT_FORM: Final = re.compile(r"['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_WITHOUT_SPACES: Final = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
"""A run of Thai, Lao, Burmese, Khmer, Japanese or Chinese. The group keeps it in the result of `split`."""
_VOWEL: Final = re.compile("[aeiouy]")

_FREQUENT: Final = """
    a about all also am an and any are as at be been being but by can could did do does doing for from get got had has
    have he help her here him his i if in into is it its just let like made make may me might mine must my need no not
    of on or our ours please s shall she should so some such t than that the their them then there these they this
    those to too tool tools us use used uses using want was we were what which while whom whose why will with would you
    your yours
"""
_IGNORED: Final = frozenset(_FREQUENT.split())


class _Forms(dict[str, Sequence[str]]):
    """The basic forms of words and of their parts, without the ignored ones. Each word is analysed once."""

    def __missing__(self, word: str) -> Sequence[str]:
        forms = tuple(_stem(part) for part in _parts_of(word) if part not in _IGNORED)
        self[word] = forms
        return forms


class _Unmarked(dict[int, int | None]):
    """A table for `str.translate` that removes marks, such as accents. It grows, so it is kept for one text only."""

    def __missing__(self, code: int) -> int | None:
        kept = None if unicodedata.category(chr(code)).startswith("M") else code
        self[code] = kept
        return kept


def _words_of(text: str, forms: _Forms) -> list[str]:
    """Return the words of a text in their basic form, without the ignored ones."""
    return list(chain.from_iterable(map(forms.__getitem__, _WORD.findall(_plain(text)))))


def _plain(text: str) -> str:
    """Return a text without marks and compatibility characters, and without the endings of English short forms."""
    text = text[:MAX_FIELD_LENGTH]
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)[:MAX_FIELD_LENGTH]
        text = unicodedata.normalize("NFC", decomposed.translate(_Unmarked()))
    return _SHORT_FORM.sub("", text)


def _parts_of(word: str) -> Iterator[str]:
    """Yield a word in lower case, and its parts if it has some."""
    if not word.isascii() and len(runs := _WITHOUT_SPACES.split(word)) > 1:
        for each in runs[::2]:
            if each:
                yield each.casefold()
        for each in runs[1::2]:
            yield from (each[start : start + 2] for start in range(max(1, len(each) - 1)))
        return
    folded = word.casefold()
    yield folded
    if word != folded or not word.isalpha():
        parts = _PART.findall(word)
        if len(parts) > 1:
            yield from (part.casefold() for part in parts if len(part) > 1)


def _stem(word: str) -> str:
    """Return the basic form of an English word. It need not be a word: ``queries`` and ``query`` are ``queri``."""
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith(("ies", "sses")):
        word = word[:-2]
    elif word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    if word.endswith("ment") and len(word) >= 8:
        word = word[:-4]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and not word.endswith("eed") and len(rest) >= 3 and _VOWEL.search(rest):
            is_doubled = len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "aeioulsz"
            word = rest[:-1] if is_doubled else rest
            break
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    if word.endswith("y") and word[-2] not in "aeiou":
        word = f"{word[:-1]}i"
    return word


def _name_key(name: str) -> str:
    """Return a name without case, spaces and punctuation, as it is compared with a query."""
    return "".join(_WORD.findall(_plain(name).casefold()))


# --- Related words ---

_GROUPS: Final = """
    create add new insert open set setup register;
    delete remove erase drop destroy purge wipe discard trash clear clean empty uninstall rid throw;
    list show view see display browse; read open view show see content;
    find found search look lookup query locate discover seek grep; fetch retrieve download pull load obtain;
    update edit change modify modification alter adjust fix correct replace swap rewrite;
    send sent post publish tell write mail deliver; write wrote written save store put keep kept;
    copy duplicate clone replicate; move rename transfer migrate put relocate;
    reschedule move postpone delay change; start run ran launch execute trigger begin invoke boot;
    stop halt end terminate kill shut quit pause; cancel abort revoke void withdraw invalidate; cancel delete;
    take took capture; google search; close finish complete resolve solve done mark tick over;
    reply answer respond comment; approve accept confirm; reject decline refuse deny; assign give gave grant hand;
    merge combine join unite; invite join add; split divide separate; convert transform turn export;
    check verify validate test inspect; buy bought purchase order; sell sold sale;
    book reserve reservation appointment; schedule plan later; stash shelve aside later;
    install deploy release ship rollout live production; undo revert rollback restore back previous earlier return;
    upload push put; restart reboot; retry rerun again; mute silence snooze;
    notify alert inform warn warning alarm tell; remind nudge reminder remember; track monitor watch follow;
    compare diff difference versus; summarize summary overview digest recap gist;
    calculate compute evaluate arithmetic math; draw paint sketch render generate;
    block ban deactivate disable kick throw suspend; enable activate switch turn; log record enter note;
    hire onboard recruit hiring; fire dismiss offboard leave left; memory remember memorize recall mind know;
    analyze analysis examine investigate; recommend suggest propose; recognize identify detect;
    compress archive zip; extract unzip unpack decompress; sign signature approve; navigate visit go open;
    switch go checkout; choose select pick; click press tap hit; type enter input fill; wait until pause;
    unsubscribe leave; invoice bill charge; guest invite attendee participant; forward pass; lock secure;
    sort order; crop cut trim shorten; stream watch; say said speak speaker spoken talk; decide decision;
    translate translation language say;

    file document contract agreement; folder directory dir; text content inside word letter;
    permission access right mode executable; space disk storage drive; repository repo; pull pr; database db;
    configuration config; documentation docs; application app; information info; environment env;
    issue ticket bug story case; label tag; release version tag; latest newest recent last;
    history past historical previous; author who blame; vulnerability security hole; commit change;
    script code program process; error exception crash failure fail break broken;
    ci build pipeline workflow job; log output print; infrastructure terraform;
    size big small resize bigger smaller large larger; format style font bold; background transparent behind;
    article page post;

    email mail inbox mailbox; message chat conversation discuss; channel room; sms text; direct private;
    phone telephone call ring; user member people person account; password login signin;
    secret credential token key; meeting event appointment call conference standup; calendar diary agenda event;
    draft compose; spam junk; mailing newsletter subscribe; rule filter automatic;
    vacation leave holiday absence off away; free available availability busy; employee staff worker colleague;
    applicant candidate apply; job position vacancy; salary wage payroll payslip; customer client buyer;
    company firm organization business; lead prospect; deal opportunity; pipeline funnel; oncall duty; manager boss;
    course class lesson; assignment homework; grade mark;

    column field; row record entry; sql select statement; backup dump back snapshot; schema structure;
    similar semantic; instance vm server machine virtual computer; machine computer laptop;
    kubernetes k8s kubectl cluster pod; firewall ingress security; certificate tls ssl https; expiry expire until;
    cost spend spent spending expense; slow latency performance speed fast; page website site web;
    web internet online google; visitor user people traffic; chart dashboard graph; incident outage down;
    alert alarm incident page pager; uptime availability reachable; scale replicas copies;

    pay paid payment charge; money amount balance cash; profit income revenue earnings earn turnover sales money;
    quote offer estimate; price cost rate worth value cheap cheapest; currency euro dollar exchange; overdue unpaid;
    subscription plan recurring; dispute chargeback contest; package parcel delivery shipment; product item goods;
    stock inventory; stock share investment; cryptocurrency crypto bitcoin coin; discount coupon voucher promo;
    cart basket; advertising ad advert campaign;

    weather rain snow umbrella forecast sunny cold hot outside temperature;
    sun sunset sunrise dark dawn uv sunscreen; pollution polluted pollutant smog air;
    coordinates position location gps; height elevation altitude high; directions route way drive walk foot;
    duration long time; near nearby around; parking park; cafe coffee restaurant; restaurant food eat meal;
    recipe cook; shop store; light lamp bulb brightness dim; heating thermostat temperature warm heat cool warmer;
    blind shutter curtain cover; energy electricity power; flight plane fly airline;
    hotel stay accommodation lodging room; taxi cab ride; train rail; trip travel journey itinerary;
    picture photo image screenshot snapshot; video film movie clip; song track music;
    audio sound recording voice speech spoken aloud speak; volume loud louder quiet; spreadsheet sheet excel cell;
    chart graph plot diagram bar; slide presentation deck; note memo idea; ocr scan scanned;
    sentiment tone mood opinion positive; spelling grammar mistake typo; wikipedia encyclopedia; todo task;
    alarm wake; timer countdown; hour time worklog effort; workout exercise training run; unit mile kilometer meter;
    random dice; doctor physician dentist; medicine drug medication pill; percent percentage
"""
"""Groups of words that people use for the same things; a word may be in several."""


def _related_words() -> Mapping[str, Sequence[str]]:
    """Return for each word the other words of its groups, all in their basic form."""
    related: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for group in _GROUPS.split(";"):
        stems = dict.fromkeys(map(_stem, group.split()))
        for stem in stems:
            related[stem] |= {other: None for other in stems if other != stem}
    return {stem: tuple(others) for stem, others in related.items()}


_RELATED: Final = _related_words()
