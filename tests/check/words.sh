#!/bin/bash
# words.sh [-v] [FILE…]: sentences of the documents are short. In each Markdown file at most one sentence of ten has more
# than 30 words. Code blocks, tables, headings and what programs write between "begin" and "end" markers don't count; a link counts
# as its text, `code` as one word. -v prints the sentences that are too long.
set -euo pipefail
limit=30
verbose=0
[ "${1:-}" != -v ] || { verbose=1 && shift; }

# Prints "LONG SENTENCES" of standard input; with -v the long ones, too, behind "#".
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

# The rule itself, so that it cannot pass by counting nothing.
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

echo "1..$((${#files[@]} + 1))"
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
exit $failed
