// A kernel in the instructions that a target has: those that it lacks, and that can be said in several of its own, are
// replaced. So kernels are written once, in the instructions of sm_80.
#pragma once
#include "ptx/target.h"

namespace heddle::ptx {

// For targets before sm_80:
//
// | instruction                      | becomes                                                                   |
// | -------------------------------- | ------------------------------------------------------------------------- |
// | mma of f16 with k = 16           | two with k = 8: sums are rounded once more                                |
// | cp.async, and waiting for it     | a load and a store. The form with a number of bytes takes all or none of  |
// |                                  | them, and traps for another number                                        |
// | min and max that keep NaN (f32)  | min or max, a comparison, a choice                                        |
// | two f32 to f16x2, f32 to bf16    | single conversions; integer arithmetic                                    |
// | redux                            | five shuffles                                                             |
//
// All else stays: verify() refuses what the target still lacks.
Kernel expanded(Kernel kernel, const Target& target);

}  // namespace heddle::ptx
