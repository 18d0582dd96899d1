#!/usr/bin/env bash
# The real Codex against `heddle serve`, in a network namespace of its own, so that nothing it tries leaves the machine.
#   codex.sh PROGRAM FOLDER [CODEX]
# FOLDER: for Codex, its home and what passed. CODEX: its program; without it, npm gets the package @openai/codex.
# Two runs: one as Codex is, which must print an answer; and one through codex_proxy.mjs, which forces a call (it says
# how), where Codex must read a file with it and send its text back. It needs root (unshare -n), ip and node, and takes
# from one minute to several: Codex begins with 11 000 tokens, and weft, the built-in model, has to read them on the CPU.
# Exit status 77: something that it needs is missing.
set -uo pipefail
version=0.166.0
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
skip() { echo "skipped: $*"; exit 77; }
if [ "${1-}" != --inside ]; then
  [ $# -ge 2 ] || { echo 'usage: codex.sh PROGRAM FOLDER [CODEX]' >&2; exit 2; }
  program=$(readlink -f "$1") folder=$2 codex=${3-}
  for tool in unshare ip node curl; do command -v $tool >/dev/null || skip "$tool is not installed"; done
  unshare -n true 2>/dev/null || skip 'no network namespace can be made here'
  mkdir -p "$folder" && cd "$folder" || exit 1
  if [ -z "$codex" ]; then
    case $(uname -m) in x86_64) name=linux-x64 ;; aarch64) name=linux-arm64 ;; *) skip "no Codex for $(uname -m)" ;; esac
    if [ ! -d package ]; then
      npm pack "@openai/codex@$version-$name" >npm.log 2>&1 || { tail -n 3 npm.log; skip 'npm cannot get Codex'; }
      tar xzf openai-codex-*.tgz || exit 1
    fi
    codex=$(ls "$PWD"/package/vendor/*/bin/codex) || exit 1
  fi
  exec unshare -n "$here/codex.sh" --inside "$program" "$codex"
fi

program=$2 codex=$3 server=8091 proxy=8092 word=marigold
ip link set lo up || exit 1
rm -rf home work passed.log
mkdir -p home/.codex work
echo "The secret word is $word." >work/note.txt
cat >schema.json <<'S'
{"type":"object","properties":{"answer":{"type":"string","enum":["I have read the note."]}},"required":["answer"],"additionalProperties":false}
S
config() { # PORT
  cat <<C
model = "weft"
model_provider = "heddle"
model_context_window = 32768
[model_providers.heddle]
name = "heddle"
base_url = "http://127.0.0.1:$1/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 3600000
env_key = "HEDDLE_KEY"
C
}
export HEDDLE_KEY=k-$RANDOM$RANDOM
"$program" serve --port $server --api-key $HEDDLE_KEY --device cpu --ctx 32768 --kv-tokens 65536 >server.log 2>&1 &
serving=$!
node "$here/codex_proxy.mjs" $proxy "http://127.0.0.1:$server" passed.log &
between=$!
trap 'kill $serving $between 2>/dev/null' EXIT
for _ in $(seq 300); do curl -sf "http://127.0.0.1:$server/health/ready" >/dev/null && break; sleep 0.1; done

failed=0
run() { # NAME, then what Codex is called with
  local name=$1
  shift
  (cd work && HOME=$PWD/../home "$codex" exec --skip-git-repo-check "$@" </dev/null) >"$name.out" 2>"$name.err"
  local status=$?
  echo "$name: exit status $status, answer: $(head -c 300 "$name.out")"
  if [ $status -ne 0 ] || [ ! -s "$name.out" ]; then
    failed=1
    tail -n 20 "$name.err"
  fi
}
config $proxy >home/.codex/config.toml
# Codex has a sandbox of its own, which needs more rights than containers give; this namespace is enough
run forced --dangerously-bypass-approvals-and-sandbox --output-schema ../schema.json 'Read note.txt'
node "$here/codex_check.mjs" passed.log $word || failed=1
config $server >home/.codex/config.toml
run plain 'Say hello'
[ $failed -eq 0 ] || tail -n 20 server.log
exit $failed
