"""The examples of RFC 6570, sections 1.2 and 3.2, for what we support: levels 1 to 3, and lists with and without ``*``.

Left out of its tables are prefixes (``{x:3}``) and associative arrays, which are level 4.
"""

from __future__ import annotations

import pytest

from trio_mcp.wire import UriTemplate
from trio_mcp.wire._uri_template import expanded, parsed

VALUES: dict[str, str | list[str]] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_list": [],
}

EXAMPLES = """
{var}                   value
{hello}                 Hello%20World%21
{half}                  50%25
O{empty}X               OX
O{undef}X               OX
map?{x,y}               map?1024,768
{x,y}                   1024,768
{x,hello,y}             1024,Hello%20World%21,768
?{x,empty}              ?1024,
?{x,undef}              ?1024
?{undef,y}              ?768
{list}                  red,green,blue
{list*}                 red,green,blue
{count}                 one,two,three
{base}index             http%3A%2F%2Fexample.com%2Fhome%2Findex

{+var}                  value
{+hello}                Hello%20World!
{+half}                 50%25
{+base}index            http://example.com/home/index
O{+empty}X              OX
O{+undef}X              OX
{+path}/here            /foo/bar/here
here?ref={+path}        here?ref=/foo/bar
up{+path}{var}/here     up/foo/barvalue/here
{+x,hello,y}            1024,Hello%20World!,768
{+path,x}/here          /foo/bar,1024/here
{+list}                 red,green,blue
{+list*}                red,green,blue

X{#var}                 X#value
X{#hello}               X#Hello%20World!
{#half}                 #50%25
foo{#empty}             foo#
foo{#undef}             foo
{#x,hello,y}            #1024,Hello%20World!,768
{#path,x}/here          #/foo/bar,1024/here
{#list}                 #red,green,blue
{#list*}                #red,green,blue

{.who}                  .fred
{.who,who}              .fred.fred
{.half,who}             .50%25.fred
www{.dom*}              www.example.com
X{.var}                 X.value
X{.x,y}                 X.1024.768
X{.empty}               X.
X{.undef}               X
X{.list}                X.red,green,blue
X{.list*}               X.red.green.blue
X{.empty_list}          X
X{.empty_list*}         X

{/who}                  /fred
{/who,who}              /fred/fred
{/half,who}             /50%25/fred
{/who,dub}              /fred/me%2Ftoo
{/var}                  /value
{/var,empty}            /value/
{/var,undef}            /value
{/var,x}/here           /value/1024/here
{/list}                 /red,green,blue
{/list*}                /red/green/blue

{;who}                  ;who=fred
{;half}                 ;half=50%25
{;empty}                ;empty
{;v,empty,who}          ;v=6;empty;who=fred
{;v,bar,who}            ;v=6;who=fred
{;x,y}                  ;x=1024;y=768
{;x,y,empty}            ;x=1024;y=768;empty
{;x,y,undef}            ;x=1024;y=768
{;list}                 ;list=red,green,blue
{;list*}                ;list=red;list=green;list=blue

{?who}                  ?who=fred
{?half}                 ?half=50%25
{?x,y}                  ?x=1024&y=768
{?x,y,empty}            ?x=1024&y=768&empty=
{?x,y,undef}            ?x=1024&y=768
{?list}                 ?list=red,green,blue
{?list*}                ?list=red&list=green&list=blue

{&who}                  &who=fred
{&half}                 &half=50%25
?fixed=yes{&x}          ?fixed=yes&x=1024
{&x,y,empty}            &x=1024&y=768&empty=
{&x,y,undef}            &x=1024&y=768
{&list}                 &list=red,green,blue
{&list*}                &list=red&list=green&list=blue
"""


EXPANSIONS: dict[str, str] = {line.split()[0]: line.split()[1] for line in EXAMPLES.splitlines() if line}


@pytest.mark.parametrize(("template", "expansion"), EXPANSIONS.items())
def test_an_example_of_the_specification_is_expanded(template: str, expansion: str) -> None:
    assert expanded(parsed(template), VALUES) == expansion


REFUSED = {"up{+path}{var}/here", "{.who,who}", "{/who,who}"}
"""Templates with adjacent variables, or with a variable that appears twice."""

NOT_READ_BACK = {
    "O{empty}X",  # an empty value
    "O{undef}X",
    "?{x,empty}",
    "?{x,undef}",
    "?{undef,y}",
    "O{+empty}X",
    "O{+undef}X",
    "{list}",  # a list where a string is expected
    "{count}",
    "X{.list}",
    "{/list}",
    "{;list}",
    "{?list}",
    "{&list}",
}
"""Expansions that do not match, by the rules of `UriTemplate`."""

READ_AS_TEXT = {"{+list}", "{#list}"}
"""Examples whose text may contain commas."""


@pytest.mark.requirement("B.21-S5b")
@pytest.mark.parametrize(("template", "expansion"), [each for each in EXPANSIONS.items() if each[0] not in REFUSED])
def test_an_example_of_the_specification_is_read_back(template: str, expansion: str) -> None:
    made = UriTemplate(template)

    if template in NOT_READ_BACK:
        assert made.match(expansion) is None
    elif template in READ_AS_TEXT:
        assert made.match(expansion) == {"list": "red,green,blue"}
    else:
        assert made.match(expansion) == {name: VALUES[name] for name in made.variables if VALUES.get(name, []) != []}


@pytest.mark.parametrize("template", sorted(REFUSED))
def test_an_ambiguous_example_of_the_specification_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"another variable follows|appears twice"):
        UriTemplate(template)
