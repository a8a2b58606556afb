"""Checks the links and page lengths of the built book and writes llms.txt and llms-full.txt into it.

usage: book.py [--generate] FOLDER

Run from the root of the repository. FOLDER is where mdBook wrote its pages. docs/llms.txt must be the generated list;
--generate rewrites it.
"""

import html.parser
import os
import pathlib
import re
import sys
import urllib.parse

DOCS = pathlib.Path("docs")
INDEX = DOCS / "llms.txt"
# The number of words a page may have, without code blocks and tables. A page that mostly consists of tables is not too
# short.
WORDS = range(300, 1201)
# Pages that are longer, with the reason.
LONGER = {
    "reference/alerts.md": "one entry per alert, with what to do",
    "internals/test-runs.md": "one entry per test run",
}
# mdBook adds these pages: all chapters on one page for printing, and a copy of the first chapter.
GENERATED = {"print.html", "index.html", "404.html", "toc.html"}


def main():
    arguments = sys.argv[1:]
    generate = "--generate" in arguments
    folder = pathlib.Path([argument for argument in arguments if argument != "--generate"][0])
    chapters = read_summary((DOCS / "SUMMARY.md").read_text(encoding="utf-8"))
    index = write_index(chapters)
    if generate:
        INDEX.write_text(index, encoding="utf-8")
    elif not INDEX.exists() or INDEX.read_text(encoding="utf-8") != index:
        sys.exit(f"{INDEX} is not the generated one: run scripts/book --generate")
    (folder / "llms.txt").write_text(index, encoding="utf-8")
    (folder / "llms-full.txt").write_text(write_all(chapters), encoding="utf-8")
    broken = check_links(folder) + check_lengths(chapters)
    if broken:
        sys.exit("\n".join(broken))
    print(f"{len(chapters)} chapters, all links lead to a page, all pages have a good length")


def read_summary(text):
    """Returns (part, title, file) for each chapter, in order."""
    chapters, part, seen = [], "", set()
    for line in text.splitlines():
        if heading := re.match(r"# (.*)", line):
            part = heading[1]
        elif link := re.match(r"\s*(?:- )?\[(.*)\]\((.*)\)$", line):
            if link[2] not in seen:
                seen.add(link[2])
                chapters.append((part, link[1], link[2]))
    return chapters


def write_index(chapters):
    """The list that https://llmstxt.org describes: a title, a summary, and a line for each page."""
    lines, before = ["# Leasehold", "", f"> {summary()}"], None
    for part, title, file in chapters:
        if part != before:
            lines += ["", f"## {part}", ""]
            before = part
        lines.append(f"- [{title}]({file}): {first_sentence(file)}".rstrip(": "))
    return "\n".join(lines) + "\n"


def summary():
    config = pathlib.Path("book.toml").read_text(encoding="utf-8")
    return re.search(r'^description = "(.*)"$', config, re.M)[1]


def first_sentence(file):
    """Returns the first sentence of a page, without markup."""
    text = (DOCS / file).read_text(encoding="utf-8")
    text = re.sub(r"<!--.*?-->|^```.*?^```$", "", text, flags=re.S | re.M)
    for paragraph in re.split(r"\n\s*\n", text):
        plain = paragraph.strip()
        # A paragraph of a decision can begin with a bold label.
        plain = re.sub(r"^\*\*[^*]*\.\*\*\s*(?:- )?", "", plain)
        if plain and not re.match(r"[#|>!]|[-*] |\d+\.|Status:", plain):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
            plain = re.sub(r"[*`]", "", " ".join(plain.split()))
            return re.split(r"(?<=[.?!]) ", plain)[0].rstrip(":")
    return ""


def write_all(chapters):
    pages = []
    for _, _, file in chapters:
        text = (DOCS / file).read_text(encoding="utf-8").strip()
        pages.append(f"<!-- {file} -->\n\n{text}\n")
    return "\n".join(pages)


def check_lengths(chapters):
    """Returns a line for each page that is too short or too long. Decisions are not pages of the manual."""
    wrong = []
    for _, _, file in chapters:
        text = (DOCS / file).read_text(encoding="utf-8")
        prose = re.sub(r"<!--.*?-->|^```.*?^```$|^\|.*?$", "", text, flags=re.S | re.M)
        if file.startswith("adr/"):
            continue
        if len(text.split()) < WORDS.start:
            wrong.append(f"{DOCS / file}: fewer than {WORDS.start} words")
        if (len(prose.split()) >= WORDS.stop) != (file in LONGER):
            wrong.append(f"{DOCS / file}: {len(prose.split())} words without code and tables; at most {WORDS.stop - 1}")
    return wrong


class Page(html.parser.HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        if tag == "img" and attributes.get("src"):
            self.links.append(attributes["src"])


def check_links(folder):
    """Returns a line for each link that leads to no page, or to no heading of its page."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    broken = []
    for path, page in sorted(pages.items()):
        if path.name in GENERATED:
            continue
        for link in page.links:
            target = urllib.parse.urlsplit(link)
            if target.scheme or target.netloc:
                continue
            there = path.parent / urllib.parse.unquote(target.path) if target.path else path
            there = pathlib.Path(os.path.normpath(there))
            if not there.is_relative_to(folder):
                # A link out of the book leads to a file of the repository.
                inside = pathlib.Path(os.path.relpath(there, folder))
                outside = pathlib.Path(os.path.normpath(DOCS / inside))
                if not outside.exists() and not outside.with_suffix(".md").exists():
                    broken.append(f"{path}: {link} leads to no file")
            elif not there.exists():
                broken.append(f"{path}: {link} leads to no page")
            elif target.fragment and there in pages and urllib.parse.unquote(target.fragment) not in pages[there].ids:
                broken.append(f"{path}: {link} leads to no heading")
    return broken


main()
