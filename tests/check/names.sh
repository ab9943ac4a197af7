#!/bin/bash
# names.sh: a name has one meaning in server, engine, weights and config:
# - No tag of a struct or enum is defined twice, except the two that engine/backend.h declares and each backend defines.
# - No public function is defined twice, and no static function of another file has its name.
# - A tag in a header of tests differs from all these tags, except in a C++ namespace.
set -euo pipefail
opaque='backend backend_model'

# Prints "FILE:LINE tag" for each struct and enum that the files define.
tags() {
    awk '
        match($0, /^(template <[^>]*> )?(struct|enum) [a-z0-9_]+ *\{/) {
            tag = substr($0, RSTART, RLENGTH)
            sub(/^template <[^>]*> /, "", tag); sub(/^(struct|enum) /, "", tag); sub(/ *\{$/, "", tag)
            print FILENAME ":" FNR, tag
        }' "$@"
}

# Prints "FILE:LINE function" for each function of the files that other files can call, or for each static function. A
# definition and its "{" begin in column 1. Functions with VARIANT(…) are left out, because each compilation of their
# source gives them another name.
functions() { # public|static FILE…
    awk -v wanted="$1" '
        FNR == 1 { head = "" }
        /^[A-Za-z_].*\(/ && !/;$/ { head = $0; line = FNR }
        /^\{/ && head != "" {
            gsub(/__attribute__\(\([^)]*\)+ */, "", head)
            kind = head ~ /(^|> )(static|INLINE) / ? "static" : "public"
            if (kind == wanted && head !~ /(^|> )(typedef|union|enum) / && head !~ /VARIANT\(/) {
                sub(/\(.*/, "", head); sub(/.*[ *]/, "", head)
                if (head != "main") print FILENAME ":" line, head
            }
            head = ""
        }' "${@:2}"
}

# Reads lines "FILE:LINE name", and prints names that occur in two files. The compiler finds names that occur twice in
# one file.
twice() {
    awk -v opaque=" $opaque " '
        { file = $1; sub(/:.*/, "", file) }
        !seen[file, $2]++ { count[$2]++; places[$2] = places[$2] " " $1 }
        END {
            for (name in count)
                if (count[name] > 1 && !index(opaque, " " name " ")) print name ":" places[name]
        }' | sort
}

# Prints the names of public functions that a static function of another file has, too.
shadowed() {
    { functions public "$@" | sed 's/^/public /'; functions static "$@" | sed 's/^/static /'; } | awk '
        $1 == "public" { place[$3] = $2; next }
        $3 in place { print $3 ": " place[$3], $2 }'
}

# check NUMBER WHAT FOUND: prints the result of a test, which passes if FOUND is empty.
check() {
    if [ -z "$3" ]; then
        echo "ok $1 - $2"
    else
        failed=1
        echo "not ok $1 - $2"
        echo "# ${3//$'\n'/$'\n'# }"
    fi
}

failed=0
sample=$(mktemp -d)
trap 'rm -rf "$sample"' EXIT
cat >"$sample/a.c" <<'END'
struct tile {
};
struct backend {
};
enum kind { ONE };
struct kind *kind_of(int x);
int open_file(int a,
              int b)
{
}
static int run(int x)
{
}
int count(int x)
{
}
END
cat >"$sample/b.cu" <<'END'
template <typename T> struct tile {
};
struct backend {
};
static void count(int x)
{
}
struct kind *kind_of(int x);
static struct kind kind = {.x = ONE};
void open_file(void)
{
}
template <typename T>
void run(T x)
{
}
END
mapfile -t files < <(find server engine weights config -name '*.[ch]' -o -name '*.cu' | sort)
mapfile -t headers < <(grep -rL '^namespace ' tests --include='*.h')

echo 1..4
found="$(tags "$sample"/* | twice | cut -d: -f1) $(functions public "$sample"/* | twice | cut -d: -f1)"
found+=" $(shadowed "$sample"/* | cut -d: -f1 | xargs)"
check 1 "names that come twice are found" "$([ "$found" = "tile open_file run count" ] || echo "found: $found")"
check 2 "no tag of a struct or enum is defined twice" "$(tags "${files[@]}" "${headers[@]}" | twice)"
check 3 "no public function is defined twice" "$(functions public "${files[@]}" | twice)"
check 4 "no static function has the name of another file's public function" "$(shadowed "${files[@]}")"
exit $failed
