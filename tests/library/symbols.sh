#!/usr/bin/env bash
# tests/library/symbols.sh LIBRARY: it exports what src/library/exports.map lists, which is what include/heddle.h declares.
set -euo pipefail
library=$1
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
bad=0
same() { # WHAT EXPECTED FOUND
  [ "$2" = "$3" ] && return
  printf '%s:\n' "$1"
  diff <(echo "$2") <(echo "$3") || true
  bad=1
}
listed=$(awk '/^HEDDLE_[0-9]+ / { version = $1 } /^ +heddle_[a-z_]+;$/ { sub(/;/, ""); print $1 "@@" version }' src/library/exports.map | sort)
same "exported by $library, and listed in exports.map" "$listed" \
  "$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort)"
same "declared in heddle.h, and listed in exports.map" "$(sed 's/@@.*//' <<<"$listed")" \
  "$(tr '\n' ' ' <include/heddle.h | grep -oE 'HEDDLE_API [^;(]*\(' | grep -oE 'heddle_[a-z_]+\(' | tr -d '(' | sort)"
same "soname" libheddle.so.1 "$(objdump -p "$library" | sed -nE 's/^ *SONAME +//p')"
exit $bad
