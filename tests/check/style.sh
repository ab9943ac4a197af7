#!/bin/bash
# style.sh: clang-format changes no C source, and shellcheck reports nothing. If a tool is missing, its check is
# skipped, and the output names the tool. 'docker/packages.sh check' installs both. In C, `(void)state;` is the first
# statement of a test. No blank line follows the opening declarations of a function.
set -euo pipefail
failed=0
version=14 # the version of Debian 12. Other versions break lines elsewhere

# result NUMBER STATUS TOOL: prints the result of a test. Status 0 means that the tool found nothing.
result() {
    [ "$2" = 0 ] || failed=1
    [ "$2" = 0 ] || printf 'not '
    echo "ok $1 - $3 finds nothing"
}

files() { find config weights engine server tests docker .ci -type f "$@" -print0; }

# Prints where the given C files break the two rules for C above. Relies on the format of clang-format: the braces of a
# function are in column 1.
dialect() {
    awk '
        function report(what) { print FILENAME ":" FNR ": " what }
        FNR == 1 { opening = inside = 0 }
        /^\{$/ { first = FNR + 1; opening = 1; inside = declared = 0; next }
        /^    \(void\)state;$/ { if (FNR != first) report("(void)state comes first in a test"); next }
        !opening { next }
        inside { # the line continues a declaration
            if (inside == "}" ? /^    \}.*;/ : /;( *\/\*.*)?$/) inside = 0
            next
        }
        /^$/ { if (declared) report("a blank line follows the opening declarations") }
        /^    (return|goto|else|do|case) / { opening = 0; next }
        !/^    ((static|const|unsigned|struct|enum|union) )*[A-Za-z_][A-Za-z_0-9]* (const )?(\**[A-Za-z_]|\{)/ { opening = 0; next }
        { declared = 1; inside = /\{$/ ? "}" : !/;( *\/\*.*)?$/ }
    ' "$@"
}

echo 1..4
if ! command -v clang-format >/dev/null; then
    echo "ok 1 # SKIP clang-format is not installed"
elif ! clang-format --version | grep -q "version $version\."; then
    echo "ok 1 # SKIP clang-format is not version $version"
else
    status=0
    files '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' ')' | xargs -0 clang-format --dry-run -Werror || status=1
    result 1 $status clang-format
fi

if ! command -v shellcheck >/dev/null; then
    echo "ok 2 # SKIP shellcheck is not installed"
else
    status=0
    files '(' -name '*.sh' -o -path .ci/run ')' | xargs -0 shellcheck -x || status=1 # .ci/run has no suffix
    result 2 $status shellcheck
fi

# Tests of the rules themselves, which would also pass if they checked nothing.
good='static void one(void **state)
{
    (void)state;
    static const struct {
        int number;
    } cases[] = {
        {1},
    };
    struct error error;
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect(cases[i], &error);

    return;
}'
bad='static void one(void **state)
{
    int number = 1;
    (void)state;
    expect(number);
}
static void two(void)
{
    static const struct {
        int number;
    } cases[] = {
        {1},
    };
    struct error error = {0}; /* a comment */

    expect(cases, &error);
}
static int three(void)
{
    enum { COUNT = 2 };

    return COUNT;
}'
found=$(dialect - <<<"$bad")
if [ -z "$(dialect - <<<"$good")" ] && [ "$(cut -d : -f 2 <<<"$found" | xargs)" = "4 15 21" ]; then
    echo "ok 3 - the rules of declarations tell good from bad"
else
    failed=1
    echo "not ok 3 - the rules of declarations tell good from bad"
    echo "# ${found//$'\n'/$'\n'# }"
fi

mapfile -d '' -t sources < <(files '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' ')')
found=$(dialect "${sources[@]}")
if [ -z "$found" ]; then
    echo "ok 4 - functions begin with (void)state and declarations without a blank line after them"
else
    failed=1
    echo "not ok 4 - functions begin with (void)state and declarations without a blank line after them"
    echo "# ${found//$'\n'/$'\n'# }"
fi
exit $failed
