#!/usr/bin/env python3
"""Measures how well the model in tests/models/bytes predicts masked bytes on the CUDA engine. Prints a line for each
dtype.

    accuracy.py CORPUS [--folder FOLDER] [--sample N]

CORPUS is a folder that weights/builtin/corpus.py wrote. The script reads heldout.bin and heldout.npy there, and needs
numpy and PyTorch.

FOLDER contains the daemon and the CUDA engine that tests/gpu/check.sh built. The default is build/gpu. After a run of
check.sh with DRY=1, the engine runs on the shim (CUDA on the CPU), and needs seconds for each window of 256 bytes."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

DTYPES = ("f32", "tf32", "bf16", "f16")
ROOT = pathlib.Path(__file__).resolve().parents[2]
EVALUATE, MODEL = ROOT / "weights" / "builtin" / "evaluate.py", ROOT / "tests" / "models" / "bytes"


def ran_on_device(url):
    """Returns whether no batch ran on the CPU. The CPU computes batches when the device fails. It computes in float32,
    so its accuracy is not that of the dtype."""
    with urllib.request.urlopen(url + "/metrics") as answer:
        return b"\nlinformerd_standby_batches_total 0\n" in answer.read()


def evaluate(folder, dtype, corpus, sample):
    """Starts a daemon that computes in this dtype. Returns the output of evaluate.py for its answers."""
    # LD_LIBRARY_PATH may name the driver's folder.
    path = ":".join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    environment = os.environ | {"LD_LIBRARY_PATH": path, "SHIM_SEED": "0"}
    daemon = subprocess.Popen([folder / "linformerd", "--device", "cuda", "--dtype", dtype, "--port", "0",
                               "--request-timeout-ms", "0", "--model", MODEL], stderr=subprocess.PIPE, text=True, env=environment)
    try:
        url = next((match[0] for line in daemon.stderr if (match := re.search(r"http://\S+:\d+", line))), None)
        if url is None:
            raise RuntimeError(f"the daemon does not start with --dtype {dtype}")
        said = subprocess.run([sys.executable, EVALUATE, "--model", MODEL, "--daemon", url, "--corpus", corpus, "--sample",
                               str(sample)],
                              stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        if not ran_on_device(url):
            raise RuntimeError(f"batches in {dtype} ran on the CPU in place of the device")
        return said
    finally:
        daemon.terminate()
        daemon.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="folder that weights/builtin/corpus.py wrote")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/gpu"),
                        help="folder of the daemon and the engine (%(default)s)")
    parser.add_argument("--sample", type=int, default=32, help="number of windows of 256 bytes (%(default)s)")
    options = parser.parse_args()
    for dtype in DTYPES:
        print(dtype, evaluate(options.folder.resolve(), dtype, options.corpus, options.sample), flush=True)


if __name__ == "__main__":
    main()
