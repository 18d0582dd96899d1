// Instructions of x86-64 that this machine lacks, computed where a program meets them: those of AMX, AVX512-BF16 and
// AVX-VNNI that src/cpu has. So its kernels are tested as they are compiled, on a machine with AVX-512 (AVX-VNNI:
// AVX2).
#pragma once

namespace heddle::test {

// From now on, in all threads of this process. Any other instruction that the machine lacks ends it as before.
void emulate_instructions();

}  // namespace heddle::test
