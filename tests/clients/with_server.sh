#!/usr/bin/env bash
# Starts the server on a free port, runs a client against it, and ends the server as an administrator does: with SIGTERM,
# after which it must finish the response in progress and exit with status 0.
#   with_server.sh PROGRAM FOLDER CLIENT    the name of a .mjs file here, curl or schemas
# FOLDER: for the clients' packages and the server's log
# Exit status 77: something that a client needs is missing.
set -uo pipefail
program=$(readlink -f "$1") folder=$2 client=$3
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
key=k-$RANDOM$RANDOM
skip() { echo "skipped: $*"; exit 77; }
# Of clients that run at the same time, one installs the packages.
install_packages() {
  cmp -s "$here/package-lock.json" node_modules/.package-lock-of-heddle && return
  cp "$here"/{package.json,package-lock.json} . || exit 1
  npm ci --prefer-offline --fetch-retries=0 --no-audit --no-fund --ignore-scripts >npm.log 2>&1 &&
    cp package-lock.json node_modules/.package-lock-of-heddle
}
with_schemas() { python3 "$here/schemas.py" "$@" --count 60 --max-tokens 100; }

command -v curl >/dev/null || skip 'curl is not installed'
mkdir -p "$folder" && cd "$folder" || exit 1
options=(--max-queue 8 --kv-tokens 1024)
case $client in
  openai | openai_tools | openai_responses | langchain | langchain_responses | ai_sdk | anthropic | ai_sdk_anthropic | ollama | rerank | types)
    command -v node >/dev/null && command -v npm >/dev/null || skip 'node or npm is not installed'
    [ "${client#langchain}" = "$client" ] || [ "$(node -p 'parseInt(process.versions.node)')" -ge 20 ] ||
      skip "LangChain needs node 20 or later, found $(node --version)"
    { flock 9 && install_packages; } 9>packages.lock || { tail -n 3 npm.log; skip 'npm cannot get the clients'; }
    cp "$here/$client.mjs" "$here/response_events.mjs" . || exit 1
    # more than weft was trained for: tools, calls and their results are long texts in its small vocabulary
    [ "$client" = openai ] || options=(--ctx 2048 --kv-tokens 4096)
    [ "$client" != rerank ] || { node "$here/tiny_reranker.mjs" tiny-reranker && options=(tiny-reranker); } || exit 1
    run=(node "$client.mjs") ;;
  curl) run=(bash "$here/curl.sh") ;;
  schemas)
    python3 -c 'import jsonschema' 2>/dev/null || skip 'python3-jsonschema is not installed'
    run=(with_schemas) ;;
  *) echo "usage: with_server.sh PROGRAM FOLDER CLIENT, the name of a .mjs file beside this, curl or schemas" >&2; exit 2 ;;
esac

log=server-$client.log
umask 077
printf '%s\n' "$key" >"keys-$client"
"$program" serve --port 0 --api-key-file "keys-$client" "${options[@]}" --device cpu >"$log" 2>&1 &
server=$!
trap 'kill -KILL "$server" 2>/dev/null' EXIT
url=
for _ in $(seq 600); do
  url=$(grep -oE 'https?://[0-9.]+:[0-9]+' "$log" | head -n 1)
  [ "$url" ] && curl -sf "$url/health/ready" >/dev/null && break
  kill -0 "$server" 2>/dev/null || { cat "$log"; echo 'the server ended'; exit 1; }
  sleep 0.1
done
[ "$url" ] || { cat "$log"; echo 'the server printed no address'; exit 1; }

failed=0
"${run[@]}" "$url" "$key" || failed=1

last=
if [ "$client" != rerank ]; then  # its model generates no text
  rm -f "last-$client"  # of an earlier run: its text is not this response's
  curl -sN "$url/v1/completions" -H 'Content-Type: application/json' -H "Authorization: Bearer $key" \
    -d '{"prompt":"Once","max_tokens":300,"ignore_eos":true,"stream":true}' >"last-$client" &
  last=$!
  for _ in $(seq 100); do [ -s "last-$client" ] && break; sleep 0.05; done
fi
kill -TERM "$server"
wait "$server"
status=$?
trap - EXIT
if [ "$last" ]; then
  wait "$last"
  if ! grep -q '^data: \[DONE\]' "last-$client"; then
    echo "a response was in progress at SIGTERM, and its end is missing: $(tail -n 2 "last-$client")"
    failed=1
  fi
fi
if [ $status -ne 0 ]; then
  echo "the server ended with status $status after SIGTERM"
  failed=1
fi
[ $failed -eq 0 ] || tail -n 20 "$log"
exit $failed
