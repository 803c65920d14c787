"""Jinja2 with its reach taken away; loaded only for templates that are more than plain names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from manifests.errors import TemplateError
from manifests.placeholder import Reference
from manifests.template import OUTPUT_CHARACTERS_MAX, missing, shown, too_large

# No `random` (the same manifest gives the same plan), none that takes a width or builds markup.
FILTERS_ALLOWED = frozenset(
    "abs capitalize count d default dictsort first float int items join last length list lower map max min"
    " reject rejectattr replace reverse round select selectattr sort string sum title tojson trim unique upper"
    " urlencode".split()
)
_STATEMENTS: tuple[type[nodes.Node], ...] = (nodes.Template, nodes.Output, nodes.If, nodes.For)
_FORBIDDEN = {
    nodes.Call: "a template cannot call anything; filters can do what is needed",
    nodes.Pow: "powers are not possible in a template",
}
_LOOP = frozenset({"index", "index0", "first", "last", "length"})
# Whole numbers in a template count nodes and ports.
NUMBER_MAX = 2**53


class _Undefined(StrictUndefined):
    """A name without a value: an error wherever it is used, but for `default` and `is defined`."""

    __slots__ = ()


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "%", "+"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Keys of mappings and places of lists; no Python attribute is looked up, but for a loop's own."""
        if isinstance(obj, LoopContext) and argument in _LOOP:
            return getattr(obj, argument)
        if isinstance(obj, Mapping):
            if isinstance(argument, (str, int)) and argument in obj:
                return obj[argument]
        elif isinstance(obj, (str, Sequence)) and isinstance(argument, (int, slice)):
            try:
                return obj[argument]
            except IndexError:
                pass
        return self.undefined(obj=obj, name=str(argument))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic on numbers; `+` also joins texts. Repetition and formatting of text could grow without bound."""
        if isinstance(left, StrictUndefined) or isinstance(right, StrictUndefined):
            return left + right
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if not numbers and not (operator == "+" and type(left) is type(right)):
            raise SecurityError(f"{operator} is for numbers")
        result = super().call_binop(context, operator, left, right)
        if numbers and abs(result) > NUMBER_MAX:
            raise SecurityError("a number is too large")
        return result


def _finalize(value: Any) -> Any:
    """What stands in the text for a value; a name without one fails here."""
    return str(value) if isinstance(value, StrictUndefined) else shown("", value)


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, with a result that is not too large; `replace` could make one at a stroke."""

    @functools.wraps(function)
    def filtered(*args: Any, **kwargs: Any) -> Any:
        if name == "replace":
            texts = [a for a in args if isinstance(a, str)]
            if len(texts) >= 3:
                times = texts[0].count(texts[1])
                if times * len(texts[2]) > OUTPUT_CHARACTERS_MAX:
                    raise SecurityError("| replace makes too much text")
        result = function(*args, **kwargs)
        if isinstance(result, str) and len(result) > OUTPUT_CHARACTERS_MAX:
            raise SecurityError(f"| {name} makes too much text")
        return result

    return filtered


@functools.cache
def _environment() -> _Environment:
    environment = _Environment(
        undefined=_Undefined, finalize=_finalize, keep_trailing_newline=True, autoescape=False
    )
    environment.globals.clear()
    environment.filters = {
        name: _bounded(name, function) for name, function in FILTERS.items() if name in FILTERS_ALLOWED
    }
    return environment


class Compiled:
    """One template, checked and ready."""

    __slots__ = ("_template", "_text", "references")

    def __init__(self, text: str, template: Template, references: tuple[Reference, ...]) -> None:
        self._text = text
        self._template = template
        self.references = references

    def render(self, context: Mapping[str, Any]) -> str:
        """The rendered text; raises TemplateError."""
        text = self._text
        out: list[str] = []
        length = 0
        try:
            for piece in self._template.generate(context):
                out.append(piece)
                length += len(piece)
                if length > OUTPUT_CHARACTERS_MAX:
                    raise too_large(text)
        except TemplateError as e:
            raise TemplateError(text, e.reason, hint=e.hint, code=e.code) from None
        except UndefinedError as e:
            raise _missing(text, e, self.references, context) from None
        except SecurityError as e:
            raise TemplateError(text, str(e), code="template.forbidden") from None
        # Filters and operators raise what Python raises: division by zero, a comparison of text and number.
        except Exception as e:  # noqa: BLE001 - whatever a template provokes is the template's error
            raise TemplateError(text, f"{type(e).__name__}: {e}") from None
        return "".join(out)


def compile_text(text: str) -> Compiled:
    """The template in `text`; raises TemplateError for its syntax and for what is forbidden."""
    environment = _environment()
    try:
        tree = environment.parse(text)
        _check(tree, text)
        references = tuple(dict.fromkeys(_references(tree)))
        code = environment.compile(tree)
    except TemplateSyntaxError as e:
        raise TemplateError(text, f"{e.message} (line {e.lineno})", code="template.syntax") from None
    except RecursionError:
        raise TemplateError(text, "it is nested too deeply", code="template.syntax") from None
    except (ValueError, TypeError, OverflowError) as e:
        raise TemplateError(text, str(e), code="template.syntax") from None
    template = Template.from_code(environment, code, environment.globals)
    return Compiled(text, template, references)


def _check(tree: nodes.Node, text: str, loops: int = 0) -> None:
    for node in tree.iter_child_nodes():
        if isinstance(node, nodes.Stmt) and not isinstance(node, _STATEMENTS):
            what = f"{{% {type(node).__name__.lower()} %}} is not possible in a manifest"
            raise TemplateError(text, what, hint="there are if and for", code="template.forbidden")
        for kind, reason in _FORBIDDEN.items():
            if isinstance(node, kind):
                raise TemplateError(text, reason, code="template.forbidden")
        inner = loops + isinstance(node, nodes.For)
        if inner > 1 or (isinstance(node, nodes.For) and node.recursive):
            raise TemplateError(text, "loops within loops are not possible", code="template.forbidden")
        _check(node, text, inner)


def _references(tree: nodes.Node, bound: frozenset[str] = frozenset()) -> list[Reference]:
    """Every name that comes from outside, with the constant keys that follow it."""
    found: list[Reference] = []
    for node in tree.iter_child_nodes():
        chain = _chain(node)
        if chain is not None:
            if chain[0] not in bound:
                found.append(chain)
            found += _arguments(node, bound)
            continue
        inner = bound
        if isinstance(node, nodes.For):
            inner = bound | {"loop"} | {n.name for n in node.target.find_all(nodes.Name)}
            if isinstance(node.target, nodes.Name):
                inner |= {node.target.name}
        found += _references(node, inner)
    return found


def _chain(node: nodes.Node) -> Reference | None:
    keys: list[str] = []
    while True:
        if isinstance(node, nodes.Name):
            return (node.name, *reversed(keys)) if node.ctx == "load" else None
        if isinstance(node, nodes.Getattr):
            keys.append(node.attr)
        elif isinstance(node, nodes.Getitem):
            if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
                keys.append(node.arg.value)
            else:
                keys.clear()
        else:
            return None
        node = node.node


def _arguments(node: nodes.Node, bound: frozenset[str]) -> list[Reference]:
    """The names inside the brackets of a chain: a[b.c]."""
    found: list[Reference] = []
    while isinstance(node, (nodes.Getattr, nodes.Getitem)):
        if isinstance(node, nodes.Getitem) and not isinstance(node.arg, nodes.Const):
            found += _references(nodes.Output([node.arg]), bound)
        node = node.node
    return found


def _missing(
    text: str, e: UndefinedError, references: tuple[Reference, ...], context: Mapping[str, Any]
) -> TemplateError:
    """Which of the names has no value: looked up again, as Jinja2 names only the last key."""
    for reference in references:
        value: Any = context
        for i, key in enumerate(reference):
            if not isinstance(value, Mapping):
                break
            if key not in value:
                return missing(text, ".".join(reference[: i + 1]))
            value = value[key]
    return TemplateError(text, str(e.message), code="template.undefined")
