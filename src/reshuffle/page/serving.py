"""A server of the page on this machine, from the first request to Ctrl-C or the end of the terminal."""

import asyncio
import contextlib
import errno
import signal
import socket
import tempfile
import webbrowser
from typing import Any

from reshuffle.cli.console import InputError

HOST = "127.0.0.1"


def serve(port: int, *, opens_browser: bool) -> None:
    """Serve until interrupted; the address is printed as soon as it answers. Port 0 takes any that is free."""
    with contextlib.closing(_listening(port)) as listener, tempfile.TemporaryDirectory() as folder:
        # Shiny keeps files in folders of its own, which a session that is cut off would leave behind.
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            _run(listener, opens_browser)
        finally:
            tempfile.tempdir = before


def _listening(port: int) -> socket.socket:
    """Return a socket on this machine alone."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(128)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"--port {port} is in use by another program; give another, or 0 for any that is free."
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise InputError(
                f"--port {port} needs rights that you do not have; give one above 1023."
            ) from None
        raise
    return made


def _run(listener: socket.socket, opens_browser: bool) -> None:
    import uvicorn

    from reshuffle.page.app import application
    from reshuffle.page.guard import guarded
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
