#!/bin/bash
# test_pages.sh: compares the manual page and the completion of flags in bash and zsh with the flags of --help, in TAP.
# Not covered: whether man-db finds the page.
# shellcheck disable=SC2317 # functions that are called through check
set -euo pipefail
build=$(realpath "${BUILD:-build}")
help=$("${LINFORMERD:-$build/linformerd}" --help)
mapfile -t flags < <(grep -oE '^  --[a-z0-9-]+' <<<"$help" | tr -d ' ')
failed=0 number=0

# check NAME COMMAND…: a test, which passes if the command succeeds. If it fails, its output is printed.
check() {
    local output name=$1
    shift
    number=$((number + 1))
    if output=$("$@" 2>&1); then
        echo "ok $number - $name"
    else
        failed=1
        echo "not ok $number - $name"
        echo "# ${output//$'\n'/$'\n# '}"
    fi
}

# ---- The manual page
manual_prints() {
    local warnings
    warnings=$(groff -man -Tutf8 -ww -b "$build/pages/linformerd.8" 2>&1 >/dev/null)
    [ -z "$warnings" ] || { echo "$warnings" && return 1; }
}

# The page must contain each flag, each variable, and parts of some explanations.
manual_is_complete() {
    local page flag
    page=$(groff -man -Tascii -rLL=10000n "$build/pages/linformerd.8" | sed 's/.\x08//g' | tr -s ' \n' ' ')
    [ ${#flags[@]} -gt 20 ] || { echo "--help has ${#flags[@]} flags" && return 1; }
    for flag in "${flags[@]}"; do
        grep -qF -- " $flag " <<<"$page" || { echo "the page lacks $flag" && return 1; }
    done
    while read -r name; do
        grep -qF "Variable: $name" <<<"$page" || { echo "the page lacks $name" && return 1; }
    done < <(grep -oE 'LINFORMERD_[A-Z_]+' <<<"$help" | sort -u)
    for words in 'Folder with config.json and model.safetensors' 'Values: auto, f32, tf32, bf16 or f16.' \
        'Values: 0 to 65535.' "$(grep -oE 'listens\. 0\.0\.0\.0 means all addresses' <<<"$help" | head -n 1)"; do
        grep -qF -- "$words" <<<"$page" || { echo "the page lacks: $words" && return 1; }
    done
}

# ---- bash
# completed_by_bash WORD…: prints the words that bash offers for the last word, one on each line.
completed_by_bash() {
    (
        # shellcheck source=/dev/null
        source "$build/pages/linformerd.bash"
        COMP_WORDS=(linformerd "$@") COMP_CWORD=$#
        _linformerd
        printf '%s\n' "${COMPREPLY[@]}"
    )
}

# ---- zsh
# completed_by_zsh WORD…: prints the words that zsh offers. Completion needs a terminal, so zsh starts an inner zsh in a
# pseudo-terminal. Completion passes its words to compadd. The inner zsh replaces compadd by a function that prints
# them.
completed_by_zsh() {
    # shellcheck disable=SC2016 # zsh expands this
    timeout 60 zsh -f -c '
        zmodload zsh/zpty
        zpty shell zsh -f -i
        zpty -w shell "
            PS1= PS2= TERM=dumb; unsetopt zle_bracketed_paste
            fpath=($1 \$fpath); autoload -U compinit; compinit -D -u
            compadd() {
                if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd \"\$@\"; return; fi
                local -a found; builtin compadd -A found \"\$@\"; print -rl -- \"<\"\${^found}\">\"
                builtin compadd \"\$@\"
            }
            print-end() { print END-OF-LIST }
            zle -C offer list-choices _main_complete; bindkey \"^I\" offer
            zle -N print-end; bindkey \"^X\" print-end; print READY-\$((1 + 1))
        "
        zpty -r -m shell line "*READY-2*"
        zpty -w -n shell "$2"$'"'\t\x18'"'
        zpty -r -m shell line "*END-OF-LIST*"
        print -r -- "$line"' - "$build/pages" "linformerd $*" | tr '\r' '\n' | sed -n 's/^.*<\(.*\)>.*$/\1/p'
}

# offers SHELL WORD… gives EXPECTED…: the shell must offer these words for the last WORD, in any order.
offers() {
    local shell=$1 words=() found expected
    shift
    while [ "$1" != gives ]; do words+=("$1") && shift; done
    shift
    found=$("completed_by_$shell" "${words[@]}" | sort -u)
    expected=$(printf '%s\n' "$@" | sort -u)
    [ "$found" = "$expected" ] && return
    printf '%s\n' "${words[*]}: expected, and $shell offers" "$expected" "" "$found"
    return 1
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/models"
touch "$folder/linformerd.json"

echo 1..14
check "groff prints the manual page without a warning" manual_prints
check "the manual page has each flag, variable and explanation" manual_is_complete
check "bash offers each flag" offers bash -- gives "${flags[@]}"
check "bash offers the flags that begin with a word" offers bash --log- gives --log-format --log-level
check "bash offers the values of a flag" offers bash --log-format '' gives text json
check "bash offers the values of a flag after =" offers bash --log-format = j gives json
check "bash offers true and false only after =" offers bash --strict = '' gives true false
check "bash offers a flag after one without a value" offers bash --strict --expl gives --explain
check "bash offers folders for a model" offers bash --model "$folder/" gives "$folder/models"
check "bash offers folders for a model with a name" offers bash --model small = "$folder/m" gives "$folder/models"
check "bash offers files for the file of settings" offers bash --config "$folder/l" gives "$folder/linformerd.json"
if command -v zsh >/dev/null; then
    check "zsh offers each flag" offers zsh -- gives "${flags[@]}"
    check "zsh offers the values of a flag" offers zsh --log-format '' gives text json
    check "zsh reads the completion file without a message" zsh -n "$build/pages/_linformerd"
else
    for number in 12 13 14; do echo "ok $number # SKIP zsh is not installed"; done
fi
exit $failed
