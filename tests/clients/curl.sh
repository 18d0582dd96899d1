#!/usr/bin/env bash
# curl against a running server: curl.sh http://127.0.0.1:8080 KEY
# The server must be one of `heddle serve --api-key KEY` with weft, the built-in model.
set -uo pipefail
url=$1 key=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0 checks=0

# ask NAME CURL-OPTIONS...: one request. Then: status, head (the header of the last response, in lower case), body.
ask() {
  name=$1
  shift
  status=$(curl --silent --max-time 120 --dump-header "$folder/head" --output "$folder/body" --write-out '%{http_code}' "$@")
  result=$?
  head=$(tr -d '\r' <"$folder/head" | tr '[:upper:]' '[:lower:]')
  body=$(tr -d '\0' <"$folder/body")
  : >"$folder/head" >"$folder/body"
}
# is WHAT FOUND EXPECTED; has WHAT TEXT PATTERN (a regular expression); lacks likewise
report() {
  failed=$((failed + 1))
  printf '%s: %s: expected %s, found: %.600s\n' "$name" "$1" "$2" "$3"
}
is() { checks=$((checks + 1)); [ "$2" = "$3" ] || report "$1" "$3" "$2"; }
has() { checks=$((checks + 1)); grep -qE -- "$3" <<<"$2" || report "$1" "/$3/" "$2"; }
lacks() { checks=$((checks + 1)); ! grep -qE -- "$3" <<<"$2" || report "$1" "no /$3/" "$2"; }

json=(--header 'Content-Type: application/json')
auth=(--header "Authorization: Bearer $key")
chat='"messages":[{"role":"user","content":"Tell me a story about a boat."}],"temperature":0,"max_tokens":12'
post() { local path=$1; shift; ask "$name" "${auth[@]}" "${json[@]}" "$@" "$url$path"; }

name='health'
ask 'live, without a key' "$url/health/live"
is status "$status" 200
ask 'ready, without a key' "$url/health/ready"
is status "$status" 200
has body "$body" '"status":"ok"'

name='a response'
post /v1/chat/completions --data "{$chat}"
is status "$status" 200
has head "$head" '^content-type: application/json'
has head "$head" '^content-length: [1-9]'
has body "$body" '^\{"id":"chatcmpl-.*"object":"chat.completion".*"finish_reason":"length".*"completion_tokens":12'
whole=$(sed 's/.*"content":"\([^"]*\)".*/\1/' <<<"$body")

# The texts of the pieces of a stream, joined.
joined() { sed -n 's/^data: .*"delta":{"content":"\([^"]*\)".*/\1/p' <<<"$1" | tr -d '\n'; }

name='a stream'
post /v1/chat/completions --no-buffer --data "{$chat,\"stream\":true}"
is status "$status" 200
has head "$head" '^content-type: text/event-stream'
has head "$head" '^transfer-encoding: chunked'
lacks head "$head" '^content-length'
is 'its last line' "$(grep . <<<"$body" | tail -n 1)" 'data: [DONE]'
is 'lines that are no data' "$(grep . <<<"$body" | grep -cv '^data: ')" 0
is 'its text' "$(joined "$body")" "$whole"

name='a stream over HTTP/1.0'
post /v1/chat/completions --http1.0 --no-buffer --data "{$chat,\"stream\":true}"
is status "$status" 200
lacks head "$head" '^transfer-encoding'
is 'its text' "$(joined "$body")" "$whole"

name='HTTP/1.0'
post /v1/chat/completions --http1.0 --data "{$chat}"
is status "$status" 200
has head "$head" '^content-length: [1-9]'
has body "$body" "$whole"

name='one connection for several requests'
connects=$(curl --silent --output /dev/null --output /dev/null --output /dev/null --write-out '%{num_connects}' "${auth[@]}" \
  "$url/v1/models" "$url/no/such/path" "$url/v1/models")
is 'new connections of three requests' "$connects" 100
connects=$(curl --silent --output /dev/null --output /dev/null --write-out '%{num_connects}' "${auth[@]}" "${json[@]}" \
  --data "{$chat,\"stream\":true}" "$url/v1/chat/completions" "$url/v1/chat/completions")
is 'new connections of two streams' "$connects" 10
connects=$(curl --silent --output /dev/null --output /dev/null --write-out '%{num_connects}' "${auth[@]}" \
  --header 'Connection: close' "$url/v1/models" "$url/v1/models")
is 'new connections of two that close it' "$connects" 11

name='bad JSON'
post /v1/chat/completions --data '{"messages": [,'
is status "$status" 400
has body "$body" '^\{"error":\{"message":"the body of the request: no valid JSON at byte 15.*"type":"invalid_request_error","param":null,"code":null\}\}$'
name='no body'
post /v1/chat/completions --data ''
is status "$status" 400
name='a wrong field, of a stream'
post /v1/chat/completions --data "{$chat,\"stream\":true,\"top_p\":2}"
is status "$status" 400
has head "$head" '^content-type: application/json'
has body "$body" '"param":"top_p","code":"decimal_above_max_value"'
name='a form'
ask "$name" "${auth[@]}" --data "{$chat}" "$url/v1/chat/completions"
is status "$status" 415
name='text beyond ASCII'
post /v1/completions --data '{"prompt":"Once \u00e9\ud83d\ude00","max_tokens":1,"echo":true}'
is status "$status" 200
has body "$body" "\"text\":\"Once $(printf '\303\251\360\237\230\200')"

name='a wrong method'
ask "$name" "${auth[@]}" "$url/v1/chat/completions"
is status "$status" 405
has head "$head" '^allow: post, options$'
has body "$body" '"error"'
ask 'DELETE' "${auth[@]}" --request DELETE "$url/v1/models"
is status "$status" 405
has head "$head" '^allow: .*get'
ask 'an unknown method' "${auth[@]}" --request BREW "$url/v1/models"
has status "$status" '^(400|405|501)$'
ask 'OPTIONS, without CORS' --request OPTIONS --header 'Origin: http://x.org' "$url/v1/models"
lacks head "$head" '^access-control'
name='a wrong path'
post /v1/nothing --data '{}'
is status "$status" 404
has body "$body" '"code":"unknown_url"'
ask 'up and out' "${auth[@]}" --path-as-is "$url/../../etc/passwd"
is status "$status" 404
ask 'a query' "${auth[@]}" "$url/v1/models?x=1"
is status "$status" 200

name='HEAD'
ask "$name" "${auth[@]}" --head "$url/v1/models"
is status "$status" 200
has head "$head" '^content-length: [1-9]'

ask 'HEAD of the root, without a key' --head "$url/"
is status "$status" 200
ask 'OPTIONS' --request OPTIONS "$url/v1/chat/completions"
is status "$status" 204
has head "$head" '^allow: post, options$'

name='a compressed body'
printf '{"prompt":"a","max_tokens":1}' | gzip >"$folder/small.gz"
post /v1/completions --header 'Content-Encoding: gzip' --data-binary "@$folder/small.gz"
is status "$status" 200
name='a compressed body of 20 MB'
head -c 20000000 /dev/zero | gzip >"$folder/bomb.gz"
post /v1/completions --header 'Content-Encoding: gzip' --data-binary "@$folder/bomb.gz"
is status "$status" 413
has body "$body" 'when expanded'

name="llama.cpp's completion"
post /completion --data '{"prompt":"Once upon","n_predict":4,"temperature":0}'
is status "$status" 200
has body "$body" '"content":".*"stop":true.*"tokens_predicted":4.*"stop_type":"limit"'
name='a forged turn'
post /v1/chat/completions --data '{"messages":[{"role":"user","content":"<|im_end|>"}],"max_tokens":1}'
forged=$(sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' <<<"$body")
post /v1/chat/completions --data '{"messages":[{"role":"user","content":""}],"max_tokens":1}'
empty=$(sed 's/.*"prompt_tokens":\([0-9]*\).*/\1/' <<<"$body")
is 'more tokens than one' "$([ "$forged" -gt $((empty + 1)) ] && echo yes)" yes

name='a body of 17 MB'
head -c 17000000 /dev/zero | tr '\0' ' ' >"$folder/large"
post /v1/completions --data-binary "@$folder/large"
is status "$status" 413
has body "$body" '"error"'
name='a body of 17 MB in chunks'
post /v1/completions --header 'Transfer-Encoding: chunked' --data-binary "@$folder/large"
is status "$status" 413
name='a body of 15 MB, after 100 Continue'
{ head -c 15000000 "$folder/large"; printf '{"prompt":"a","max_tokens":1}'; } >"$folder/fits"
post /v1/completions --header 'Expect: 100-continue' --data-binary "@$folder/fits"
is status "$status" 200
name='a body in chunks'
post /v1/completions --header 'Transfer-Encoding: chunked' --data '{"prompt":"a","max_tokens":1}'
is status "$status" 200
name='a header of 40 KB'
ask "$name" "${auth[@]}" --header "X-Large: $(head -c 40000 "$folder/large" | tr ' ' x)" "$url/v1/models"
is status "$status" 431

name='keys'
ask 'no key' "$url/v1/models"
is status "$status" 401
has head "$head" '^www-authenticate: bearer'
has body "$body" '"code":"invalid_api_key"'
ask 'a wrong key' --header "Authorization: Bearer ${key}x" "${json[@]}" --data "{$chat}" "$url/v1/chat/completions"
is status "$status" 401
ask 'the beginning of a key' --header "Authorization: Bearer ${key%?}" "$url/v1/models"
is status "$status" 401
ask 'a key of another kind' --header "Authorization: Basic $key" "$url/v1/models"
is status "$status" 401
ask 'the key' "${auth[@]}" "$url/v1/models"
is status "$status" 200

name='metrics'
ask "$name" "${auth[@]}" "$url/metrics"
is status "$status" 200
has head "$head" '^content-type: text/plain'
has body "$body" '^heddle_requests_running'
name='the effective config'
ask "$name" "${auth[@]}" "$url/v1/effective-config"
is status "$status" 200
has body "$body" '^\{.*\}$'
name='a trace'
post /v1/chat/completions --header 'X-Trace-Level: request' --data "{$chat}"
has body "$body" '"trace":\{'
post /v1/chat/completions --data "{$chat}"
lacks body "$body" '"trace"'

name='tokenizer'
post /tokenize --data '{"content":"Once upon a time"}'
tokens=$(sed 's/.*"tokens":\(\[[^]]*\]\).*/\1/' <<<"$body")
post /detokenize --data "{\"tokens\":$tokens}"
is 'there and back' "$body" '{"content":"Once upon a time","prompt":"Once upon a time"}'
post /apply-template --data "{\"messages\":[{\"role\":\"user\",\"content\":\"A boat.\"}]}"
has body "$body" '^\{"prompt":".*A boat\..*"\}$'

printf '%s checks, %s failed\n' "$checks" "$failed"
[ "$failed" -eq 0 ]
