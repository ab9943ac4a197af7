#!/bin/bash
# log_lines.sh: docs/operations.md has a row for every message that the sources log, and no other row.
set -euo pipefail
page=docs/operations.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# messages_of FILE…: prints "FILE: message" for each message that the files log. If a call chooses between two messages,
# prints both. If the message is a variable, prints the format with which snprintf writes the variable before the call.
# Prints "FILE: ?" for a message that was not found. The compiler removes comments.
messages_of() {
    local file
    for file in "$@"; do
        gcc -fpreprocessed -dD -E -P -x c "$file" | tr '\n' ' ' | awk -v file="$file" '
            # Returns the argument with this number, counted from 1. The text "call" begins with "(".
            function argument(call, number,    i, c, depth, quoted, found) {
                for (i = 1; i <= length(call); i++) {
                    c = substr(call, i, 1)
                    if (quoted && c == "\\") { found = found c substr(call, ++i, 1); continue }
                    if (c == "\"") quoted = !quoted
                    if (!quoted && (c == "(" || c == "{")) { if (depth++ == 0) continue }
                    if (!quoted && (c == ")" || c == "}") && --depth == 0) break
                    if (!quoted && c == "," && depth == 1) { if (--number == 0) break; found = ""; continue }
                    found = found c
                }
                return found
            }
            # Prints each string literal, and returns their number. Adjacent literals are one string.
            function print_strings(text,    count) {
                gsub(/" +"/, "", text)
                for (; match(text, /"([^"\\]|\\.)*"/); text = substr(text, RSTART + RLENGTH)) {
                    print file ": " substr(text, RSTART + 1, RLENGTH - 2)
                    count++
                }
                return count
            }
            # Returns the format of the last snprintf that writes the variable before the call.
            function format_of(variable, before,    call) {
                while (match(before, "snprintf\\(" variable ",")) {
                    before = substr(before, RSTART + length("snprintf"))
                    call = before
                }
                return call ? argument(call, 3) : ""
            }
            BEGIN { place["log_write("] = 2; place["log_write_limited("] = 3; place["log_announce("] = 1; place["line_begin("] = 3 }
            {
                for (rest = $0; match(rest, /(log_write(_limited)?|log_announce|line_begin)\(/); rest = substr(rest, length(name))) {
                    before = before substr(rest, 1, RSTART - 1)
                    name = substr(rest, RSTART, RLENGTH)
                    rest = substr(rest, RSTART)
                    said = argument(substr(rest, length(name), 2000), place[name])
                    # Skips declarations, and functions that pass on the message of their caller
                    if (said ~ /^ *const char \*/ || (said ~ /^ *message *$/ && name == "line_begin(")) continue
                    gsub(/^ +| +$/, "", said)
                    if (!print_strings(said) && (said !~ /^[a-z_]+$/ || !print_strings(format_of(said, before))))
                        print file ": ?"
                }
            }'
    done
}

# Prints the column "message" of the table in a page.
rows_of() {
    awk '/^\| message \| level/ { inside = 1 } /^$/ { inside = 0 } inside && /^\| `/ { split($0, parts, "`"); print parts[2] }' "$1"
}

# differences MESSAGES ROWS: prints the messages without a row, and the rows without a message. A row that ends in an
# ellipsis stands for all longer messages with this beginning. Each other row is a whole message.
differences() {
    awk -v ellipsis=… '
        NR == FNR { file = $0; sub(/: .*/, "", file); sub(/^[^:]*: /, ""); where[$0] = file; next }
        {
            cut = length($0) - length(ellipsis)
            shortened = substr($0, cut + 1) == ellipsis
            found = 0
            for (message in where)
                if (shortened ? index(message, substr($0, 1, cut)) == 1 && length(message) > cut : message == $0) {
                    listed[message] = 1
                    found = 1
                }
            if (!found) print "the row \"" $0 "\" is no message"
        }
        END { for (message in where) if (!(message in listed)) print where[message] ": \"" message "\" has no row" }' "$1" "$2" | sort
}

# report NUMBER WHAT FOUND: prints the result of a test, which passes if FOUND is empty.
report() {
    [ -z "$3" ] || { printf 'not ' && failed=1; }
    echo "ok $1 - $2"
    [ -z "$3" ] || echo "# ${3//$'\n'/$'\n'# }"
}

echo 1..2
failed=0
cat >"$work/sample.c" <<'END'
/* log_write(LEVEL, "in a comment", NULL) */
void log_write(enum log_level level, const char *message, ...);
void f(void)
{
    log_write(level_of(a, ")"), "one", "name", "value", NULL);
    log_write_limited(&limit, LEVEL, x ? "two: " /* "no" */
                                         "and more" : "three (3), \"quoted\"", "name", NULL);
    log_announce("four", NULL);
    snprintf(text, sizeof text, "five %s", name);
    log_announce(text, NULL);
    log_write(LEVEL, text_of(6), NULL);
}
END
cat >"$work/sample.md" <<'END'
| message | level |
|---|---|
| `one` | info |
| `two: …` | info |
| `four…` | info |
| `fiv` | info |

| `three` | info |
END
messages_of "$work/sample.c" >"$work/messages"
rows_of "$work/sample.md" >"$work/rows"
found=$(cut -d : -f 2- "$work/messages" && differences "$work/messages" "$work/rows" | sed "s|$work/||")
expected=' one
 two: and more
 three (3), \"quoted\"
 four
 five %s
 ?
sample.c: "?" has no row
sample.c: "five %s" has no row
sample.c: "four" has no row
sample.c: "three (3), \"quoted\"" has no row
the row "fiv" is no message
the row "four…" is no message'
report 1 "the rule finds messages, and rows that differ" "$(diff <(echo "$expected") <(echo "$found") || true)"

mapfile -t files < <(grep -lE 'log_(write|write_limited|announce)\(|line_begin\(' -r server --include='*.c' | sort)
messages_of "${files[@]}" >"$work/messages"
rows_of $page >"$work/rows"
found=$(differences "$work/messages" "$work/rows")
[ "$(wc -l <"$work/rows")" -ge 5 ] || found+="the table has only $(wc -l <"$work/rows") rows"
report 2 "$(sort -u -t: -k2 "$work/messages" | wc -l) messages of ${#files[@]} files have their rows in $page" "$found"
exit $failed
