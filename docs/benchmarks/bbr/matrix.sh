#!/usr/bin/env bash
# Rounds of cells, one run at a time: matrix.sh PATH_PROGRAM CELLS FIRST LAST. PATH_PROGRAM is the example `path` of a
# release build; a round makes each cell of the file CELLS once, and its number is the seed of what is lost. Prints the rows
# without a header (rows.csv has it). Needs root and /dev/net/tun.
set -euo pipefail
program=$1 cells=$2 first=$3 last=$4
for seed in $(seq "$first" "$last"); do
    grep -v '^#' "$cells" | while read -r link loss seconds flows; do
        # shellcheck disable=SC2086 # flows are words
        nice -n -10 "$program" "$link" "$loss" "$seed" "$seconds" $flows </dev/null ||
            echo "$link,$loss,$seed,$seconds,$flows,,,,,,,,,,,,the program failed,no,"
    done
done
