#!/usr/bin/env bash
# Checks the files of deploy/ (check.mjs).
#   check.sh PROGRAM FOLDER    FOLDER: for the packages with published schemas
# Exit status 77: node is missing, or npm cannot get the packages.
set -uo pipefail
program=$(readlink -f "$1") folder=$2
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
skip() { echo "skipped: $*"; exit 77; }

command -v node >/dev/null && command -v npm >/dev/null || skip 'node or npm is not installed'
mkdir -p "$folder" && cd "$folder" || exit 1
if ! cmp -s "$here/package-lock.json" node_modules/.package-lock-of-heddle; then
  cp "$here"/{package.json,package-lock.json} . || exit 1
  npm ci --prefer-offline --fetch-retries=0 --no-audit --no-fund --ignore-scripts >npm.log 2>&1 &&
    cp package-lock.json node_modules/.package-lock-of-heddle || { tail -n 3 npm.log; skip 'npm cannot get the schemas'; }
fi
cp "$here"/check.mjs "$here"/schemas/*.json . || exit 1
exec node --test-reporter=spec check.mjs "$here/../../deploy" "$program"
