"""Rendering per node: plain names without Jinja2, the rest in a sandbox, and errors that name the reason."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.errors import TemplateError
from manifests.placeholder import is_template
from manifests.sandbox import compile_text
from manifests.template import OUTPUT_CHARACTERS_MAX, Renderer

CONTEXT: dict[str, Any] = {
    "node": {"name": "web-0", "port": 18080, "labels": {"zone": "north", "items": "mine"}},
    "vars": {"debug": True, "off": False, "list": ("a", "b"), "none": None, "text": "x", "n": 3},
}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain", "plain"),
        ("{json: [1]}", "{json: [1]}"),
        ("{{ node.port }}", "18080"),
        ("{{node.name}}:{{ node.port }}/", "web-0:18080/"),
        ("{{ node.labels.zone }}", "north"),
        ("{{ node.labels.items }}", "mine"),  # a key, not a method of a mapping
        ("{{ node.labels['zone'] }}", "north"),
        ("{{ vars.debug }} {{ vars.off }}", "true false"),  # never as Python writes it
        ("{{ vars.debug | string }}x", "Truex"),
        ("{{ vars.nope | default('d') }}", "d"),
        ('{{ vars.nope | default( "d" ) }}', "d"),
        ("{{ vars.text | default('d') }}", "x"),
        ("{{ vars.list | join(',') }}", "a,b"),
        ("{{ vars.list[1] }}", "b"),
        ("{{ node.port + vars.n }}", "18083"),
        ("{{ 'a' ~ node.port }}", "a18080"),
        ("{% if vars.debug %}yes{% else %}no{% endif %}", "yes"),
        ("{% for x in vars.list %}{{ loop.index }}{{ x }} {% endfor %}", "1a 2b "),
        ("{# comment #}x", "x"),
        ("line\n", "line\n"),
        ("{{ node.name }}\n", "web-0\n"),
        ("{{ node.name | upper }}\n", "WEB-0\n"),
        ("{{ vars.text is defined }} {{ vars.nope is defined }}", "true false"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
    ],
)
def test_renders(text: str, rendered: str) -> None:
    assert Renderer().render(text, CONTEXT) == rendered


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("{{ node.uid }}", "template.undefined", "node.uid has no value"),
        ("{{ node.uid | upper }}", "template.undefined", "node.uid has no value"),
        ("{{ host.name }}", "template.undefined", "host has no value"),
        ("{{ vars.a.b }}", "template.undefined", "vars.a has no value"),
        ("{{ vars.none }}", "template.failed", "nothing cannot stand in text"),
        ("{{ node.labels }}", "template.failed", "a mapping"),
        ("{{ vars.list }}", "template.failed", "a list"),
        ("{{ node", "template.syntax", "line 1"),
        ("{{ node.name.upper }}", "template.undefined", "node.name.upper"),
        ("{{ node.name.upper() }}", "template.forbidden", "cannot call"),
        ("{{ node.name.__class__ }}", "template.undefined", ""),
        ("{{ vars | attr('x') }}", "template.syntax", "attr"),
        ("{{ 'ab' * 3 }}", "template.forbidden", "for numbers"),
        ("{{ 'x' | replace('', vars.big) | replace('', vars.big) }}", "template.forbidden", "replace"),
        ("{{ vars.big }}{{ vars.big }}", "template.too-large", "more than"),
        ("{{ vars.big ~ vars.big }}", "template.too-large", "more than"),
        ("{{ 1 // 0 }}", "template.failed", "ZeroDivisionError"),
        ("{{ vars.list < 3 }}", "template.failed", "TypeError"),
        ("{{ " + "(" * 500 + "1" + ")" * 500 + " }}", "template.syntax", ""),
        ("{{ 1" + "0" * 5000 + " }}", "template.syntax", ""),
    ],
)
def test_refuses_with_the_reason(text: str, code: str, reason: str) -> None:
    context = {**CONTEXT, "vars": {**CONTEXT["vars"], "big": "x" * (OUTPUT_CHARACTERS_MAX // 2 + 1)}}
    with pytest.raises(TemplateError) as e:
        Renderer().render(text, context)
    assert (e.value.code, e.value.text) == (code, text)
    assert reason in e.value.reason
    assert e.value.reason in e.value.message


NAMES = st.sampled_from(["node.name", "node.port", "vars.text", "vars.debug", "node.labels.zone"])
SIMPLE = st.lists(
    st.one_of(st.text(alphabet="ab {}%#\n", max_size=5), NAMES.map(lambda n: f"{{{{ {n} }}}}")), max_size=6
)


@given(SIMPLE.map("".join))
@settings(max_examples=300, deadline=None)
def test_plain_names_render_as_the_sandbox_renders_them(text: str) -> None:
    """The short way without Jinja2 and the long way give the same text, or both refuse."""

    def outcome(render: Any) -> str | None:
        try:
            return str(render())
        except TemplateError:
            return None

    short = outcome(lambda: Renderer().render(text, CONTEXT))
    long = outcome(lambda: compile_text(text).render(CONTEXT))
    assert short == long
    if not is_template(text):
        assert short == text


def test_names_of_a_text() -> None:
    renderer = Renderer()
    assert renderer.references("plain") == ()
    assert renderer.references("{{ node.port }} {{ vars.a | default('x') }}") == (
        ("node", "port"),
        ("vars", "a"),
    )
    text = "{% for x in vars.l %}{{ x.y }}{{ loop.index }}{{ vars[node.name] }}{{ host['name'] | upper }}{% endfor %}"
    assert set(renderer.references(text)) == {("vars", "l"), ("vars",), ("node", "name"), ("host", "name")}


def test_plain_names_do_not_import_jinja2() -> None:
    program = (
        "import sys; from manifests.template import Renderer; r = Renderer();"
        "assert r.render('{{ a.b }}{{ a.c | default(\"d\") }}', {'a': {'b': 1}}) == '1d'; assert 'jinja2' not in sys.modules;"
        "assert r.render('{{ a.b + 1 }}', {'a': {'b': 1}}) == '2'; assert 'jinja2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("module", ["manifests.manifest", "manifests.schema.fleet", "manifests.validate"])
def test_the_nouns_are_cheap_to_import(module: str) -> None:
    program = f"import sys, {module}; assert not {{'yaml', 'jinja2'}} & set(sys.modules), sorted(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
