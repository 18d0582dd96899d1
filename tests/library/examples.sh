#!/usr/bin/env bash
# tests/library/examples.sh BUILD: the examples print what the program's own commands print.
set -euo pipefail
build=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
. tests/library/environment.sh "$build"
bad=0
same() { # WHAT EXPECTED FOUND
  [ "$2" = "$3" ] && return
  printf '%s: expected\n%s\nfound\n%s\n' "$1" "$2" "$3"
  bad=1
}

conversation=$'hi\nTell me a "story" about a c\\at.\nAnd then?'
expected=$("$build/heddle" chat weft --device cpu --temp 0 -n 40 <<<"$conversation" 2>/dev/null)
same examples/c/chat.c "$expected" "$("$build/example_chat" weft 40 <<<"$conversation")"
same examples/python/chat.py "$expected" "$("${python[@]}" examples/python/chat.py weft 40 <<<"$conversation")"

texts=("a cat" "a kitten" "the sea" "")
expected=$("$build/heddle" embed weft --device cpu "${texts[@]:0:3}" 2>/dev/null | python3 -c '
import json, sys
first, *others = [json.loads(line) for line in sys.stdin]
for name, other in zip(sys.argv[1:], others):
    print("%.6f  %s" % (sum(a * b for a, b in zip(first, other)), name))' "${texts[@]:1:2}")
same examples/c/similarity.c "$expected" "$("$build/example_similarity" weft "${texts[@]:0:3}")"

prompts=("Once upon a time" "The dog" "A girl")
expected=$(for prompt in "${prompts[@]}"; do "$build/heddle" run weft --device cpu --temp 0 -n 20 -p "$prompt" 2>/dev/null; done)
same examples/python/parallel.py "$expected" "$("${python[@]}" examples/python/parallel.py weft 20 "${prompts[@]}")"

same "a model that is not there" "/nowhere.gguf: there is no such file or folder" \
  "$("$build/example_chat" /nowhere.gguf 2>&1 </dev/null || true)"
same "the same in Python" "/nowhere.gguf: there is no such file or folder" \
  "$("${python[@]}" examples/python/chat.py /nowhere.gguf 2>&1 </dev/null || true)"
exit $bad
