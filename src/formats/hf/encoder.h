// What the descriptions of encoders share.
#pragma once
#include <string>
#include <string_view>

#include "formats/hf/description.h"

namespace heddle::formats::hf {

// The activation of the feed-forward, where it is not the architecture's own; an Error for one that heddle has not.
void put_activation(Description& to, Config& config, std::string_view key, std::string_view usual);
// The sizes, the epsilon of its layer norms, and that tokens see each other in both directions.
void put_encoder(Description& to, const Sizes& sizes);
// A layer norm with its bias.
void add_norm(Description& to, const std::string& name, const std::string& source, uint64_t size);
// Of a classifier: the names of its labels, and that it ranks. How many there are.
uint64_t put_labels(Description& to, Config& config);

}  // namespace heddle::formats::hf
