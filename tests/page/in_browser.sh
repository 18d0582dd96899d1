#!/usr/bin/env bash
# The page in Chromium, against a server with the built-in model and against one that answers what the test wants.
#   in_browser.sh PROGRAM FOLDER [--pictures]    FOLDER: for packages, logs and screenshots
# Exit status 77: something is missing.
set -uo pipefail
program=$(readlink -f "$1") folder=$2
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
skip() { echo "skipped: $*"; exit 77; }
command -v node >/dev/null && command -v npm >/dev/null || skip 'node or npm is not installed'
[ "$(node -p 'parseInt(process.versions.node)')" -ge 18 ] || skip "node 18 or later is needed, found $(node --version)"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip 'chromium is not installed'
mkdir -p "$folder" && cd "$folder" || exit 1
if ! cmp -s "$here/package-lock.json" node_modules/.package-lock-of-heddle; then
  cp "$here"/{package.json,package-lock.json} . || exit 1
  npm ci --prefer-offline --fetch-retries=0 --no-audit --no-fund --ignore-scripts >npm.log 2>&1 &&
    cp package-lock.json node_modules/.package-lock-of-heddle || echo 'npm cannot get axe-core: faults for screen readers are not looked for'
fi
exec node "$here/in_browser.mjs" "$program" "$browser" "$PWD" "${@:3}"
