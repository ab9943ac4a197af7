"""The files that the benchmarks need, in BUILD/bench. These are a virtual environment with other libraries from PyPI,
the models, and a clone of a repository that is not on PyPI. Each of them is made when it is first needed."""
import os
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
BENCH = BUILD / "bench"
PYTHON = BENCH / "venv" / "bin" / "python"
LINFORMERD = BUILD / "linformerd"
KERAS_REPOSITORY = "https://github.com/dholland42/linformer"
KERAS_COMMIT = "fd7e176f34b57eee08e8c8ee2dcfbc704923982f"


def program(name):
    return BUILD / "tests" / "bench" / name


def log(name):
    (BENCH / "log").mkdir(parents=True, exist_ok=True)
    return BENCH / "log" / f"{name}.log"


def make_virtual_environment():
    """Makes the virtual environment again when requirements.txt changes. The environment needs some 3 GB. PyPI's torch
    depends on CUDA, which needs several GB more. So PyTorch's own index is tried first."""
    wanted = (FOLDER / "requirements.txt").read_text()
    installed = BENCH / "installed.txt"
    if installed.exists() and installed.read_text() == wanted:
        return
    print(f"installing the peers into {BENCH / 'venv'}; this takes minutes and 3 GB", flush=True)
    installed.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", BENCH / "venv"], check=True)
    install = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch = next(line for line in wanted.splitlines() if line.startswith("torch=="))
    subprocess.run([*install, "--no-deps", "--retries", "0", "--index-url", "https://download.pytorch.org/whl/cpu",
                    torch], stderr=subprocess.DEVNULL)
    subprocess.run([*install, "-r", FOLDER / "requirements.txt"], check=True)
    installed.write_text(wanted)


def model(name, environment=()):
    """The folder of a model of models.py. The folder is written if it is missing or older than models.py."""
    make_virtual_environment()
    folder = BENCH / "models" / name
    config, script = folder / "config.json", FOLDER / "models.py"
    if not config.exists() or config.stat().st_mtime < script.stat().st_mtime:
        print(f"making the model {name}", flush=True)
        with open(log(f"model_{name}"), "w") as file:
            subprocess.run([PYTHON, FOLDER / "models.py", name, folder], check=True, stdout=file, stderr=file,
                           env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | dict(environment))
    return folder


def keras_source():
    """The path of linformer/attention.py from the repository with the Keras layer: KERAS_PY, or the file in a clone.
    None if KERAS_PY is not set and the repository cannot be cloned."""
    if os.environ.get("KERAS_PY"):
        return pathlib.Path(os.environ["KERAS_PY"]).resolve()
    folder = BENCH / "keras"
    source = folder / "linformer" / "attention.py"
    if not source.exists():
        shutil.rmtree(folder, ignore_errors=True)
        try:
            subprocess.run(["git", "clone", "--quiet", KERAS_REPOSITORY, folder], check=True, timeout=120,
                           env=os.environ | {"GIT_TERMINAL_PROMPT": "0"})
            subprocess.run(["git", "-C", folder, "checkout", "--quiet", KERAS_COMMIT], check=True)
        except (OSError, subprocess.SubprocessError):
            return None
    return source
