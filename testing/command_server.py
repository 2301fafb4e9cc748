"""The command line in forks of one process that has imported it: the imports of a process take some seconds.

The server reads one line of JSON with the arguments, the folder and the environment of a caller, whose input and
outputs come beside it; the client ends with the exit code that comes back.
"""

import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["served"]

CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    asked = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked)
    sys.exit(int(server.recv(16)))
"""


@contextlib.contextmanager
def served(folder):
    """A shell command that stands for `widemargin`, as long as the server runs."""
    place = str(folder / "server")
    server = subprocess.Popen([sys.executable, __file__, place])
    try:
        deadline = time.monotonic() + 60.0
        while not Path(place).exists():
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        (folder / "client.py").write_text(CLIENT)
        yield shlex.join([sys.executable, "-S", "-E", str(folder / "client.py"), place])
    finally:
        server.terminate()
        server.wait()


def serve(place):
    """Answer callers one after the other, each in a fork."""
    from widemargin.cli.commands import audit, check, predict  # noqa: F401, imported once for all
    from widemargin.cli.main import main

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place + " begins")
    listener.listen()
    os.rename(place + " begins", place)
    while True:
        caller, _ = listener.accept()
        if not os.fork():
            size, outputs, _, _ = socket.recv_fds(caller, 8, 3)
            text = b""
            while len(text) < int.from_bytes(size, "big"):
                text += caller.recv(1 << 16)
            arguments, folder, environment = json.loads(text)
            for number, output in enumerate(outputs):
                os.dup2(output, number)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            code = 1
            try:
                code = main(arguments)
            except SystemExit as stop:
                code = stop.code
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                caller.sendall(str(code).encode())
                os._exit(0)
        caller.close()
        os.waitpid(-1, 0)


if __name__ == "__main__":
    serve(sys.argv[1])
