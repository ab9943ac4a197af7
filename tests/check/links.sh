#!/bin/bash
# links.sh: relative links in the Markdown files lead to existing files, and their anchors to headings. Links from
# README.md lead to every page of docs/. Addresses of other sites are not tried, because no test may need the network.
set -euo pipefail

# Prints "LINE TARGET" for each link and image of a page, except in code.
links_of() {
    awk '
        /^ *```/ { fenced = !fenced; next }
        fenced   { next }
        {
            gsub(/`[^`]*`/, "")
            while (match($0, /\]\([^)]*\)/)) {
                print NR, substr($0, RSTART + 2, RLENGTH - 3)
                $0 = substr($0, RSTART + RLENGTH)
            }
        }' "$1"
}

# Prints the anchors that sites make of the headings of a page: lower case, blanks become dashes, punctuation is
# dropped. If a heading occurs again, its anchor ends in a number.
anchors_of() {
    awk '
        /^ *```/ { fenced = !fenced; next }
        fenced || !/^#+ / { next }
        {
            sub(/^#+ /, "")
            gsub(/\]\([^)]*\)/, "")
            $0 = tolower($0)
            gsub(/[^a-z0-9 _-]/, "")
            gsub(/ /, "-")
            print seen[$0]++ ? $0 "-" seen[$0] - 1 : $0
        }' "$1"
}

# Prints the links of the pages that lead nowhere.
broken() {
    local page line target file anchor
    for page in "$@"; do
        while read -r line target; do
            case $target in
            [a-z]*://* | mailto:*) continue ;;
            esac
            file=${target%%#*} anchor=
            [[ $target != *#* ]] || anchor=${target#*#}
            [ -n "$file" ] && file=$(dirname "$page")/$file || file=$page
            if [ ! -e "$file" ]; then
                echo "$page:$line: $target is not there"
            elif [ -n "$anchor" ] && ! grep -qxF -e "$anchor" <<<"$(anchors_of "$file")"; then
                echo "$page:$line: $target: $file has no such heading"
            fi
        done <<<"$(links_of "$page")"
    done
}

echo 1..3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/page.md" <<'PAGE'
# A page: `code`, and more
[good](page.md#a-page-code-and-more) [good](#twice-1) [good](https://nowhere.example/#x)
[bad](missing.md) [bad](page.md#missing) `[code](missing.md)`
## Twice
## Twice
PAGE
found=$(broken "$work/page.md" | wc -l)
if [ "$found" = 2 ]; then
    echo "ok 1 - the rule tells good links from bad"
else
    echo "not ok 1 - the rule tells good links from bad ($found of 2 found)"
    exit 1
fi

mapfile -t pages < <(find ./*.md config docker docs engine server tests weights -name '*.md' | sort)
found=$(broken "${pages[@]}")
[ -z "$found" ] || printf 'not '
echo "ok 2 - ${#pages[@]} pages have no link that leads nowhere"
[ -z "$found" ] || { echo "# ${found//$'\n'/$'\n'# }" && exit 1; }

missing=
for page in docs/*.md; do
    grep -qF "($page)" README.md || missing="$missing $page"
done
[ -z "$missing" ] || printf 'not '
echo "ok 3 - README.md leads to every page of docs/${missing:+ (not to$missing)}"
[ -z "$missing" ]
