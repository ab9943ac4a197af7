#!/bin/bash
# comments.sh: comments of C and CUDA sources name only files and words that exist. A file name such as plan.h must be
# the end of a file's path, or a header that some file includes. A word in backticks must occur in the code of the same
# file, or of a header that the file includes directly or indirectly. The word may also occur in the source of such a
# header. Names of other projects and keys of JSON are listed below.
set -euo pipefail
foreign_files='cblas.h crt/host_runtime.h Resample.c'
foreign_words='tokenizers thres Ac truncate model stream batch read _metadata __metadata__'

# unknown PATHS SOURCE…: prints "FILE:LINE NAME" for each name in comments of the sources that does not exist. PATHS is
# a file with the paths of all files.
unknown() {
    awk -v foreign=" $foreign_files $foreign_words " '
        function code(text) {
            while (match(text, /[A-Za-z_][A-Za-z_0-9]*/)) {
                has[FILENAME, substr(text, RSTART, RLENGTH)] = 1
                text = substr(text, RSTART + RLENGTH)
            }
        }
        function named(name, kind) { names[++n] = name; kinds[n] = kind; files[n] = FILENAME; lines[n] = FNR }
        function comment(text,    rest, name) {
            for (rest = text; match(rest, /`\*?[A-Za-z_][A-Za-z_0-9]*`/); rest = substr(rest, RSTART + RLENGTH)) {
                name = substr(rest, RSTART + 1, RLENGTH - 2)
                sub(/^\*/, "", name)
                named(name, "word")
            }
            text = " " text " "
            gsub(/[^A-Za-z_0-9.\/*]/, "  ", text)
            while (match(text, / [A-Za-z_][A-Za-z_0-9\/]*\.(c|h|cu|cpp)\.? /)) {
                name = substr(text, RSTART + 1, RLENGTH - 2)
                sub(/\.$/, "", name)
                named(name, "file")
                text = substr(text, RSTART + RLENGTH - 1)
            }
        }
        function reaches(file, word,    parts, count, i) {
            if ((file, word) in has) return 1
            seen[file] = 1
            count = split(included[file] " " stem(file) ".c " stem(file) ".cu " stem(file) ".cpp", parts, " ")
            for (i = 1; i <= count; i++)
                if (parts[i] in is_source && !(parts[i] in seen) && reaches(parts[i], word)) return 1
            return 0
        }
        function stem(file) { sub(/\.[a-z]+$/, "", file); return file }
        FILENAME == ARGV[1] {
            for (path = $0; !(path in exists); sub(/^[^\/]*\//, "", path)) exists[path] = 1
            next
        }
        FNR == 1 { inside = 0; is_source[FILENAME] = 1; folder = FILENAME; sub(/[^\/]*$/, "", folder) }
        /^#include / && !inside {
            header = $2
            gsub(/[<>"]/, "", header)
            exists[header] = 1
            included[FILENAME] = included[FILENAME] " " header " " folder header " tests/cuda/shim/" header
        }
        {
            gsub(/\047\\?"\047/, "0")
            for (line = $0; line != "";) {
                begin = index(line, "/*")
                if (inside) {
                    end = index(line, "*/")
                    comment(end ? substr(line, 1, end - 1) : line)
                    inside = !end
                    line = end ? substr(line, end + 2) : ""
                } else if (match(line, /"([^"\\]|\\.)*"/) && (!begin || RSTART < begin)) { # a string may contain "/*"
                    end = RSTART + RLENGTH
                    code(substr(line, 1, end - 1))
                    line = substr(line, end)
                } else {
                    code(begin ? substr(line, 1, begin - 1) : line)
                    inside = begin > 0
                    line = begin ? substr(line, begin + 2) : ""
                }
            }
        }
        END {
            for (i = 1; i <= n; i++) {
                split("", seen)
                known = kinds[i] == "file" ? names[i] in exists : reaches(files[i], names[i])
                if (!known && !index(foreign, " " names[i] " ")) print files[i] ":" lines[i], names[i]
            }
        }' "$@"
}

sample=$(mktemp -d)
trap 'rm -rf "$sample"' EXIT
cat >"$sample/a.h" <<'END'
/* part.h: `there` is in b.h, and `absent` nowhere. See b.h and c.h. */
#include "b.h"
int x; /* `x`, `y` of a.c, "/*" */
END
echo 'int there;' >"$sample/b.h"
cat >"$sample/a.c" <<'END'
char quote = '"', *y = "/* `string` */";
END
printf 'any/part.h\nany/a.c\n' >"$sample/paths"
find . -path ./build -prune -o -type f -print | sed 's|^\./||' >"$sample/all"
mapfile -t sources < <(find config engine server tests weights -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' | sort)

echo 1..2
failed=0
found=$(unknown "$sample/paths" "$sample"/*.[ch] | sed 's/.*://' | paste -sd ' ')
[ "$found" = "1 absent 1 c.h" ] || { printf 'not ' && failed=1; }
echo "ok 1 - names that do not exist are found (found $found)"
found=$(unknown "$sample/all" "${sources[@]}")
[ -z "$found" ] || { printf 'not ' && failed=1; }
echo "ok 2 - files and words that comments of ${#sources[@]} files name exist"
[ -z "$found" ] || echo "# ${found//$'\n'/$'\n'# }"
exit $failed
