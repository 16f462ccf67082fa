"""Compute the figures that a folder lacks, and write one page of all that it has, which needs no network."""

import base64
import os
import platform
import time
from collections.abc import Iterator, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

import reshuffle
from reshuffle import paper
from reshuffle._linalg import one_thread
from reshuffle.paper.figure import Claim, Record, read, replace
from reshuffle.paper.figure import write as write_record

FILE = "report.html"

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem; border-bottom: 1px solid #ddd; }
td { overflow-wrap: anywhere; }
table.claims { table-layout: fixed; }
td.verdict { white-space: nowrap; font-weight: 600; }
.yes { color: #00684a; } .no { color: #a34700; } .open { color: #a00000; }
.small { color: #555; font-size: 0.9rem; } code { background: #f3f3f3; padding: 0 0.2rem; }
"""


def reproduce(names: Sequence[str], folder: Path, quick: bool) -> Iterator[tuple[str, Record | None, bool]]:
    """Yield (name, None, False) before a figure is computed and (name, record, reused) when it is there.

    Finished figures stay as they are; whatever interrupts this, the next call goes on with the missing ones.
    The report is written anew after each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        figure = paper.load(name)
        inputs = figure.inputs(quick)
        found = read(folder, name, inputs)
        if found is None:
            yield name, None, False
            begin = time.perf_counter()
            # Many runs are spread over the cores. The few large matrices gain little by it, and wait for each other
            # on a machine that has other things to do.
            with one_thread():
                numbers = figure.compute(**inputs)
            seconds = time.perf_counter() - begin
            yield name, write_record(folder, name, figure, inputs, numbers, seconds), False
        else:
            yield name, found, True
        write(folder, finished(folder, quick), quick)


def finished(folder: Path, quick: bool) -> list[Record]:
    """The complete figures in a folder, in the order of the report."""
    found = (read(folder, name, paper.load(name).inputs(quick)) for name in paper.NAMES)
    return [one for one in found if one is not None]


def write(folder: Path, records: Sequence[Record], quick: bool) -> Path:
    """Write the page for the figures that are finished."""
    path = folder / FILE
    replace(path, page(folder, records, quick).encode())
    return path


def page(folder: Path, records: Sequence[Record], quick: bool) -> str:
    """The page as text."""
    pictures = [_figure(folder, record) for record in records]
    parts = [_head(records, quick), *pictures, _claims(records), _corrections(records), _origins(records)]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper, reproduced</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _head(records: Sequence[Record], quick: bool) -> str:
    claims = [claim for record in records for claim in record.claims]
    agree = sum(claim.agrees for claim in claims)
    slips = sum(not claim.agrees and bool(claim.correction) for claim in claims)
    missing = [name for name in paper.NAMES if name not in {record.name for record in records}]
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


def _claims(records: Sequence[Record]) -> str:
    rows = [_claim_row(claim, record) for record in records for claim in record.claims]
    return (
        '<h2 id="claims">Claims</h2>\n<table class="claims"><thead><tr><th style="width: 19%">place</th>'
        '<th style="width: 31%">claim in the paper</th><th style="width: 42%">what we computed</th>'
        "<th>agrees?</th></tr></thead>\n<tbody>" + "\n".join(rows) + "</tbody></table>"
    )


def _claim_row(claim: Claim, record: Record) -> str:
    return (
        f'<tr><td><a href="#{record.name}">{escape(claim.place)}</a></td><td>{escape(claim.statement)}</td>'
        f"<td>{escape(claim.computed)}</td>{_verdict(claim)}</tr>"
    )


def _verdict(claim: Claim) -> str:
    if claim.agrees:
        return '<td class="verdict yes">yes</td>'
    return f'<td class="verdict {"no" if claim.correction else "open"}">no</td>'


def _corrections(records: Sequence[Record]) -> str:
    rows = [
        f"<tr><td>{escape(claim.place)}</td><td>{escape(claim.statement)}</td><td>{escape(claim.correction)}</td></tr>"
        for record in records
        for claim in record.claims
        if claim.correction and not claim.agrees
    ]
    return (
        '<h2 id="corrections">Corrections</h2>\n<p>Each is demonstrated by numbers in the table above.</p>\n'
        "<table><thead><tr><th>place</th><th>as printed</th><th>correct</th></tr></thead>\n<tbody>"
        + "\n".join(rows)
        + "</tbody></table>"
    )


def _figure(folder: Path, record: Record) -> str:
    data = base64.b64encode((folder / f"{record.slug}.svg").read_bytes()).decode("ascii")
    inputs = ", ".join(f"{name} = {value}" for name, value in record.inputs.items())
    links = ", ".join(f'<a href="{record.slug}.{kind}">{kind}</a>' for kind in ("png", "svg", "csv"))
    return (
        f'<h2 id="{record.name}">{escape(record.title)}</h2>\n'
        f'<img alt="{escape(record.title)}" src="data:image/svg+xml;base64,{data}">\n'
        f"<p>{escape(record.caption)}</p>\n"
        f'<p class="small">{escape(inputs)}; {record.seconds:.1f} s. Files beside this page: {links}.</p>'
    )


def _origins(records: Sequence[Record]) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "matplotlib"))
    total = sum(record.seconds for record in records)
    rows = "\n".join(
        f"<tr><td>{escape(record.name)}</td><td>{record.inputs['seed']}</td><td>{record.seconds:.1f} s</td></tr>"
        for record in records
    )
    return (
        "<h2>Seeds, versions, times</h2>\n"
        f'<p class="small">reshuffle {reshuffle.__version__}, Python {platform.python_version()}, {packages}, '
        f"{os.cpu_count()} cores, {escape(platform.system())} {escape(platform.machine())}; "
        f"{total:.0f} s in all.</p>\n"
        f"<table><thead><tr><th>figure</th><th>seed</th><th>time</th></tr></thead>\n<tbody>{rows}</tbody></table>"
    )
