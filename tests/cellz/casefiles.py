"""Contract cases: YAML files that replay requests on a node, or on two and compare them.

A case is a list of steps. `expect.json` is a pattern: `<uuid>`, `<time>`, `<int>`, `<any>` match by kind,
`{name}` is replaced by what an earlier step captured, and an object must have exactly the fields named.
`differs: NAME` marks a step on which the original does something else, listed in intended.yaml.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cellz.running import Sse

FOLDER = Path(__file__).parent / "cases"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z")
_VARIABLE = re.compile(r"\{([a-z_0-9]+)\}")


@dataclass
class Answer:
    """What a step got back."""

    status: int
    json: Any
    body: str
    headers: dict[str, str] = field(default_factory=dict)


def case_names() -> list[tuple[str, str]]:
    """Return (file, case) of every case."""
    return [(path.stem, case) for path in sorted(FOLDER.glob("*.yaml")) for case in load(path.stem)]


def load(file: str) -> dict[str, list[dict[str, Any]]]:
    """Return the cases of a file."""
    cases: dict[str, list[dict[str, Any]]] = yaml.safe_load(
        (FOLDER / f"{file}.yaml").read_text(encoding="utf-8")
    )
    return cases


def intended() -> dict[str, str]:
    """Return the intended differences from the original, by name."""
    named: dict[str, str] = yaml.safe_load((FOLDER.parent / "intended.yaml").read_text(encoding="utf-8"))
    return named


def fill(value: Any, variables: dict[str, Any]) -> Any:
    """Replace `{name}` in every text of `value`."""
    if isinstance(value, str):
        whole = _VARIABLE.fullmatch(value)
        if whole and whole[1] in variables:
            return variables[whole[1]]
        return _VARIABLE.sub(lambda found: str(variables.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [fill(each, variables) for each in value]
    if isinstance(value, dict):
        return {fill(key, variables): fill(each, variables) for key, each in value.items()}
    return value


def fresh_variables() -> dict[str, Any]:
    """Return the variables a case starts with: ids of cells that nothing else uses."""
    return {name: f"{name}-{uuid.uuid4().hex[:12]}" for name in ("cell", "other", "third")}


def run_step(client: httpx.Client, step: dict[str, Any], variables: dict[str, Any]) -> Answer:
    """Send one step and return what came back; captures go into `variables`."""
    request = fill(step["request"], variables)
    if "take" in step:
        stream = Sse(client, request["path"], headers=request.get("headers", {}))
        try:
            taken = stream.take(step["take"]) if stream.response.status_code == 200 else []
            answer = Answer(
                stream.response.status_code, [list(each) for each in taken], "", dict(stream.response.headers)
            )
        finally:
            stream.close()
    else:
        method, path = request.get("method", "GET"), request["path"]
        options = {key: request[key] for key in ("json", "headers", "content") if key in request}
        got = client.request(method, path, **options)
        try:
            data = got.json()
        except ValueError:
            data = None
        answer = Answer(got.status_code, data, got.text, dict(got.headers))
    for name, path_ in step.get("capture", {}).items():
        variables[name] = dig(answer.json, path_)
    return answer


def dig(data: Any, path: str) -> Any:
    """Return the value at a dotted path."""
    for part in path.split("."):
        data = data[int(part)] if isinstance(data, list) else data[part]
    return data


def mismatch(pattern: Any, value: Any, at: str = "$") -> str:
    """Return where `value` is not what `pattern` says, or ""."""
    if isinstance(pattern, str) and pattern.startswith("<") and pattern.endswith(">"):
        return "" if _kind(pattern, value) else f"{at}: {value!r} is no {pattern}"
    if isinstance(pattern, dict):
        if not isinstance(value, dict) or set(pattern) != set(value):
            return f"{at}: {value!r} has not the fields {sorted(pattern)}"
        return next(filter(None, (mismatch(pattern[key], value[key], f"{at}.{key}") for key in pattern)), "")
    if isinstance(pattern, list):
        if not isinstance(value, list) or len(pattern) != len(value):
            return f"{at}: {value!r} has not {len(pattern)} items"
        pairs = zip(pattern, value, strict=True)
        return next(filter(None, (mismatch(p, v, f"{at}.{n}") for n, (p, v) in enumerate(pairs))), "")
    same = type(pattern) is type(value) and pattern == value
    return "" if same else f"{at}: {value!r} is not {pattern!r}"


def _kind(pattern: str, value: Any) -> bool:
    if pattern == "<any>":
        return True
    if pattern == "<int>":
        return isinstance(value, int) and not isinstance(value, bool)
    if pattern == "<text>":
        return isinstance(value, str) and value != ""
    expression = {"<uuid>": _UUID, "<time>": _TIME}[pattern]
    return isinstance(value, str) and expression.fullmatch(value) is not None


def check(step: dict[str, Any], answer: Answer, variables: dict[str, Any], key: str = "expect") -> None:
    """Assert that an answer is what the step expects."""
    expect = fill(step[key], variables)
    where = f"{step['request']}: {answer.body[:300]}"
    assert answer.status == expect["status"], where
    if "json" in expect:
        wrong = mismatch(expect["json"], answer.json)
        assert not wrong, f"{where}\n{wrong}"
    if "body" in expect:
        assert answer.body == expect["body"], where
    for name, value in expect.get("headers", {}).items():
        assert answer.headers.get(name) == value, f"{where}\n{name}: {answer.headers.get(name)!r}"


def shape(answer: Answer) -> Any:
    """Return an answer with everything that differs by nature (ids, times, texts of errors) taken out."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            if set(value) >= {"error"} and isinstance(value["error"], str):
                return {"error": "<text>"}
            return {key: plain(each) for key, each in sorted(value.items())}
        if isinstance(value, list):
            return [plain(each) for each in value]
        if isinstance(value, str):
            if _UUID.fullmatch(value):
                return "<uuid>"
            if _TIME.fullmatch(value):
                return "<time>"
            return re.sub(r"-[0-9a-f]{12}$", "-<cell>", value)
        return value

    return {"status": answer.status, "json": plain(answer.json)}
