#!/usr/bin/env bash
# tests/library/python.sh BUILD: the tests of the Python package.
set -euo pipefail
build=$(readlink -f "$1")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
. tests/library/environment.sh "$build"
HEDDLE_PROGRAM=$build/heddle "${python[@]}" tests/library/python_test.py
