// The assembler copies the file into the program. HEDDLE_OWN_MODEL is its path.
#include "main/device/own_model.h"

// clang-format off
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    "heddle_own_model_begin:\n"
    ".incbin \"" HEDDLE_OWN_MODEL "\"\n"
    "heddle_own_model_end:\n"
    ".byte 0\n"
    ".popsection\n");
// clang-format on
extern "C" const uint8_t heddle_own_model_begin[] __attribute__((visibility("hidden")));
extern "C" const uint8_t heddle_own_model_end[] __attribute__((visibility("hidden")));

namespace heddle {

std::span<const uint8_t> own_model() { return {heddle_own_model_begin, heddle_own_model_end}; }

}  // namespace heddle
