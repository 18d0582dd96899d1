// The catalog's lines for the layer kernels.
#include "kernels/entry.h"
#include "kernels/norm.h"

namespace heddle::kernels {

void add_layer_kernels(std::vector<Entry>& all) { all.push_back(entry<RmsNorm>()); }

}  // namespace heddle::kernels
