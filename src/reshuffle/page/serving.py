"""A server of the page on this machine: checks before a request reaches Shiny, and a life from start to Ctrl-C."""

import asyncio
import contextlib
import errno
import signal
import socket
import tempfile
import webbrowser
from collections import Counter
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reshuffle.errors import ArgumentError
from reshuffle.page.inputs import LARGEST_FILE

HOST = "127.0.0.1"
MOST_FILES = 50
"""Files that one session may send; each replaces the one before it."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self' ws://127.0.0.1:* ws://localhost:*; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


def guarded(inside: ASGIApp) -> ASGIApp:
    """Return the application, for those alone who asked for it under a name of this machine.

    A page from elsewhere, open in the same browser, must not talk to this one, nor look like it by a name of its
    own that leads here. Of all requests that send something, only files of a session are let through: Shiny itself
    takes files of any size and number.
    """
    sent: Counter[str] = Counter()

    async def outside(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await inside(scope, receive, send)
            return
        headers = dict(scope["headers"])
        status, reason = 200, ""
        if not is_from_here(headers):
            status, reason = 403, "This page is for this machine alone."
        elif scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            status, reason = _file_status(scope["method"], scope["path"], headers, sent)
        if status != 200:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await PlainTextResponse(reason, status)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await inside(scope, receive, with_headers)

    return outside


def is_from_here(headers: dict[bytes, bytes]) -> bool:
    """Return whether host and origin are this machine.

    >>> is_from_here({b"host": b"127.0.0.1:8000"}), is_from_here({b"host": b"evil.example"})
    (True, False)
    >>> is_from_here({b"host": b"localhost:8000", b"origin": b"http://evil.example"})
    False
    """
    host = headers.get(b"host", b"")
    is_here = host.partition(b":")[0] in (b"127.0.0.1", b"localhost")
    return is_here and headers.get(b"origin", b"http://" + host) == b"http://" + host


def _file_status(
    method: str, path: str, headers: dict[bytes, bytes], sent: "Counter[str]"
) -> tuple[int, str]:
    """Return 200 for a file that may be sent, else the status and the reason; files are counted in `sent`."""
    match method, path.strip("/").split("/"):
        case "POST", ["session", session, "upload", _]:
            # The server reads no more than this many bytes of a request that states its length.
            length = headers.get(b"content-length", b"")
            if not length.isdigit():
                return 411, "A file must come with its length."
            if int(length) > LARGEST_FILE:
                return 413, f"A file must have at most {LARGEST_FILE >> 20} MB."
            sent[session] += 1
            if sent[session] > MOST_FILES:
                return 429, f"One session takes at most {MOST_FILES} files; reload the page."
            return 200, ""
    return 404, "There is nothing to send anything to."


def serve(port: int, *, opens_browser: bool) -> None:
    """Serve until interrupted; the address is printed as soon as it answers. Port 0 takes any that is free."""
    with contextlib.closing(_listening(port)) as listener, tempfile.TemporaryDirectory() as folder:
        # Shiny stores files in folders that a session that is cut off would leave behind.
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            _run(listener, opens_browser)
        finally:
            tempfile.tempdir = before


def _listening(port: int) -> socket.socket:
    """Return a socket on this machine alone."""
    try:
        return socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = "give another, or 0 for any that is free"
            raise ArgumentError(f"{{port}} {port}", "", "is in use by another program", hint) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            given = "needs rights that you do not have"
            raise ArgumentError(f"{{port}} {port}", "", given, "give one above 1023") from None
        raise


def _run(listener: socket.socket, opens_browser: bool) -> None:
    import uvicorn

    from reshuffle.page.app import application
    from reshuffle.page.workers import Pool

    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    pools = quick, thorough = Pool(2, 20.0), Pool(3)
    app: Any = guarded(application(quick, thorough))

    class Server(uvicorn.Server):
        """A server that prints when it is ready, and ends its workers with itself."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            for pool in pools:
                await pool.start()
            for name in ("SIGHUP", "SIGTERM"):
                # uvicorn would raise SIGTERM again after the shutdown, and the folder of files would stay.
                with contextlib.suppress(NotImplementedError, AttributeError):
                    asyncio.get_running_loop().add_signal_handler(getattr(signal, name), self._end)
            await super().startup(sockets)
            if self.started:
                print(f"The page is at {address} (Ctrl-C ends it).", flush=True)
                if opens_browser:
                    webbrowser.open(address)

        def _end(self) -> None:
            self.should_exit = True

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for pool in pools:
                await pool.stop()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app, log_level="critical", access_log=False, timeout_graceful_shutdown=1, ws_max_size=1 << 20
    )
    with contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listener])
