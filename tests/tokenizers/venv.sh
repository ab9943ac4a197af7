# venv.sh, sourced: makes the environment BUILD/tokenizers/venv if it is missing or its requirements have changed. Sets
# $python.
# shellcheck shell=bash
venv=${BUILD:-build}/tokenizers/venv
requirements=tests/tokenizers/requirements.txt
if ! cmp -s "$requirements" "$venv/installed.txt"; then
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "--requirement=$requirements"
    cp "$requirements" "$venv/installed.txt"
fi
# shellcheck disable=SC2034 # for the script that sources this file
python=$venv/bin/python
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false
