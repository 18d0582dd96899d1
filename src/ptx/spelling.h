// How PTX spells the modifiers of the IR, for mnemonic.cpp and print.cpp.
#pragma once
#include "ptx/ir.h"

namespace heddle::ptx {

const char* spell(Space s);    // "global", "shared", "shared::cluster", ...
const char* spell(Round r);    // "rn"
const char* spell(Compare c);  // "ltu"
const char* spell(Order o);    // "acquire"; weak: ""
const char* spell(Scope s);    // "gpu"; none: ""
const char* spell(Atomic a);   // "and"
const char* spell(ShuffleMode m);
const char* spell(VoteMode m);
const char* spell(L1 l);       // "L1::no_allocate"; normal: ""
const char* spell(L2 l);       // "L2::evict_first"
const char* spell(Special s);  // "%tid.x"; warp and group: "%tid.x", to be shifted

// The type that mov, selp, ld and st know for a value: "b16" for f16, "b32" for tf32, "u32" for u32.
const char* plain(Type t);
// The untyped form by size: "b32" for f32; "pred" for a predicate.
const char* untyped(Type t);
// The type for abs, neg and other signed-only operations: "s32" for u32.
const char* as_signed(Type t);

}  // namespace heddle::ptx
