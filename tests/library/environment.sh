# Sourced with BUILD: Python finds the library of that build. Under the address sanitizer its runtime comes first, and leaks
# are not looked for: the interpreter keeps what it has. clang's has no part of "undefined" for C++, which comes from a second
# runtime; both would handle signals.
if ! command -v python3 >/dev/null; then
  echo "there is no python3"
  exit 77
fi
export HEDDLE_LIBRARY=$1/libheddle.so HEDDLE_DEVICE=cpu PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
python=(python3)
runtime=$(objdump -p "$1/example_chat" | sed -nE 's/^ *NEEDED +(libclang_rt\.asan.*|libasan.*)/\1/p')
if [ "$runtime" ] || nm "$1/example_chat" | grep __asan_init >/dev/null; then
  case $runtime in
    libasan*) runtime=$(gcc -print-file-name="$runtime") ;;
    *) runtime="$(clang -print-file-name="libclang_rt.asan-$(uname -m).so") $(clang -print-file-name="libclang_rt.ubsan_standalone-$(uname -m).so")" ;;
  esac
  no_signals=handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_abort=0:handle_sigfpe=0:handle_sigtrap=0:use_sigaltstack=0
  python=(env "LD_PRELOAD=$runtime" "ASAN_OPTIONS=detect_leaks=0:$no_signals" "UBSAN_OPTIONS=$no_signals" python3)
fi
