#!/usr/bin/env bash
# Tests of the page's modules that need no browser. Exit status 77: node is missing.
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" || exit 1
command -v node >/dev/null || { echo 'skipped: node is not installed'; exit 77; }
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' || { echo "skipped: node 18 or later is needed, found $(node --version)"; exit 77; }
# browsers have crypto; node 18 hides it
node -e 'process.exit(parseInt(process.versions.node) > 18 ? 0 : 1)' || export NODE_OPTIONS=--experimental-global-webcrypto
exec node --test ./*_test.mjs
