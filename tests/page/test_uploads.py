"""Files that are sent: good ones are planned for, hostile ones are refused in a sentence, and none is executed."""

import asyncio
import pickle

import numpy as np
import pytest

from reshuffle.cli.console import InputError
from reshuffle.page import uploads
from reshuffle.page.page_elements import body, comma_separated
from reshuffle.page.tab import Refused, Shown
from reshuffle.page.tabs import own_data
from reshuffle.page.worker import answer

DEFAULTS = {field.name: field.default for field in own_data.TAB.fields}
rng = np.random.default_rng(3)
X = rng.normal(size=(30, 2)).round(3)
Y = (X @ [2.0, -1.0] + rng.normal(size=30)).round(3)


def table(names=("a", "b", "y"), separator=",", columns=(X[:, 0], X[:, 1], Y)):
    lines = [separator.join(names), *(separator.join(map(str, row)) for row in zip(*columns, strict=True))]
    return "\n".join(lines).encode()


def asked(tmp_path, content, name="mine.csv", **values):
    path = tmp_path / uploads.safe_name(name)
    path.write_bytes(content)
    return answer("own_data", "thorough", DEFAULTS | {"source": "upload"} | values, str(path))


class Bomb:
    """Leaves a trace wherever it is unpickled."""

    def __reduce__(self):
        return (open, ("exploded", "w"))


REFUSED = {
    "binary": (bytes(range(256)) * 40, "no text"),
    "pickle": (pickle.dumps(Bomb()), "no text"),
    "latin-1": ("größe,y\n1,2\n3,4\n".encode("latin-1"), "UTF-8"),
    "utf-16": ("a,y\n1,2\n".encode("utf-16"), "no text"),
    "empty": (b"", "is empty"),
    "blank": (b"\n\n  \n", "is empty"),
    "a header alone": (b"a,y\n", "has a header but no rows"),
    "no header": (b"1,2\n3,4\n5,6\n", "must name its columns"),
    "ragged": (b"a,y\n1,2\n3\n4,5\n", "line 3 has 1 cells"),
    "one column": (b"y\n1\n2\n3\n", "one alone"),
    "two rows": (b"a,y\n1,2\n2,5\n", "at least 3 rows"),
    "a constant target": (b"a,y\n1,7\n2,7\n3,7\n", "nothing to be learned"),
    "constant columns": (b"a,y\n7,1\n7,2\n7,3\n", "not constant"),
    "a huge cell": (b"a,y\n" + b"1" * 200_000 + b",2\n3,4\n5,6\n", "field larger than field limit"),
    "words": (b"a,y\nlow,1\nhigh,2\nlow,4\n", "tick it under Columns of categories"),
    "a formula": (
        b"a,y\n=cmd|'/c calc'!A0,1\n2,2\n3,5\n",
        "must be a number, but it is \"=cmd|'/c calc'!A0\"",
    ),
    "gaps": (b"a,y\n,1\n2,2\n3,5\n", "missing value"),
    "infinities": (b"a,y\ninf,1\n2,2\n3,5\n", "finite number"),
    "huge numbers": (b"a,y\n1e300,1\n2,2\n3,5\n", "other units"),
    "names twice": (b"a,a,y\n1,2,3\n2,2,4\n3,1,7\n", "share one"),
    "too many columns": (b",".join(b"c%d" % k for k in range(2000)) + b"\n", "at most 1,000 columns"),
    "too many rows": (b"a,y\n" + b"1,2\n" * 200_000, "at most 100,000 rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learned_from_is_refused_in_a_sentence(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, reason = REFUSED[name]
    found = asked(tmp_path, content)
    assert isinstance(found, Refused)
    assert reason in found.sentence
    assert found.sentence.endswith(".")
    for leak in (str(tmp_path), "Traceback", "unexpected", "--"):
        assert leak not in found.sentence
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_good_table_gets_a_plan_and_offers_its_columns(tmp_path, separator):
    found = asked(tmp_path, table(separator=separator))
    assert isinstance(found, Shown)
    assert found.sentence.startswith("Train with ")
    assert found.offers["target"] == ["a", "b", "y"]
    assert found.chosen == {"target": "y"}
    other = asked(tmp_path, table(separator=separator), target="a", leave_out=("a", "b"))
    assert "target a; left out b" in other.setting


def test_words_become_categories_where_that_is_asked_for(tmp_path):
    cities = np.where(X[:, 0] > 0, "Köln", "Paris")
    content = table(("city", "b", "y"), columns=(cities, X[:, 1], Y))
    assert isinstance(asked(tmp_path, content), Refused)
    assert "encoded city (2 categories)" in asked(tmp_path, content, categories=("city",)).setting


def test_names_that_look_like_markup_or_formulas_are_text(tmp_path):
    names = ("<img src=x onerror=alert(1)>", "=cmd()", "<script>y</script>")
    found = asked(tmp_path, table(names))
    html = body(found, "data")
    assert "<img" not in html
    assert "<script" not in html
    assert "&lt;script&gt;y" in html
    for picture in found.pictures:
        assert "<script>y" not in picture.svg
        assert not any(line.startswith(("=", "+", "@")) for line in comma_separated(picture).splitlines())
    refused = asked(tmp_path, table(names), target="<b>")
    assert "'<b>'" in refused.sentence


def test_data_that_were_not_sent_are_asked_for():
    assert (
        "Send a CSV file first"
        in answer("own_data", "thorough", DEFAULTS | {"source": "upload"}, None).sentence
    )


def kept(parts, folder, name="mine.csv"):
    async def stream():
        for part in parts:
            yield part

    return asyncio.run(uploads.keep(stream(), folder, name))


def test_what_is_sent_is_kept_as_it_is(tmp_path):
    assert kept([b"a,y\n", b"1,2\n"], tmp_path).read_bytes() == b"a,y\n1,2\n"


def test_what_is_too_large_is_refused_before_all_of_it_is_here(tmp_path):
    taken = []

    def parts():
        for number in range(100):
            taken.append(number)
            yield bytes(1 << 20)

    with pytest.raises(InputError, match="at most 20 MB"):
        kept(parts(), tmp_path)
    assert len(taken) == 21
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["../../x.csv", "/etc/passwd", "C:\\x\\y.csv", "a\0b.csv", "", ".", "..", "x" * 999, "-rf.csv", "é.tsv"],
)
def test_a_name_leads_nowhere_but_into_the_folder(tmp_path, name):
    path = kept([b"a"], tmp_path, name)
    assert path.parent == tmp_path
    assert path.exists()
    assert path.suffix == ".csv"
    assert len(path.name) < 80


def test_nothing_is_taken_but_at_an_address_of_ours():
    from starlette.responses import PlainTextResponse

    from reshuffle.page.guard import Letterbox

    async def story(method, path, chunks):
        letterbox = Letterbox()

        async def keep(request):
            found = b"".join([part async for part in request.stream()])
            if found == b"bad":
                raise InputError("It is bad.")
            return found.decode()

        slot = letterbox.open(keep)
        sent, parts = [], list(chunks)

        async def receive():
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message):
            sent.append(message)

        path = path.replace("SLOT", slot)
        scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"",
                 "server": ("127.0.0.1", 1), "scheme": "http", "root_path": ""}  # fmt: skip
        await letterbox.before(PlainTextResponse("the page"))(scope, receive, send)
        letterbox.close(slot)
        await letterbox.before(PlainTextResponse("the page"))(scope | {"method": "POST"}, receive, send)
        return sent[0]["status"], sent[1]["body"], sent[2]["status"]

    def told(*arguments):
        return asyncio.run(story(*arguments))

    assert told("POST", "/SLOT", [b"a", b"b"]) == (200, b'{"name":"ab"}', 404)
    assert told("POST", "/SLOT", [b"bad"]) == (200, b'{"refused":"It is bad."}', 404)
    assert told("POST", "/session/x/upload/1", [b"a"])[0] == 404
    assert told("PUT", "/SLOT", [b"a"])[0] == 404
    assert told("GET", "/", [b""])[1] == b"the page"
