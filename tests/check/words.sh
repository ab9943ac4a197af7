#!/bin/bash
# words.sh [-v] [FILE…]: checks the sentences of documents and comments. In each Markdown file, at most one sentence in
# ten has more than 30 words. Code blocks, tables and headings do not count, nor does text that programs write between
# "begin" and "end" markers. A link counts as its text, `code` as one word. -v prints the sentences that are too long.
# In comments of sources, scripts and settings, and in docstrings, no sentence has more than 30 words, and no sentence
# has a semicolon. Indented lines are tables or formulas, and do not count. FILE… are Markdown files. Without FILE, all
# Markdown files and all comments are checked.
set -euo pipefail
limit=30
verbose=0
[ "${1:-}" != -v ] || { verbose=1 && shift; }

# Reads Markdown from standard input. Prints "LONG ALL": the number of long sentences, and the number of all sentences.
# With -v, also prints each long sentence, behind "#".
measure() {
    awk -v limit="$limit" -v verbose="$verbose" '
        function sentences(text,    parts, n, i) {
            gsub(/`[^`]*`/, "code", text)
            gsub(/\]\([^)]*\)/, "", text)
            gsub(/[][*_]/, "", text)
            n = split(text, parts, /[.!?][")]*([ \t]+|$)/)
            for (i = 1; i <= n; i++) count(parts[i])
        }
        function count(sentence,    words, n, i, used) {
            n = split(sentence, words, /[ \t]+/)
            for (i = 1; i <= n; i++) used += words[i] ~ /[A-Za-z0-9]/
            all += used > 0
            if (used <= limit) return
            long++
            if (verbose) print "# " used " words: " sentence
        }
        function flush() { sentences(paragraph); paragraph = "" }
        /^<!-- begin/              { flush(); written = 1 }
        /^<!-- end/                { written = 0 }
        written                    { next }
        /^ *```/                   { flush(); fenced = !fenced; next }
        fenced                     { next }
        /^ *(\||#|<|$)/ || /^    / { flush(); next }
        /^ *([-*]|[0-9]+\.) /      { flush(); sub(/^ *([-*]|[0-9]+\.) /, "") }
                                   { paragraph = paragraph " " $0 }
        END                        { flush(); print long + 0, all + 0 }'
}

# Prints the sentences in comments of the given files that break the rule, as FILE:LINE: FAULT: SENTENCE. The last line is
# the number of all sentences.
measure_comments() {
    awk -v limit="$limit" '
        function check(text,    parts, n, i, words, count, k, used) {
            gsub(/`[^`]*`/, "code", text)
            gsub(/"[^"]*"/, "text", text)
            n = split(text, parts, /[.!?][")]*([ \t]+|$)/)
            for (i = 1; i <= n; i++) {
                count = split(parts[i], words, /[ \t]+/)
                used = 0
                for (k = 1; k <= count; k++) used += words[k] ~ /[A-Za-z]/
                all += used > 0
                if (used > limit) print place ": " used " words:" parts[i]
                if (parts[i] ~ /;( |$)/) print place ": semicolon:" parts[i]
            }
        }
        function flush() { if (text != "") check(text); text = "" }
        function add(line) {
            if (line ~ indented || line ~ /^[ \t]*$/) { flush(); return }
            if (line ~ /^ *([-*]|[0-9]+\.) /) { flush(); sub(/^ *([-*]|[0-9]+\.) /, "", line) }
            if (text == "") place = FILENAME ":" FNR
            text = text " " line
        }
        function add_line_of_c(line,    at, end, piece) {
            for (; line != ""; line = substr(line, end + 2)) {
                if (!inside) {
                    gsub(/"([^"\\]|\\.)*"/, "\"\"", line) # a string may contain the beginning of a comment
                    at = index(line, "/*")
                    if (!at) return
                    line = substr(line, at + 2)
                }
                end = index(line, "*/")
                inside = !end
                piece = end ? substr(line, 1, end - 1) : line
                sub(/^ +\*/, "", piece)
                sub(/^ /, "", piece)
                add(piece)
                if (inside) return
                flush()
            }
        }
        function add_docstring(line,    end) {
            end = index(line, "\"\"\"")
            add(end ? substr(line, 1, end - 1) : line)
            inside = !end
            if (end) flush()
        }
        FNR == 1 {
            flush()
            inside = 0
            before = ":"
            is_c = FILENAME ~ /\.(c|h|cpp|cu|S|js)$/
            is_python = FILENAME ~ /\.py$/
            indented = is_c ? "^    " : "^  "
        }
        is_c { if (inside || /\/\*/) add_line_of_c($0); next }
        is_python && inside { sub(margin, ""); add_docstring($0); next }
        is_python && before ~ /:$/ && match($0, /^ *"""/) {
            margin = "^" substr($0, 1, RLENGTH - 3)
            before = ""
            add_docstring(substr($0, RLENGTH + 1))
            next
        }
        /^[ \t]*#(pylint|shellcheck|[^!]|$)/ { sub(/^[ \t]*#+ ?/, ""); add($0); next }
        { flush(); if (!/^(#!.*| *)$/) before = $0 }
        match($0, /[ \t]# /) {
            rest = substr($0, RSTART + 3)
            if (rest !~ /["\047}]/) { add(rest); flush() } # with a quote, "#" may be in a string
        }
        END { flush(); print all + 0 }' "$@"
}

# Examples for tests of the rules themselves, which would also pass if they counted nothing.
words() { for ((i = 0; i < $1; i++)); do printf 'word '; done; }
example=$(
    words 30 && echo "end." # 31 words
    echo "Short one. A [link](to/a/long/place) counts. So does \`code of many words\`."
    echo && printf -- '- ' && words 40
    echo && printf '| ' && words 40
    printf "\n\140\140\140\n" && words 40 && printf "\n\140\140\140\n"
)
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(find ./*.md config docker docs engine server tests weights -name '*.md' | sort)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for suffix in c sh py; do
    case $suffix in
    c) begin='/* ' end=' */' ;;
    sh) begin='# ' end='' ;;
    py) begin='"""' end='"""' ;;
    esac
    {
        [ $suffix = c ] || echo '#!/usr/bin/env interpreter'
        echo "$begin$(words 30)end.$end" # 31 words
        echo "if x:"
        printf '%s\n' "$begin""One idea; another idea. A \`;\` in code counts as code.$end"
    } >"$folder/example.$suffix"
done
checked=()
if [ $# -eq 0 ]; then
    kinds='c|h|S|cpp|cu|js|sh|mk|py|yaml|conf|cfg'
    mapfile -t checked < <(find Makefile docker docs config engine server tests weights -type f \
        -regextype posix-extended -regex "(.*/)?(Makefile|Dockerfile[^/]*|[^/]*\.($kinds))" | sort)
fi

echo "1..$((${#files[@]} + 1 + (${#checked[@]} > 0 ? 2 : 0)))"
failed=0
found=$(verbose=0 measure <<<"$example")
[ "$found" = "2 5" ] || { printf 'not ' && failed=1; }
echo "ok 1 - the rule counts long sentences (2 of 5, found $found)"

number=1
for file in "${files[@]}"; do
    number=$((number + 1))
    measured=$(measure <"$file")
    [ $verbose = 0 ] || sed '$d' <<<"$measured"
    read -r long all <<<"${measured##*$'\n'}"
    [ $((long * 10)) -le "$all" ] || { printf 'not ' && failed=1; }
    echo "ok $number - $file: $long of $all sentences have more than $limit words"
done

if [ ${#checked[@]} -gt 0 ]; then
    found=$(measure_comments "$folder"/example.* | sed 's/: .*//; s/.*example//' | paste -sd ' ')
    [ "$found" = ".c:1 .c:3 .py:2 .py:4 .sh:2 .sh:4 9" ] || { printf 'not ' && failed=1; }
    echo "ok $((number + 1)) - the rule finds long sentences and semicolons in comments (found $found)"
    measured=$(measure_comments "${checked[@]}")
    [ "$(wc -l <<<"$measured")" = 1 ] || { printf 'not ' && failed=1; }
    echo "ok $((number + 2)) - ${measured##*$'\n'} sentences in comments of ${#checked[@]} files are short and have no semicolon"
    sed '$d; s/^/# /' <<<"$measured"
fi
exit $failed
