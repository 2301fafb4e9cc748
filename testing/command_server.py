"""`widemargin` for shell scripts under test: one process imports everything once, and answers each call by a fork.

A call of the installed command spends three seconds of processor time on imports. Where a script is what is tested,
and not the process, it finds a command of the same name on its path that hands its arguments, folder, environment,
input and output to this server, and ends with the exit code of the answer.
"""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile

CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
    server.connect({address!r})
    call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [call], [0, 1, 2])
    sys.exit(int(server.recv(16)))
"""


@contextlib.contextmanager
def command_on_path(folder):
    """Write an executable `widemargin` into a folder, which works until the context ends."""
    with tempfile.TemporaryDirectory() as short:  # the address of a socket has a hundred characters at most
        address = f"{short}/server"
        (folder / "widemargin").write_text(CLIENT.format(python=sys.executable, address=address))
        (folder / "widemargin").chmod(0o755)
        # It ends with its input, and so also where the tests are ended before they could say so.
        command = [sys.executable, __file__, address]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout.readline() == b"ready\n"
            yield
            server.stdin.close()


def serve(address):
    """Answer calls until the input ends."""
    # What calls would import each: skops alone takes a second.
    import skops.io  # noqa: F401

    import widemargin.cli.checks.examine
    import widemargin.cli.commands.audit
    import widemargin.cli.commands.check  # noqa: F401

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(address)
        door.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while door in select.select([door, sys.stdin], [], [])[0]:
            caller, _ = door.accept()
            if (child := os.fork()) == 0:
                answer(caller)
            caller.close()
            os.waitpid(child, 0)


def answer(caller):
    """Run one call in this process, a child, which ends with it."""
    from widemargin.cli.main import main

    call, descriptors, _, _ = socket.recv_fds(caller, 1 << 20, 3)
    arguments, folder, environment = json.loads(call)
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
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
        caller.send(str(code).encode())
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
