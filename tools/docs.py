"""Builds the documentation as a site, with mdBook: `make docs`.

    python3 tools/docs.py --mdbook PROGRAM --output FOLDER

The pages of the site are the README, ARCHITECTURE.md, CONTRIBUTING.md and CHANGELOG.md and all pages below `docs`, in the order of
`docs/SUMMARY.md`. They are copied to a folder of their own first, because mdBook would publish everything else in the tree as well. Other
files that pages link to are copied with them. The built site is checked: every link leads to a page, an anchor or a file of the site, and
nothing is loaded from elsewhere.
"""

import argparse
import html.parser
import posixpath
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = "docs/SUMMARY.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mdbook", required=True, help="the program mdbook")
    parser.add_argument("--output", type=Path, required=True, help="the folder for the site, which is replaced")
    options = parser.parse_args()
    output = options.output.resolve()
    source = output.with_name(output.name + "-source")
    copy_pages(source)
    shutil.rmtree(output, ignore_errors=True)
    if subprocess.run([options.mdbook, "build", "--dest-dir", output, source]).returncode != 0:
        sys.exit("error: mdbook failed")
    problems = site_problems(output)
    if problems:
        sys.exit("\n".join(problems) + f"\nerror: {len(problems)} links of the site lead nowhere")
    print(f"the documentation is in {output / 'index.html'}")


def pages() -> list[str]:
    """The pages of the site, as paths from the root of the tree, in the order of the summary."""
    return [target for target in links(SUMMARY) if target.endswith(".md")]


def links(page: str) -> list[str]:
    """The files of the tree that a page links to, as paths from the root of the tree."""
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target.split("#")[0] for target in LINK.findall(text) if "://" not in target]
    return [posixpath.normpath(posixpath.join(posixpath.dirname(page), target)) for target in targets if target]


def copy_pages(folder: Path) -> None:
    """Copies the pages and the files that they link to, in the same folders as in the tree, so that links stay as they are."""
    shutil.rmtree(folder, ignore_errors=True)
    found = pages()
    linked = {target for page in found for target in links(page)} - set(found)
    for name in [*found, *sorted(name for name in linked if (ROOT / name).is_file())]:
        target = folder / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    for page in found:
        adapt_links(folder / "src" / page, page)
    summary = (ROOT / SUMMARY).read_text(encoding="utf-8")
    from_root = LINK.sub(lambda found: f"]({posixpath.normpath(posixpath.join('docs', found[1]))})", summary)
    (folder / "src/SUMMARY.md").write_text(from_root, encoding="utf-8")
    shutil.copyfile(ROOT / "docs/book.toml", folder / "book.toml")


def adapt_links(copy: Path, page: str) -> None:
    """Adapts the links of a page to the site: mdBook calls each README `index`, and folders and files of text that are no pages become
    plain text."""
    known = set(pages())

    def replaced(found: re.Match) -> str:
        label, target = found[1], found[2]
        name, hash_mark, anchor = target.partition("#")
        if "://" in target or not name:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), name))
        if (ROOT / path).is_dir():
            name, path = name.rstrip("/") + "/README.md", f"{path}/README.md"
        if path.endswith(".md") and path not in known:
            return label
        return f"[{label}]({re.sub(r'README[.]md$', 'index.md', name)}{hash_mark}{anchor})"

    text = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", replaced, copy.read_text(encoding="utf-8"))
    copy.write_text(text, encoding="utf-8")


class Page(html.parser.HTMLParser):
    """The anchors and links of a page, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        values = dict(attributes)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        self.loaded += [values[name] for name in ("src", "href") if tag != "a" and values.get(name)]


def site_problems(site: Path) -> list[str]:
    """Links that lead nowhere, and files that are loaded from other hosts."""
    found = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    problems = []
    for file, page in found.items():
        name = file.relative_to(site)
        problems += [f"{name} loads {target}" for target in page.loaded if "//" in target]
        problems += [f"{name}: {target}" for target in page.links if not is_there(file, target, found)]
    return problems


def is_there(file: Path, target: str, found: dict[Path, Page]) -> bool:
    """Whether a link of a page leads somewhere. Links to other hosts are not followed."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    path = (file.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else file
    anchor = urllib.parse.unquote(parts.fragment)
    return path.is_file() and (not anchor or path not in found or anchor in found[path].anchors)


if __name__ == "__main__":
    main()
