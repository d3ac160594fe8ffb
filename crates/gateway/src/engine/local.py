"""Runs llama.cpp's server from the package xllamacpp for as long as standard input is open."""
import os
import sys
import threading


def watch():
    # Input ends when the gateway stops, however it stops.
    sys.stdin.buffer.read()
    os._exit(0)


def fail(why):
    # The interpreter cannot be shut down while the other thread waits for input.
    print(why, file=sys.stderr, flush=True)
    os._exit(1)


threading.Thread(target=watch, daemon=True).start()

try:
    import xllamacpp
except ImportError as error:
    fail(f"{error}: install the package `xllamacpp` for {sys.executable}, or put `llama-server` on the path")

file, port, context, parallel, threads = sys.argv[1], *map(int, sys.argv[2:6])
params = xllamacpp.CommonParams()
params.model.path = file
params.hostnames = ["127.0.0.1"]
params.port = port
if context:
    params.n_ctx = context
if parallel:
    params.n_parallel = parallel
if threads:
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(params)
if not server.listening_address.endswith(f":{port}"):
    fail(f"the server listens at {server.listening_address} instead of port {port}")
threading.Event().wait()
