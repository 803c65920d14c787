"""Every stable code that fleetctl gives, read from the source: where it is written, what it means, how it ends.

A code is a dotted text in one of these places: the class attribute or the argument `code` of an error, the first argument
of a finding (`error`, `warning`, `refuse`, `Words`, `Diagnostic`), or the first text of a tuple that such a finding is
made of; the first argument of an outcome, or the word after `answer`, `finish` or `say` in a script that runs on hosts.
`python -m tests.docs.write_error_codes` writes the page from them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from manifests.errors import REFUSED_CODES, ExitCode
from tests.house.sources import ROOT, package_modules

CODE = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*\.[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")
FINDINGS = frozenset({"error", "warning", "warn", "refuse", "Words", "Diagnostic", "_failed"})
OUTCOMES = frozenset({"succeeded", "failed", "rejected", "unknown", "Outcome"})
ROOT_ERROR = "FleetctlError"
ERRORS = ("error",)
FINDINGS_OF_MANIFESTS = ("finding",)
REFUSALS = ("refusal",)
REMARKS = ("warning",)
OUTCOME_STATES = ("succeeded", "failed", "rejected", "unknown")
# Codes that are put together: beginning -> the room, and the name and words of each ending, as the source has them.
COMPOSED = {
    "compat.": ("planner/strategy.py", "_SUMMARY", "refusal"),
    "change.": ("fleetctl/cli/views/remarks.py", "_CHANGES", "warning"),
    "environment.": ("planner/rules.py", "_violations", "refusal"),
    "manifest.": ("manifests/schema/", "refused", "finding"),
    "policy.": ("", "find", "refusal"),
}
_SCRIPT = re.compile(
    rf"""\b(?:answer|finish|say) (?P<state>{"|".join(OUTCOME_STATES)}) (?P<code>[a-z_]+\.[a-z_]+)(?: "(?P<says>[^"]*)")?"""
)
# Beside one code; a code of twenty messages is a family, and its first messages say which.
TEXTS_MAX = 3
_SHELL_VALUE = re.compile(r"\$\{[^}]*\}|\$\w+")


@dataclass(frozen=True, order=True)
class Written:
    """One place at which a code is written."""

    code: str
    room: str
    """error, finding, warning, refusal, or the state of an outcome."""
    exit_code: int
    meaning: str
    hint: str
    place: str


@dataclass(frozen=True)
class _Error:
    name: str
    bases: tuple[str, ...]
    code: str | None
    exit_code: str | None
    also: tuple[int, ...]
    """Exit codes that its constructor may choose instead."""
    meaning: str
    place: str


@cache
def written() -> tuple[Written, ...]:
    """Every place of every code, the cell daemon's apart: its codes are answers of its own contract."""
    found = [*_of_classes()]
    for path, tree in _trees():
        nodes = tuple(ast.walk(tree))
        found += [*_in(path, nodes), *_of_schema(path, nodes), *_of_policies(path, nodes)]
    found += [*_of_scripts(), *_composed()]
    return tuple(sorted(set(found)))


def _of_policies(path: str, nodes: tuple[ast.AST, ...]) -> Iterator[Written]:
    """Rules of a policy say `find(RULE, summary, …)` or `finding(policy, RULE, summary, …)`."""
    for node in nodes:
        if not isinstance(node, ast.Call) or _name(node.func) not in ("find", "finding"):
            continue
        for rule, summary in pairwise(node.args):
            if (
                isinstance(rule, ast.Constant)
                and re.fullmatch(r"[a-z_]+", _text(rule))
                and " " in _text(summary)
            ):
                code, place = f"policy.{_text(rule)}", f"{path}:{node.lineno}"
                yield Written(code, "refusal", ExitCode.REFUSED, _text(summary), "", place)


def _composed() -> Iterator[Written]:
    """The codes whose endings are the keys of a table, or the first words that a function yields."""
    for beginning, (path, name, room) in COMPOSED.items():
        tree = dict(_trees()).get(path)  # the schema's endings are read where they are raised
        exit_code = ExitCode.REFUSED if room == "refusal" else ExitCode.OK
        for node in ast.walk(tree) if tree is not None else ():
            if (
                isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == name
                and isinstance(node.value, ast.Dict)
            ):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    ending = _text(key) or _name(key or value).lower()
                    yield Written(
                        beginning + ending, room, exit_code, _text(value), "", f"{path}:{value.lineno}"
                    )
            if isinstance(node, ast.FunctionDef) and node.name == name:
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Yield) and isinstance(inner.value, ast.Tuple):
                        ending, _, says, hint = (_text(e) for e in inner.value.elts)
                        meaning = f"The version {says} a variable"
                        yield Written(
                            beginning + ending, room, exit_code, meaning, hint, f"{path}:{inner.lineno}"
                        )


def composed_beginnings() -> set[str]:
    """The beginnings of codes that the source puts together, where a code is given."""
    found = set()
    for path, tree in _trees():
        composes = re.search(r'f"[a-z]+\.\{', (ROOT / path).read_text(encoding="utf-8"))
        for call in ast.walk(tree) if composes else ():
            if isinstance(call, ast.Call) and _name(call.func) in FINDINGS:
                texts = [
                    inner
                    for arg in call.args[:2]
                    for inner in ast.walk(arg)
                    if isinstance(inner, ast.JoinedStr)
                ]
                for text in texts:
                    first = text.values[0] if text.values else None
                    if isinstance(first, ast.Constant) and re.fullmatch(r"[a-z]+\.", str(first.value)):
                        found.add(str(first.value))
    return found


def _of_scripts() -> Iterator[Written]:
    for path in sorted((ROOT / "executors").rglob("*.sh")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for said in _SCRIPT.finditer(line):
                says = _SHELL_VALUE.sub("…", said["says"] or "")
                place = f"{path.relative_to(ROOT).as_posix()}:{number}"
                yield Written(said["code"], said["state"], ExitCode.OK, says, "", place)


def _of_schema(path: str, nodes: tuple[ast.AST, ...]) -> Iterator[Written]:
    """Validators of the schema raise `refused(KIND, detail, hint)`, which becomes the finding `manifest.KIND`."""
    for node in nodes if path.startswith("manifests/schema/") else ():
        if isinstance(node, ast.Call) and _name(node.func) == "refused" and node.args:
            kind, detail, hint = (*node.args, None, None)[:3]
            if isinstance(kind, ast.Constant):
                code, place = f"manifest.{_text(kind)}", f"{path}:{node.lineno}"
                yield Written(code, "finding", ExitCode.ERROR, _text(detail), _text(hint), place)


def _of_classes() -> Iterator[Written]:
    for error in _errors().values():
        if error.code is not None and "." in error.code:
            for exit_code in (_exit(error.name), *error.also):
                yield Written(error.code, "error", exit_code, error.meaning, "", error.place)


def _in(path: str, nodes: tuple[ast.AST, ...]) -> Iterator[Written]:
    codes = [
        n
        for n in nodes
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and CODE.fullmatch(n.value)
    ]
    above = {child: node for node in nodes for child in ast.iter_child_nodes(node)} if codes else {}
    for node in codes:
        one = _read(node, str(node.value), above, f"{path}:{node.lineno}")
        if one is not None:
            yield one


def _read(node: ast.AST, code: str, above: dict[ast.AST, ast.AST], place: str) -> Written | None:
    """What the surroundings of a literal make of it; None where it is no code."""
    around, branch = above[node], ""
    child: ast.AST = node
    while isinstance(around, ast.IfExp):
        branch = "body" if around.body is child else "orelse"
        around, child = above[around], around
    if isinstance(around, ast.Assign) and "code" in [ast.unparse(t) for t in around.targets]:
        around = _next_call(around, above) or around
        child = around
    if isinstance(around, ast.keyword) and around.arg == "code":
        call = above[around]
        name = _name(call.func) if isinstance(call, ast.Call) else ""
        if isinstance(call, ast.Call) and name in _errors():
            texts = [_text(arg, branch) for arg in call.args]
            meaning = next((t for t in texts if " " in t), _errors()[name].meaning)
            return Written(code, "error", _exit(name), meaning, _hint(call, branch), place)
    if isinstance(around, ast.Dict):
        keys = [
            ast.unparse(k)
            for k, v in zip(around.keys, around.values, strict=True)
            if k is not None and v is child
        ]
        says = first_sentence(ast.get_docstring(_scope(around, above)) or "")
        return Written(code, "unknown", ExitCode.OK, says, "", place) if "'code'" in keys else None
    if isinstance(around, ast.Return):
        return _of_property(code, around, above, place)
    if isinstance(around, ast.Call):
        return _finding(around, child, code, branch, place)
    if isinstance(around, ast.Tuple) and around.elts[0] is child and len(around.elts) > 1:
        meaning = _text(around.elts[1], branch)
        if " " in meaning:
            return Written(code, "finding", _finding_exit(code), meaning, "", place)
    return None


def _of_property(code: str, node: ast.AST, above: dict[ast.AST, ast.AST], place: str) -> Written | None:
    """A code that a property `code` gives to the refusal that asks for it."""
    scope = above[node]
    if not (isinstance(scope, ast.FunctionDef) and scope.name == "code"):
        return None
    for path, tree in _trees():
        for call in ast.walk(tree) if path.startswith("planner/") else ():
            if isinstance(call, ast.Call) and _name(call.func) == "refuse" and len(call.args) > 1:
                asked = call.args[0]
                if isinstance(asked, ast.Attribute) and asked.attr == "code":
                    return Written(
                        code, "refusal", ExitCode.REFUSED, _text(call.args[1]), _hint(call, ""), place
                    )
    return None


def _finding(call: ast.Call, child: ast.AST, code: str, branch: str, place: str) -> Written | None:
    name = _name(call.func)
    states = (
        [_name(f) for f in (call.func.body, call.func.orelse)] if isinstance(call.func, ast.IfExp) else []
    )
    if child not in call.args or (
        name not in FINDINGS | OUTCOMES and not OUTCOMES.issuperset(states or [""])
    ):
        return None
    after = call.args[call.args.index(child) + 1 :]
    if name in OUTCOMES or states:
        says = _text(after[0] if after else None, branch)
        return Written(code, " or ".join(states or [name]), ExitCode.OK, says, "", place)
    meaning = _text(after[0] if after else None, branch)
    if name in ("warning", "warn", "Diagnostic"):
        return Written(code, "warning", ExitCode.OK, meaning, _hint(call, branch), place)
    if name == "refuse" and place.startswith("planner/"):
        return Written(code, "refusal", ExitCode.REFUSED, meaning, _hint(call, branch), place)
    return Written(code, "finding", _finding_exit(code), meaning, _hint(call, branch), place)


def _next_call(node: ast.AST, above: dict[ast.AST, ast.AST]) -> ast.AST | None:
    """The `code=code` that an assigned code goes to, in the same function."""
    for inner in ast.walk(_scope(node, above)):
        if isinstance(inner, ast.keyword) and inner.arg == "code" and ast.unparse(inner.value) == "code":
            return inner
    return None


def _scope(node: ast.AST, above: dict[ast.AST, ast.AST]) -> ast.FunctionDef | ast.Module:
    """The function around, or the module."""
    while not isinstance(node, ast.FunctionDef | ast.Module):
        node = above[node]
    return node


def _finding_exit(code: str) -> int:
    return ExitCode.REFUSED if code.startswith(REFUSED_CODES) else ExitCode.ERROR


def _hint(call: ast.Call, branch: str) -> str:
    for keyword in call.keywords:
        if keyword.arg == "hint":
            return _text(keyword.value, branch)
    # review.error(code, summary, detail, key, path, hint) and Words(code, summary, detail, hint)
    place = {"error": 5, "warn": 5, "Words": 3}.get(_name(call.func))
    return _text(call.args[place], branch) if place is not None and len(call.args) > place else ""


def _text(node: ast.AST | None, branch: str = "") -> str:
    """A text as far as the source has it; what is filled in when it is said is an ellipsis."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(v) if isinstance(v, ast.Constant) else "…" for v in node.values)
    if isinstance(node, ast.IfExp):
        return _text(node.orelse if branch == "orelse" else node.body)
    if isinstance(node, ast.Name):
        return _constants().get(node.id, "")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return ""


def _name(func: ast.AST) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


@cache
def _trees() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in package_modules()
        if "cellz" not in path.parts
    )


@cache
def _constants() -> dict[str, str]:
    """The texts that modules give a name."""
    return {
        target.id: node.value.value
        for _, tree in _trees()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


@cache
def _errors() -> dict[str, _Error]:
    """The classes below FleetctlError, by name."""
    classes = {}
    for path, tree in _trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] = _class(node, path)
    known = {ROOT_ERROR}
    while True:
        more = {c.name for c in classes.values() if known & set(c.bases)} - known
        if not more:
            return {name: classes[name] for name in sorted(known)}
        known |= more


def _class(node: ast.ClassDef, path: str) -> _Error:
    values = {}
    for inner in node.body:
        target = inner.targets[0] if isinstance(inner, ast.Assign) else getattr(inner, "target", None)
        if isinstance(target, ast.Name) and isinstance(inner, ast.Assign | ast.AnnAssign) and inner.value:
            values[target.id] = inner.value
    code = values.get("code")
    exit_code = values.get("exit_code")
    return _Error(
        name=node.name,
        bases=tuple(_name(base) for base in node.bases),
        code=_text(code) or None,
        exit_code=exit_code.attr if isinstance(exit_code, ast.Attribute) else None,
        also=tuple(
            ExitCode[inner.value.attr]
            for inner in ast.walk(node)
            if isinstance(inner, ast.Assign)
            and ast.unparse(inner.targets[0]) == "self.exit_code"
            and isinstance(inner.value, ast.Attribute)
        ),
        meaning=first_sentence(ast.get_docstring(node) or ""),
        place=f"{path}:{node.lineno}",
    )


def _exit(name: str) -> int:
    error = _errors()[name]
    if error.exit_code is not None:
        return ExitCode[error.exit_code]
    return next((_exit(base) for base in error.bases if base in _errors()), int(ExitCode.ERROR))


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    flat = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.;:])\s", flat, maxsplit=1)[0].rstrip(".;:")


_HEAD = """# Error codes

Every stable code that `fleetctl` gives, read from the source by `python -m tests.docs.write_error_codes`; a test holds the
two together. Codes stand in JSON (`validate --format json`, plans, reviews, `audit export`), in SARIF as rules, and in the
tests; they are stable, the wording beside them is not. An ellipsis stands for what is filled in: a name, a version, a
path. What each exit code means is in [one table](exit-codes.md). The cell daemon's codes are in [its own page](../cellz.md).
"""
_SECTIONS = (
    (
        ERRORS,
        "Errors that end a command",
        "The command prints `Error:` with the message and its hint, and exits.",
    ),
    (
        FINDINGS_OF_MANIFESTS,
        "Findings about manifests",
        "Each has a place: file, line and column. All of a run are reported together.",
    ),
    (REFUSALS, "Refusals of a plan", "The plan is printed with them, and cannot be applied."),
    (REMARKS, "Warnings", "They stop nothing. Those of plans and reviews stand in annotations and SARIF."),
)
_OUTCOMES_HEAD = """
## Outcomes of effects

How an effect ended, in the journal and in `audit export`. `succeeded`, `failed` and `rejected` are final, `unknown` is
looked up: see [Effects](../effects.md). Without a text, the code says it, or what the place itself answered stands there.

| code | outcome | says |
|---|---|---|
"""


def page() -> str:
    """The reference page, whole."""
    parts = [_HEAD]
    for rooms, title, about in _SECTIONS:
        parts.append(f"\n## {title}\n\n{about}\n\n| code | meaning | exit | hint |\n|---|---|---|---|\n")
        parts += [_row(code, places) for code, places in by_code(rooms).items()]
    parts.append(_OUTCOMES_HEAD)
    for code, places in by_code(OUTCOME_STATES).items():
        states = sorted({state for p in places for state in p.room.split(" or ")})
        parts.append(f"| `{code}` | {', '.join(states)} | {_cell(p.meaning for p in places)} |\n")
    return "".join(parts)


def _row(code: str, places: list[Written]) -> str:
    exits = ", ".join(str(int(e)) for e in sorted({p.exit_code for p in places}))
    return f"| `{code}` | {_cell(p.meaning for p in places)} | {exits} | {_cell(p.hint for p in places)} |\n"


def _cell(texts: Iterable[str]) -> str:
    """Different texts of one code, at most three of them, made harmless for a table."""
    said = [t for t in dict.fromkeys(" ".join(text.split()) for text in texts) if re.search(r"[a-z]{2}", t)]
    more = f" *and {len(said) - TEXTS_MAX} more*" if len(said) > TEXTS_MAX else ""
    return " · ".join(_plain(t) for t in said[:TEXTS_MAX]) + more


def _plain(text: str) -> str:
    outside = re.split(r"(`[^`]*`)", text)
    return "".join(
        part.replace("|", "\\|") if i % 2 else re.sub(r"([*_<>\[\]{}])", r"\\\1", part).replace("|", "\\|")
        for i, part in enumerate(outside)
    )


def by_code(rooms: Iterable[str] = ()) -> dict[str, list[Written]]:
    """The places of each code, in the order of the codes; only of these rooms, if some are named."""
    grouped: dict[str, list[Written]] = {}
    for one in written():
        if not rooms or set(one.room.split(" or ")) & set(rooms):
            grouped.setdefault(one.code, []).append(one)
    return grouped
