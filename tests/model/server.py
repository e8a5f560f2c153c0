"""Runs the small model in a process of its own: ``python server.py GGUF`` prints its base URL and then serves.

It stops by being ended: the server offers no other way. It ends itself when its input closes, so that a test that is
killed leaves nothing behind.
"""

import importlib
import sys


def main(gguf: str) -> None:
    """Serve one model on a free port of 127.0.0.1 with one thread: two that spin slow each other down on busy cores."""
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 8192
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.use_jinja = True
    params.offline = True
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
