# shellcheck shell=bash disable=SC2154
# table.sh: collects and prints the rows of check.sh's table. After each row the whole table is written into the log
# folder. The table and all logs are also copied into $OUT, so that a killed check.sh leaves its results. check.sh sets
# $log and $heading.
rows=() ran=0 failed=0 not_run=0 complete=
table=$log/table.txt

# add NAME FOUND WANTED VERDICT
add() { rows+=("$@"); }

add_not_run() {
    add "$1" - - "not run: $2"
    not_run=$((not_run + 1))
}

# Prints one line for each goal, with tabs. Without bench.json, all goals are "not measured". Without python3, no goal
# is listed.
goal_rows() {
    local results=()
    [ ! -e "$log/bench.json" ] || results=("$log/bench.json")
    python3 tests/gpu/goals.py --tabs "${results[@]}" 2>/dev/null || true
}

# verdict GOAL_ROWS: prints the last line of the table.
verdict() {
    local said="nothing failed" missed unknown
    missed=$(grep -c 'NOT MET$' <<<"$1" || true)
    unknown=$(grep -c 'not measured$' <<<"$1" || true)
    [ $ran != 0 ] || said="nothing ran: FAILED"
    [ "$missed" = 0 ] || said="$missed goals NOT MET"
    [ $failed = 0 ] || said="$failed FAILED$([ "$missed" = 0 ] || echo ", $missed goals NOT MET")"
    [ -n "$1" ] || unknown=all
    [ "$unknown" = 0 ] || said+=", $unknown goals not measured"
    [ $not_run = 0 ] || said+=", $not_run not run"
    [ -n "$complete" ] || said="NOT FINISHED: $said"
    echo "$said"
}

print_table() {
    local goals line=()
    goals=$(goal_rows)
    echo "$heading"
    printf '%-66s %-40s %-9s %s\n' "" found wanted ""
    [ ${#rows[@]} = 0 ] || printf '%-66s %-40s %-9s %s\n' "${rows[@]}"
    while IFS=$'\t' read -ra line; do
        [ ${#line[@]} = 0 ] || printf '%-66s %-40s %-9s %s\n' "${line[@]}"
    done <<<"$goals"
    echo "$SECONDS s; logs are in $log"
    verdict "$goals"
}

# Writes the table, and copies it with the logs and the files of bench.py into $OUT. Each file is replaced as a whole.
# All logs are in one archive, because the number of files in $OUT may be limited.
keep() {
    print_table >"$table.new"
    mv "$table.new" "$table"
    [ -n "${OUT:-}" ] || return 0
    local name
    tar -C "$log" -czf "$OUT/logs.new" . && mv "$OUT/logs.new" "$OUT/logs.tar.gz"
    for name in table.txt bench.json bench.md; do
        [ ! -e "$log/$name" ] || { cp "$log/$name" "$OUT/$name.new" && mv "$OUT/$name.new" "$OUT/$name"; }
    done
}

# Succeeds if something ran, nothing failed and no goal was missed.
good() { [ $ran != 0 ] && [ $failed = 0 ] && ! grep -q 'NOT MET$' "$table"; }
