"""Files that are sent: good ones are planned for, hostile ones are refused in a sentence, and none is executed."""

import asyncio
import pickle

import numpy as np

from reshuffle.page import serving, tabs
from reshuffle.page.answers import message
from reshuffle.page.app import safe_name
from reshuffle.page.tabs import LINES
from reshuffle.page.workers import answer
from tests.looped import for_all

DEFAULTS = tabs.OWN_DATA.defaults
rng = np.random.default_rng(3)
X = rng.normal(size=(30, 2)).round(3)
Y = (X @ [2.0, -1.0] + rng.normal(size=30)).round(3)


def table(names=("a", "b", "y"), separator=",", columns=(X[:, 0], X[:, 1], Y)):
    lines = [separator.join(names), *(separator.join(map(str, row)) for row in zip(*columns, strict=True))]
    return "\n".join(lines).encode()


def asked(tmp_path, content, name="mine.csv", **values):
    path = tmp_path / safe_name(name)
    path.write_bytes(content)
    return answer("own_data", 1, DEFAULTS | {"source": "upload"} | values, str(path))


class Bomb:
    """Leaves a trace wherever it is unpickled."""

    def __reduce__(self):
        return (open, ("exploded", "w"))


REFUSED = {
    "pickle": (pickle.dumps(Bomb()), "no text"),
    "latin-1": ("größe,y\n1,2\n3,4\n".encode("latin-1"), "UTF-8"),
    "utf-16": ("a,y\n1,2\n".encode("utf-16"), "no text"),
    "empty": (b"", "is empty"),
    "a huge cell": (b"a,y\n" + b"1" * 200_000 + b",2\n3,4\n5,6\n", "field larger than field limit"),
    "words": (b"a,y\nlow,1\nhigh,2\nlow,4\n", "with the list Columns of categories: a"),
    "a formula": (
        b"a,y\n=cmd|'/c calc'!A0,1\n2,2\n3,5\n",
        "must be a number, but it is \"=cmd|'/c calc'!A0\"",
    ),
    "huge numbers": (b"a,y\n1e300,1\n2,2\n3,5\n", "rescale X"),
    "too many columns": (b",".join(b"c%d" % k for k in range(2000)) + b"\n", "at most 1,000 columns"),
    "too many rows": (b"a,y\n" + b"1,2\n" * 200_000, "at most 100,000 rows"),
}


@for_all("name", REFUSED)
def test_what_cannot_be_learned_from_is_refused_in_a_sentence(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, reason = REFUSED[name]
    found = asked(tmp_path, content)
    assert found.is_refusal
    assert reason in found.sentence
    assert found.sentence.endswith(".")
    for leak in (str(tmp_path), "Traceback", "unexpected", "--"):
        assert leak not in found.sentence
    assert not (tmp_path / "exploded").exists()


@for_all("separator", [",", ";", "\t"])
def test_a_good_table_gets_a_plan_and_offers_its_columns(tmp_path, separator):
    found = asked(tmp_path, table(separator=separator))
    assert not found.is_refusal
    assert found.sentence.startswith("Train with ")
    assert found.offers["target"] == ["a", "b", "y"]
    assert found.chosen == {"target": "y"}
    other = asked(tmp_path, table(separator=separator), target="a", leave_out=("a", "b"))
    assert "target a; left out b" in other.setting


def test_words_become_categories_where_that_is_asked_for(tmp_path):
    cities = np.where(X[:, 0] > 0, "Köln", "Paris")
    content = table(("city", "b", "y"), columns=(cities, X[:, 1], Y))
    assert asked(tmp_path, content).is_refusal
    assert "encoded city (2 categories)" in asked(tmp_path, content, categories=("city",)).setting


def test_a_target_of_words_has_classes(tmp_path):
    kinds = np.where(Y > 0, "spam", "ham")
    found = asked(tmp_path, table(("a", "b", "kind"), columns=(X[:, 0], X[:, 1], kinds)))
    assert found.sentence.startswith("Train with ")
    assert 0.5 < float(found.facts["Accuracy"]) <= 1
    assert "plan = rs.plan(X, y)" in found.programs[LINES]
    assert any("rows of spam, a single run is expected to tell" in remark for remark in found.remarks)
    mixed = asked(tmp_path, table(("a", "b", "kind"), columns=(X[:, 0], X[:, 1], np.where(Y > 0, "1", "no"))))
    assert "reshuffle advise --classes learns classes" in mixed.sentence


def test_names_that_look_like_markup_or_formulas_are_text(tmp_path):
    names = ("<img src=x onerror=alert(1)>", "=cmd()", "<script>y</script>")
    found = asked(tmp_path, table(names))
    html = message(found, tabs.OWN_DATA)["html"]
    assert "<img" not in html
    assert "<script" not in html
    assert "&lt;script&gt;y" in html
    refused = asked(tmp_path, table(names), target="<b>")
    assert "'<b>'" in refused.sentence


def test_data_that_were_not_sent_are_asked_for():
    assert "Send a CSV file first" in answer("own_data", 1, DEFAULTS | {"source": "upload"}, None).sentence


@for_all(
    "name",
    ["../../x.csv", "/etc/passwd", "C:\\x\\y.csv", "a\0b.csv", "", ".", "..", "x" * 999, "-rf.csv", "é.tsv"],
)
def test_a_name_leads_nowhere_but_into_the_folder(tmp_path, name):
    path = tmp_path / safe_name(name)
    assert path.parent == tmp_path
    assert path.suffix == ".csv"
    assert len(path.name) < 80
    path.touch()


def status(method, path, sessions=("abc",), **headers):
    """What the guard answers to a request, the last one of several."""
    reached = []

    async def inside(scope, receive, send):
        reached.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def story():
        application, sent = serving.guarded(inside), []

        async def send(message):
            sent.append(message)

        given = {"host": "127.0.0.1:1", **headers}
        for session in sessions:
            scope = {"type": "http", "method": method, "path": path.format(session),
                     "headers": [(name.encode(), value.encode()) for name, value in given.items()]}  # fmt: skip
            await application(scope, None, send)
        return [message["status"] for message in sent if message["type"] == "http.response.start"][-1]

    return asyncio.run(story())


def test_nothing_is_taken_but_files_of_a_session_of_a_bounded_size_and_number():
    length = {"content-length": "100"}
    assert status("GET", "/") == 200
    assert status("POST", "/session/{}/upload/1", **length) == 200
    assert status("POST", "/session/{}/upload/1") == 411
    assert status("POST", "/session/{}/upload/1", **{"content-length": str(20 << 20)}) == 200
    assert status("POST", "/session/{}/upload/1", **{"content-length": str((20 << 20) + 1)}) == 413
    assert status("POST", "/session/{}/upload/1", ["abc"] * 50, **length) == 200
    assert status("POST", "/session/{}/upload/1", ["abc"] * 51, **length) == 429
    assert status("POST", "/session/{}/upload/1", [*["abc"] * 51, "other"], **length) == 200
    for method, path in (("PUT", "/session/{}/upload/1"), ("POST", "/"), ("POST", "/session/{}/dynamic/1")):
        assert status(method, path, **length) == 404
    assert status("POST", "/session/{}/upload/1", origin="http://evil.example", **length) == 403
