"""A server of the page on this machine, from the first request to Ctrl-C."""

import contextlib
import errno
import socket
import webbrowser
from typing import Any

from reshuffle.cli.console import InputError

HOST = "127.0.0.1"


def listening(port: int) -> socket.socket:
    """A socket on this machine alone; port 0 takes any that is free."""
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


def serve(port: int, *, opens_browser: bool) -> None:
    """Serve until interrupted; the address is printed as soon as it answers."""
    listener = listening(port)
    try:
        _run(listener, opens_browser)
    finally:
        listener.close()


def _run(listener: socket.socket, opens_browser: bool) -> None:
    import uvicorn

    from reshuffle.page.application import application
    from reshuffle.page.guard import guarded
    from reshuffle.page.workshop import Workshop

    address = f"http://{HOST}:{listener.getsockname()[1]}/"
    workshop = Workshop()
    app: Any = guarded(application(workshop))

    class Server(uvicorn.Server):
        """Tells when it is ready, and takes the workshop with it."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await workshop.start()
            await super().startup(sockets)
            if self.started:
                print(f"The page is at {address} (Ctrl-C ends it).", flush=True)
                if opens_browser:
                    webbrowser.open(address)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await workshop.stop()
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app, log_level="critical", access_log=False, timeout_graceful_shutdown=1, ws_max_size=1 << 20
    )
    with contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listener])
