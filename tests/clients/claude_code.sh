#!/usr/bin/env bash
# The real Claude Code against `heddle serve` with weft, in a network namespace of its own: nothing it tries leaves the machine.
#   claude_code.sh PROGRAM CLAUDE FOLDER
# PROGRAM: heddle. CLAUDE: Claude Code's program, of the package @anthropic-ai/claude-code-linux-ARCH. FOLDER: for logs.
# Not part of ./test: Claude Code is a download of 100 MB, and its prompts take weft half a minute.
set -euo pipefail
[ $# -eq 3 ] || { echo 'usage: claude_code.sh PROGRAM CLAUDE FOLDER' >&2; exit 2; }
program=$(readlink -f "$1") claude=$(readlink -f "$2") here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
mkdir -p "$3" && cd "$3"
if [ "${HEDDLE_ALONE:-}" != 1 ]; then
  HEDDLE_ALONE=1 exec unshare --map-root-user --net "$here/claude_code.sh" "$program" "$claude" "$PWD"
fi
ip link set lo up
"$program" serve --port 9001 --ctx 8192 --device cpu >server.log 2>&1 &
server=$!
trap 'kill "$server"' EXIT
for _ in $(seq 300); do curl -sf http://127.0.0.1:9001/health/ready >/dev/null && break; sleep 0.1; done
node "$here/claude_code.mjs" http://127.0.0.1:9001 "$claude"
