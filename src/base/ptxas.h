// NVIDIA's offline assembler, where it is installed: does this PTX text assemble for this target, and at what cost?
// heddle never needs it to run; tests and `heddle ptx check` use it where it is on PATH.
#pragma once
#include <cstdint>
#include <string>

namespace heddle {

struct Assembled {
  bool ok = false;           // ptxas exited with 0
  std::string log;           // everything ptxas wrote, trailing newlines removed
  uint32_t registers = 0;    // per thread; the largest, where the text has several entries
  uint32_t spill_bytes = 0;  // spill stores + spill loads, all entries
  bool serialized = false;   // ptxas warned that it serialised asynchronous instructions (wgmma)
};

bool ptxas_found();  // on PATH

// Reads the numbers out of what ptxas wrote, of one entry or of several.
Assembled ptxas_result(bool ok, std::string log);

// Runs `ptxas -v --warn-on-spills -arch=<target>` on `text` in a temporary folder that is removed afterwards.
// Safe to call from several threads. A text that does not assemble is a result (ok == false, see log), not an
// exception; throws Error when ptxas is not on PATH or cannot be run.
Assembled assemble(const std::string& text, const std::string& target);

}  // namespace heddle
