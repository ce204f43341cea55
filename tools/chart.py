"""Renders deploy/chart without Helm, for tests and for a look at what it would install.

    python3 tools/chart.py --set worker.replicas=5 --set image.tag=1.2.0

Helm is a Go program with the client of Kubernetes in it, which takes longer to build than everything else that the tests need. The chart
uses a small part of Go's templates: the actions if, else, range, with and define, pipelines, and the functions in FUNCTIONS. Whatever else
is in a template is an error here, so that the chart stays within this part. Needs PyYAML.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[1] / "deploy" / "chart"


class ChartError(Exception):
    """A template, or a value, that is wrong."""


@dataclass
class Node:
    """Text (`kind` is "text"), an expression ("value"), or an action with its branches: expressions and what follows them."""

    kind: str
    text: str = ""
    branches: list[tuple[str | None, list["Node"]]] = field(default_factory=list)


ACTION = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
WORD = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\(|\)|\||[^\s()|"]+)')


def parts(template: str) -> Iterator[tuple[bool, str]]:
    """Texts, and actions without their braces, with white space trimmed where an action says so."""
    at, trims = 0, False
    for found in ACTION.finditer(template):
        text = template[at : found.start()]
        text = text.lstrip() if trims else text
        yield False, text.rstrip() if found[1] else text
        action = found[2].strip()
        if not (action.startswith("/*") and action.endswith("*/")):
            yield True, action
        at, trims = found.end(), bool(found[3])
    yield False, template[at:].lstrip() if trims else template[at:]


def parse(template: str, name: str, defined: dict[str, list[Node]]) -> list[Node]:
    """The nodes of a template. What it defines is added to `defined`."""
    nodes: list[Node] = []
    # The open actions, each with the nodes that it is in.
    stack: list[tuple[Node, list[Node]]] = []
    for is_action, text in parts(template):
        word, _, rest = text.partition(" ")
        if not is_action:
            nodes.append(Node("text", text))
        elif word in ("if", "range", "with", "define"):
            node = Node(word, branches=[(rest, [])])
            stack.append((node, nodes))
            nodes = node.branches[0][1]
        elif word in ("else", "end") and not stack:
            raise ChartError(f"{name}: `{text}` without a beginning")
        elif word == "else":
            condition = rest.removeprefix("if ") if rest else None
            nodes = []
            stack[-1][0].branches.append((condition, nodes))
        elif word == "end":
            node, nodes = stack.pop()
            if node.kind == "define":
                expression, body = node.branches[0]
                defined[json.loads(expression or "")] = body
            else:
                nodes.append(node)
        else:
            nodes.append(Node("value", text))
    if stack:
        raise ChartError(f"{name}: an action has no end")
    return nodes


class Scope:
    """What a template sees: the dot, and the root of all values."""

    def __init__(self, root: dict[str, Any], defined: dict[str, list[Node]]) -> None:
        self.root, self.defined = root, defined

    def render(self, nodes: list[Node], dot: Any) -> str:
        return "".join(self.one(node, dot) for node in nodes)

    def one(self, node: Node, dot: Any) -> str:
        if node.kind == "text":
            return node.text
        if node.kind == "value":
            return plain(self.evaluate(node.text, dot))
        for condition, body in node.branches:
            value = True if condition is None else self.evaluate(condition, dot)
            if not value:
                continue
            if node.kind == "range" and condition is not None:
                return "".join(self.render(body, item) for item in value)
            return self.render(body, value if node.kind == "with" and condition is not None else dot)
        return ""

    def evaluate(self, expression: str, dot: Any) -> Any:
        words = WORD.findall(expression)
        if "".join(words) != re.sub(r"\s", "", expression) and '"' not in expression:
            raise ChartError(f"`{expression}` cannot be read")
        value = self.pipeline(words, dot)
        if words:
            raise ChartError(f"`{expression}` ends too soon, at `{words[0]}`")
        return value

    def pipeline(self, words: list[str], dot: Any) -> Any:
        """Commands with `|` between them: each takes the value of the one before as its last argument."""
        value, has_value = None, False
        while True:
            value, has_value = self.command(words, dot, [value] if has_value else []), True
            if not words or words[0] != "|":
                return value
            words.pop(0)

    def command(self, words: list[str], dot: Any, last: list[Any]) -> Any:
        operands: list[Any] = []
        function = None
        while words and words[0] not in ("|", ")"):
            word = words.pop(0)
            if word == "(":
                operands.append(self.pipeline(words, dot))
                if not words or words.pop(0) != ")":
                    raise ChartError("a parenthesis has no end")
            elif not operands and function is None and re.fullmatch(r"[a-zA-Z]+", word) and word not in ("true", "false"):
                function = word
            else:
                operands.append(self.operand(word, dot))
        if function is None:
            if len(operands) + len(last) != 1:
                raise ChartError(f"{operands + last} is not one value")
            return (operands + last)[0]
        if function == "include":
            name, inner = operands + last
            if name not in self.defined:
                raise ChartError(f"no template `{name}` is defined")
            return self.render(self.defined[name], inner)
        if function not in FUNCTIONS:
            raise ChartError(f"the function `{function}` is not one of {', '.join(FUNCTIONS)}")
        return FUNCTIONS[function](*operands, *last)

    def operand(self, word: str, dot: Any) -> Any:
        if word.startswith('"'):
            return json.loads(word)
        if word in ("true", "false"):
            return word == "true"
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        if word == ".":
            return dot
        base, path = (self.root, word[2:]) if word.startswith("$.") else (dot, word[1:])
        if not word.startswith((".", "$.")):
            raise ChartError(f"`{word}` is no value")
        for name in path.split("."):
            # Like Helm, a missing name is nothing; but nothing has no names, and a value must be in values.yaml.
            if not isinstance(base, dict) or name not in base:
                raise ChartError(f"`{word}` is not in the values")
            base = base[name]
        return base


def plain(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def required(message: str, value: Any) -> Any:
    if value is None or value == "":
        raise ChartError(message)
    return value


def to_yaml(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=False, sort_keys=True).removesuffix("\n").removesuffix("\n...")


def nindent(spaces: int, text: str) -> str:
    return "\n" + "\n".join(" " * spaces + line for line in text.split("\n"))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "contains": lambda part, text: part in text,
    "default": lambda other, value=None: value or other,
    "nindent": nindent,
    "not": lambda value: not value,
    "printf": lambda form, *values: form.replace("%s", "{}").format(*values),
    "quote": lambda value: json.dumps(plain(value), ensure_ascii=False),
    "required": required,
    "toYaml": to_yaml,
    "trimSuffix": lambda suffix, text: text.removesuffix(suffix),
    "trunc": lambda length, text: text[:length],
}


def render(
    values: dict[str, Any] | None = None, release: str = "sales", namespace: str = "default", chart: Path = CHART
) -> dict[str, str]:
    """The rendered templates by their names. `values` are laid over those of values.yaml.

    Raises:
        ChartError: a template or a value is wrong.
    """
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    root = {
        "Values": merged(yaml.safe_load((chart / "values.yaml").read_text()), values or {}),
        "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
        "Chart": {"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
    }
    defined: dict[str, list[Node]] = {}
    files = sorted((chart / "templates").iterdir())
    parsed = {file.name: parse(file.read_text(), file.name, defined) for file in files}
    scope = Scope(root, defined)
    return {name: scope.render(nodes, root) for name, nodes in parsed.items() if not name.startswith("_")}


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Values over others. A name that the chart does not have is an error: it would have no effect.

    Raises:
        ChartError: there is no such value.
    """
    result = dict(below)
    for name, value in above.items():
        if name not in below:
            raise ChartError(f"there is no value `{name}`; there are {', '.join(below)}")
        deeper = isinstance(below[name], dict) and below[name] and isinstance(value, dict)
        result[name] = merged(below[name], value) if deeper else value
    return result


def objects(rendered: dict[str, str]) -> list[dict[str, Any]]:
    """The objects of Kubernetes in rendered templates."""
    found = []
    for name, text in rendered.items():
        if name.endswith(".yaml"):
            found += [made for made in yaml.safe_load_all(text) if made]
    return found


def set_values(settings: list[str]) -> dict[str, Any]:
    """Values from texts such as `worker.replicas=5`."""
    values: dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise ChartError(f"`{setting}` is not NAME=VALUE")
        *outer, last = path.split(".")
        at = values
        for name in outer:
            at = at.setdefault(name, {})
        at[last] = yaml.safe_load(text)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a value, such as worker.replicas=5; may be repeated")
    parser.add_argument("--release", default="sales", help="the name of the release [default: sales]")
    options = parser.parse_args()
    try:
        for name, text in render(set_values(options.set), options.release).items():
            print(f"---\n# {name}\n{text.strip()}")
    except ChartError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
