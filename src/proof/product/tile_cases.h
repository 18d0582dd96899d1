// Cases of what makes and reads tiles: tile_pack, tile_unpack, embedding.
#pragma once
#include "proof/case.h"

namespace heddle::proof {

void add_tile_cases(Sweep sweep, std::vector<Case>& cases);

}  // namespace heddle::proof
