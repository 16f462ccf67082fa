"""One page of all figures that a folder has, which needs no network."""

import base64
import os
import platform
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

import paper
import reshuffle as rs
from paper.figure import KINDS, Record, replace

FILE = "report.html"

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; }
#claims + table { table-layout: fixed; } #claims + table th:nth-child(1) { width: 19%; }
#claims + table th:nth-child(2) { width: 31%; } #claims + table th:nth-child(3) { width: 42%; }
.verdict { white-space: nowrap; font-weight: 600; }
.yes { color: #00684a; } .no { color: #a34700; } .open { color: #a00000; }
.small { color: #555; font-size: 0.9rem; } code { background: #f3f3f3; padding: 0 0.2rem; }
"""


def write(folder: Path, records: Sequence[Record], quick: bool) -> None:
    """Write the page for the figures that are finished."""
    figures = [_figure(folder, record) for record in records]
    body = "\n".join(
        [_head(records, quick), *figures, _claims(records), _corrections(records), _origins(records)]
    )
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper, reproduced</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
    replace(folder / FILE, page.encode())


def _head(records: Sequence[Record], quick: bool) -> str:
    claims = [claim for record in records for claim in record.claims]
    agree = sum(claim.agrees for claim in claims)
    slips = sum(not claim.agrees and bool(claim.correction) for claim in claims)
    missing = [name for name in paper.FIGURES if name not in {record.name for record in records}]
    lines = [
        "<h1>Error dynamics of mini-batch gradient descent with random reshuffling: reproduced</h1>",
        "<p>Every figure of the paper by Lok, Sonthalia and Rebrova, and what it says in words, computed exactly "
        "and simulated. "
        f"Of {len(claims)} claims {agree} agree with what was computed, {slips} need a correction, and "
        f'{len(claims) - agree - slips} disagree without one: see the <a href="#claims">claims</a> and the '
        '<a href="#corrections">corrections</a> below the pictures.</p>',
    ]
    if quick:
        lines.append(
            "<p><strong>This is a quick run</strong>: smaller sizes, fewer epochs, fewer runs than in the paper. "
            "<code>reshuffle reproduce</code> without <code>--quick</code> uses the paper's own.</p>"
        )
    if missing:
        lines.append(f"<p><strong>Not computed yet:</strong> {escape(', '.join(missing))}.</p>")
    return "\n".join(lines)


def _figure(folder: Path, record: Record) -> str:
    data = base64.b64encode((folder / f"{record.slug}.svg").read_bytes()).decode("ascii")
    inputs = ", ".join(f"{name} = {value}" for name, value in record.inputs.items())
    links = ", ".join(f'<a href="{record.slug}.{kind}">{kind}</a>' for kind in KINDS)
    return (
        f'<h2 id="{record.name}">{escape(record.title)}</h2>\n'
        f'<img alt="{escape(record.title)}" src="data:image/svg+xml;base64,{data}">\n'
        f"<p>{escape(record.caption)}</p>\n"
        f'<p class="small">{escape(inputs)}; {record.seconds:.1f} s. Files beside this page: {links}.</p>'
    )


def _claims(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        for claim in record.claims:
            word = "yes" if claim.agrees else "no"
            kind = word if claim.agrees or claim.correction else "open"
            place = f'<a href="#{record.name}">{escape(claim.place)}</a>'
            verdict = f'<span class="verdict {kind}">{word}</span>'
            rows.append((place, escape(claim.statement), escape(claim.computed), verdict))
    heads = ("place", "claim in the paper", "what we computed", "agrees?")
    return '<h2 id="claims">Claims</h2>\n' + _table(heads, rows)


def _corrections(records: Sequence[Record]) -> str:
    claims = [claim for record in records for claim in record.claims if claim.correction and not claim.agrees]
    rows = [map(escape, (claim.place, claim.statement, claim.correction)) for claim in claims]
    lead = (
        '<h2 id="corrections">Corrections</h2>\n<p>Each is demonstrated by numbers in the table above.</p>\n'
    )
    return lead + _table(("place", "as printed", "correct"), rows)


def _origins(records: Sequence[Record]) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "matplotlib"))
    lead = (
        "<h2>Seeds, versions, times</h2>\n"
        f'<p class="small">reshuffle {rs.__version__}, Python {platform.python_version()}, {packages}, '
        f"{os.cpu_count()} cores, {escape(platform.system())} {escape(platform.machine())}; "
        f"{sum(record.seconds for record in records):.0f} s in all.</p>\n"
    )
    rows = [(escape(one.name), str(one.inputs["seed"]), f"{one.seconds:.1f} s") for one in records]
    return lead + _table(("figure", "seed", "time"), rows)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{one}</th>" for one in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
