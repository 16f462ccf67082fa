"""`reshuffle explore`: its options, its errors in a line, and its end."""

import signal
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from reshuffle.page.serving import is_from_here
from tests.cli.terminal import run
from tests.looped import for_all
from tests.page import chromium


def fetched(address, **headers):
    """Status and body of an address of ours, past any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(address, headers=headers), timeout=60) as response:
            return response.status, response.read().decode(), dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), {}


@pytest.mark.slow
def test_it_tells_its_address_serves_this_machine_alone_and_ends_quietly():
    with chromium.serving("--port", "0") as (process, address):
        status, page, headers = fetched(address)
        assert status == 200
        assert "<title>reshuffle: explore</title>" in page
        assert "default-src 'none'" in headers["content-security-policy"]
        # Whatever the page loads comes from its own server.
        loaded = [part.partition('"')[0] for key in ('src="', 'href="') for part in page.split(key)[1:]]
        assert loaded
        for one in loaded:
            assert not one.startswith(("http:", "https:", "//"))
            if one.endswith((".js", ".css")) and "reshuffle" in one:
                assert "http" not in fetched(address + one)[1].replace("http://www.w3.org/2000/svg", "")
        # The server computes nothing: its start does not wait for scipy.
        if (maps := Path(f"/proc/{process.pid}/maps")).exists():
            assert "scipy" not in maps.read_text()
        assert fetched(address, Host="evil.example")[0] == 403
        assert fetched(address, Origin="http://evil.example")[0] == 403
        if sys.platform != "win32":
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert process.stderr.read() == ""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGHUP")
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM"])
def test_the_end_of_the_terminal_leaves_nothing_behind(tmp_path, monkeypatch, name):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with chromium.serving() as (process, _):
        assert list(tmp_path.iterdir())
        process.send_signal(getattr(signal, name))
        assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = run(capsys, "explore", "--no-browser", "--port", str(port))
    assert outcome.code == 2
    assert outcome.err == (
        f"reshuffle: --port {port} is in use by another program; give another, or 0 for any that is free.\n"
    )


def test_without_the_extra_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("reshuffle.cli.launch.find_spec", lambda name: None)
    outcome = run(capsys, "explore", "--no-browser")
    assert outcome.code == 2
    assert "pip install 'reshuffle[page]'" in outcome.err
    assert outcome.err.count("\n") == 1


@for_all(
    "headers, allowed",
    [
        ({b"host": b"127.0.0.1:1", b"origin": b"http://127.0.0.1:1"}, True),
        ({b"host": b"localhost"}, True),
        ({}, False),
        ({b"host": b"127.0.0.1.evil.example"}, False),
        ({b"host": b"127.0.0.1:1", b"origin": b"http://127.0.0.1:2"}, False),
        ({b"host": b"127.0.0.1:1", b"origin": b"null"}, False),
    ],
)
def test_pages_from_elsewhere_are_not_listened_to(headers, allowed):
    assert is_from_here(headers) is allowed
