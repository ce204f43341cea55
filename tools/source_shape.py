"""Checks the shape of the Rust sources: import circles among the modules of a folder, and long functions.

    python3 tools/source_shape.py [--list]

Modules. The modules of one folder may import each other in circles of at most `CIRCLE_MODULES_MAX` modules. A folder's
`mod.rs` is no module of the folder: it may use its modules, and they may use it. An import through a re-export counts as
an import of the module that defines the name. An import of something deep within another folder counts for that folder.

Functions. A function has at most `FUNCTION_LINES_MAX` lines from its signature to its closing brace, without comment
lines. Tests are not counted. `EXCEPTIONS` names the functions that may be longer, each with the reason.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CIRCLE_MODULES_MAX = 3
FUNCTION_LINES_MAX = 70

# File and function: why it is long. Tables of data and flat matches may be.
EXCEPTIONS = {
    "crates/freestone/src/ingest/columns.rs column_builder": "a flat match over Arrow types",
    "crates/freestone/src/session/mod.rs execute_unguarded": "a flat match over the kinds of statements",
    "crates/freestone-data/src/ssb.rs schema": "a table of columns",
    "crates/freestone-lab/src/experiments/codecs.rs cases": "a table of columns",
    "crates/freestone-store/src/store/commit.rs apply_one": "a flat match over the operations of a commit",
}

# Circles that are known: a module of each, and the reason.
KNOWN_CIRCLES = {
    "freestone-store persistent": "blocks are segments, and are clustered and searched as these",
    "freestone fusion::compiler": "each kind of node compiles its inputs, which are nodes of any kind",
}


def blank(text):
    """The text with comments and the contents of strings replaced by spaces, at the same positions."""
    pattern = re.compile(
        r"""//[^\n]*|/\*.*?\*/|b?r(?P<hash>\#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])'""",
        re.DOTALL,
    )
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def without_tests(code):
    """Blank code up to the test module at its end."""
    found = re.search(r"^#\[cfg\(test\)\]\nmod \w+ \{", code, re.MULTILINE)
    return code[: found.start()] if found else code


def matching_brace(code, start):
    """The position behind the brace that closes the one at `start`."""
    depth = 0
    for found in re.finditer(r"[{}]", code[start:]):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return start + found.end()
    return len(code)


def functions(path):
    """Name, line and number of code lines of each function with a body."""
    text = path.read_text(encoding="utf-8")
    code = without_tests(blank(text))
    for found in re.finditer(r"\bfn\s+(\w+)", code):
        # The body begins at the first brace outside parentheses and brackets. A declaration ends at a semicolon.
        depth, at = 0, found.end()
        while at < len(code) and not (depth == 0 and code[at] in "{;"):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(code[at], 0)
            at += 1
        if at < len(code) and code[at] == "{":
            body = code[found.start() : matching_brace(code, at)]
            lines = sum(1 for line in body.split("\n") if line.strip())
            yield found.group(1), code.count("\n", 0, found.start()) + 1, lines


class Crate:
    """The modules of a crate by their paths, such as `("scan", "cursor")`; `()` is the crate's root."""

    def __init__(self, source):
        self.files, self.code, self.exports = {}, {}, {}
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
            if parts[-1] == "tests":
                continue
            self.files[module] = path
            self.code[module] = without_tests(blank(path.read_text(encoding="utf-8")))
        for module, code in self.code.items():
            self.exports[module] = dict(self.re_exports(module, code))

    def uses(self, code):
        """Whether each `use` is public, and its paths as lists of names with the name that it gives."""
        for found in re.finditer(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", code, re.MULTILINE):
            for path in flattened(found.group(2)):
                yield bool(found.group(1)), path

    def re_exports(self, module, code):
        for is_public, (path, name) in self.uses(code):
            if is_public and name != "*":
                yield name, path

    def absolute(self, module, path):
        """The path from the crate's root; `None` if it leads to another crate."""
        if path[0] == "crate":
            return tuple(path[1:])
        base = list(module)
        if path[0] == "self":
            return tuple(base + list(path[1:]))
        if path[0] == "super":
            while path and path[0] == "super":
                base, path = base[:-1], path[1:]
            return tuple(base + list(path))
        return tuple(base + list(path)) if module + (path[0],) in self.files else None

    def defining(self, path, depth=0):
        """The module that defines what a path names, through re-exports."""
        module, rest = (), list(path)
        while rest and module + (rest[0],) in self.files:
            module, rest = module + (rest[0],), rest[1:]
        if rest and rest[0] in self.exports.get(module, {}) and depth < 8:
            onward = self.absolute(module, self.exports[module][rest[0]])
            if onward is None:
                return None
            return self.defining(onward + tuple(rest[1:]), depth + 1)
        return module

    def imports(self):
        """Pairs of modules: one imports what the other defines. Re-exports are no imports."""
        for module, code in self.code.items():
            paths = [path for is_public, (path, _) in self.uses(code) if not is_public]
            rest = re.sub(r"^\s*(pub(\([^)]*\))?\s+)?use\s+[^;]+;", "", code, flags=re.MULTILINE)
            qualified = re.findall(r"\b((?:crate|super|self)(?:::\w+)+)", re.sub(r"pub\(in [^)]*\)", "", rest))
            for path in paths + [text.split("::") for text in qualified]:
                absolute = self.absolute(module, path)
                target = None if absolute is None else self.defining(absolute)
                if target is not None and target != module:
                    yield module, target

    def circles(self):
        """Circles of imports among the modules of each folder, as lists of modules, with one import per edge."""
        edges = {}
        for source, target in self.imports():
            shared = 0
            while shared < min(len(source), len(target)) and source[shared] == target[shared]:
                shared += 1
            # An import of an ancestor or of a module below does not leave the folder.
            if shared < len(source) and shared < len(target):
                siblings = (source[: shared + 1], target[: shared + 1])
                edges.setdefault(siblings, set()).add((source, target))
        graph = {}
        for one, other in edges:
            graph.setdefault(one, set()).add(other)
        for group in components(graph):
            if len(group) > CIRCLE_MODULES_MAX:
                yield sorted(group), {pair: edges[pair] for pair in edges if pair[0] in group and pair[1] in group}


def flattened(tree):
    """The paths of a `use` tree, each with the name that it gives."""
    tree = re.sub(r"\s+", " ", tree.strip())
    found = re.match(r"^((?:\w+::)*)\{(.*)\}$", tree)
    if not found:
        path, _, alias = tree.partition(" as ")
        names = path.split("::")
        if names[-1] == "self":
            names = names[:-1]
        yield names, alias or (names[-1] if names else "")
        return
    prefix = found.group(1).split("::")[:-1]
    depth, begin, inner = 0, 0, found.group(2)
    parts = []
    for at, letter in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(inner[begin:at])
            begin = at + 1
    parts.append(inner[begin:])
    for part in parts:
        if part.strip():
            for names, name in flattened(part):
                yield (prefix + names, name) if names else (prefix, prefix[-1])


def components(graph):
    """The strongly connected components of a graph (Tarjan 1972), without recursion."""
    index, low, stack, on_stack, result = {}, {}, [], set(), []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph.get(root, ()))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(sorted(graph.get(successor, ())))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = set()
                    while True:
                        member = stack.pop()
                        on_stack.remove(member)
                        group.add(member)
                        if member == node:
                            break
                    result.append(group)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="also print the imports of each circle")
    options = parser.parse_args()
    problems, used = [], set()
    for crate in sorted((ROOT / "crates").iterdir()):
        if not (crate / "src").is_dir():
            continue
        for group, edges in Crate(crate / "src").circles():
            names = ["::".join(module) for module in group]
            known = [f"{crate.name} {name}" for name in names if f"{crate.name} {name}" in KNOWN_CIRCLES]
            used.update(known)
            if not known or options.list:
                problems.append(f"{crate.name}: {len(group)} modules import each other: {', '.join(names)}")
            if options.list:
                for (one, other), imports in sorted(edges.items()):
                    detail = sorted({"::".join(a) + " → " + "::".join(b) for a, b in imports})
                    print(f"  {'::'.join(one)} → {'::'.join(other)}: {'; '.join(detail)}")
        for path in sorted((crate / "src").rglob("*.rs")):
            for name, line, lines in functions(path):
                place = f"{path.relative_to(ROOT)} {name}"
                if place in EXCEPTIONS:
                    used.add(place)
                if lines > FUNCTION_LINES_MAX and place not in EXCEPTIONS and path.name != "tests.rs":
                    problems.append(f"{path.relative_to(ROOT)}:{line}: {name} has {lines} lines")
    problems += [f"no longer needed: {place}" for place in sorted((set(EXCEPTIONS) | set(KNOWN_CIRCLES)) - used)]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems: split the function, move what several modules need into a module below "
                 "them, or name an exception with its reason in tools/source_shape.py")


if __name__ == "__main__":
    main()
